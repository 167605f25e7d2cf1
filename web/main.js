// Puts the parts together: the server's models, the message box, the keys, the theme.

import {contextOfServer, listModels} from "./api.js";
import {Chats} from "./chats.js";
import {Composer} from "./composer.js";
import {h, icon, setIcon, toast} from "./dom.js";
import {Sidebar} from "./sidebar.js";
import {askKey, openSettings} from "./settings.js";
import {setPreference} from "./store.js";
import {Thread} from "./thread.js";

const THEMES = [["", "screen", "Theme: as the system"], ["light", "sun", "Theme: light"],
  ["dark", "moon", "Theme: dark"]];
const RETRY = [1000, 2000, 4000, 8000];  // ms, the last from then on

const byId = (id) => document.getElementById(id);
const chats = new Chats(changed);
const sidebar = new Sidebar(chats);
const composer = new Composer(chats);
const thread = new Thread(chats, {
  regenerate: (node) => { thread.follows = true; chats.regenerate(node); },
  edit: (node, text) => { thread.follows = true; chats.edit(node, text); },
  show: (node) => chats.show(node),
  key: async (node) => {
    if (!await askKey()) return;
    connect();
    chats.regenerate(node);
  },
  suggest: (text) => composer.fill(text),
});
let models = [];
let tries = 0;
let asking = false;

function changed(what, subject) {
  if (what === "list") {
    sidebar.render();
    composer.render();
  } else if (what === "thread") {
    thread.render();
    showModel();
    composer.render();
    document.title = chats.current.title ? `${chats.current.title} - Orrery` : "Orrery";
  } else if (what === "node") {
    thread.changed(subject);
    byId("spoken").textContent = subject.state === "streaming" ? "Answering" : "The answer ended";
    composer.showMeter();
  } else if (subject.kind === "network") {
    lost();
  } else if (subject.kind === "storage") {
    toast(subject.message);
  }
}

// Asks for the models, and again until the server answers.
async function connect() {
  try {
    models = await listModels();
  } catch (error) {
    if (error.kind === "key") return keyNeeded();
    return lost(error);
  }
  if (tries > 0) toast("The server is back.");
  tries = 0;
  byId("banner").hidden = true;
  const fallback = models.every((model) => !model.context) ? await contextOfServer() : 0;
  for (const model of models) model.context ||= fallback;
  showModel();
  composer.showMeter();
}

function lost(error) {
  const banner = byId("banner");
  banner.textContent = `${error?.message ?? "The server cannot be reached."} Trying again\u2026`;
  banner.hidden = false;
  if (lost.timer) return;
  lost.timer = setTimeout(() => {
    lost.timer = 0;
    connect();
  }, RETRY[Math.min(tries++, RETRY.length - 1)]);
}

async function keyNeeded() {
  if (asking) return;
  asking = true;
  const given = await askKey();
  asking = false;
  if (given) connect();
}

// The conversation's own model if the server still has it, else its first.
function showModel() {
  const {settings} = chats.current;
  const select = byId("model");
  const known = models.some((model) => model.id === settings.model);
  if (models.length && !known) settings.model = models[0].id;
  select.replaceChildren(...models.map(({id}) => h("option", {value: id}, id)));
  select.value = settings.model ?? "";
  select.hidden = !models.length;
  composer.context = models.find((model) => model.id === settings.model)?.context ?? 0;
}

// theme.js has set the theme itself.
function showTheme() {
  const theme = document.documentElement.dataset.theme ?? "";
  const [, name, label] = THEMES.find(([each]) => each === theme) ?? THEMES[0];
  setIcon(byId("theme"), name, label);
}

function nextTheme() {
  const {dataset} = document.documentElement;
  const at = THEMES.findIndex(([value]) => value === (dataset.theme ?? ""));
  const [next] = THEMES[(at + 1) % THEMES.length];
  if (next) dataset.theme = next;
  else delete dataset.theme;
  setPreference("theme", next);
  showTheme();
}

function onkey(event) {
  const control = event.ctrlKey || event.metaKey;
  const pressed = event.key.toLowerCase();
  if (document.querySelector("dialog[open]")) return;
  if (pressed === "escape" && chats.isRunning()) chats.stop();
  else if (control && event.shiftKey && pressed === "o") sidebar.newChat();
  else if (control && !event.shiftKey && pressed === "k") {
    sidebar.toggle(true);
    byId("search").focus();
    byId("search").select();
  } else if (control && !event.shiftKey && pressed === "b") sidebar.toggle();
  else if (pressed === "/" && !control && !event.target.closest("input, textarea, select")) {
    composer.input.focus();
  } else return;
  event.preventDefault();
}

// A conversation has an address of its own, so that back and forward work.
function route() {
  chats.open(location.hash.slice(1));
  composer.focus();
}

composer.onsend = (text) => {
  thread.follows = true;
  const answer = chats.send(text);
  history.replaceState(null, "", `#${chats.current.id}`);
  return answer;
};
composer.oneditlast = () => thread.editLast();
byId("menu").append(icon("menu"));
byId("settings").append(icon("sliders"));
byId("settings").addEventListener("click", () => openSettings(chats));
byId("theme").addEventListener("click", nextTheme);
byId("model").addEventListener("change", (event) => {
  chats.set("model", event.target.value);
  showModel();
  composer.showMeter();
});
document.addEventListener("keydown", onkey);
addEventListener("hashchange", route);
setInterval(() => thread.tick(), 1000);
showTheme();
setIcon(byId("jump"), "down", "To the end");

const stored = await chats.load();
if (!stored) toast("This browser keeps no data: conversations end with the page.");
chats.open(location.hash.slice(1));
thread.render();
sidebar.render();
composer.render();
composer.focus();
connect();
