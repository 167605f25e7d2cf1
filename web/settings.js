// The settings of the open conversation, the keys, and moving conversations in and out.

import {asMarkdown} from "./chats.js";
import {download, h, iconButton, toast} from "./dom.js";
import {key} from "./store.js";

// [name, label, least, greatest, what it does]
const SAMPLING = [
  ["temperature", "Temperature", 0, 2, "0 always takes the likeliest token; higher is freer."],
  ["top_p", "Top-p", 0, 1, "Only the likeliest tokens that together reach this probability."],
  ["top_k", "Top-k", 0, 1000, "Only this many of the likeliest tokens; 0 is all."],
  ["min_p", "Min-p", 0, 1, "Only tokens at least this likely, relative to the likeliest."],
  ["repeat_penalty", "Repeat penalty", 0.5, 2, "Above 1, tokens that came before are less likely."],
  ["presence_penalty", "Presence penalty", -2, 2, "Once for every token that came before."],
  ["frequency_penalty", "Frequency penalty", -2, 2, "For each time that a token came before."],
  ["max_tokens", "Longest answer", 1, 1e6, "In tokens. Empty: until the model ends it."],
  ["seed", "Seed", 0, 4294967295, "The same seed, the same answer."],
];
const EMPTY = {max_tokens: "no limit", seed: "random"};
const WHOLE = ["top_k", "max_tokens", "seed"];
const KEYS = [
  ["Enter", "Send"], ["Shift Enter", "New line"], ["Esc", "Stop the answer"],
  ["Up, in the empty box", "Edit your last message"], ["Ctrl Shift O", "New chat"],
  ["Ctrl K", "Search"], ["Ctrl B", "Show or hide conversations"], ["/", "Go to the message box"],
];

export function openSettings(chats) {
  const {settings} = chats.current;
  const dialog = h("dialog", {id: "settings-dialog", "aria-label": "Settings"});
  const system = h("textarea", {rows: "4", placeholder: "You are a helpful assistant.",
    "aria-label": "System prompt"});
  system.value = settings.system ?? "";
  system.addEventListener("change", () => chats.set("system", system.value.trim()));
  const stop = h("textarea", {rows: "2", "aria-label": "Stop at",
    placeholder: "One text a line"});
  stop.value = settings.stop ?? "";
  stop.addEventListener("change", () => chats.set("stop", stop.value));
  const fields = SAMPLING.map((row) => numberField(chats, row));
  const reset = () => {
    for (const [name] of SAMPLING) chats.set(name, "");
    for (const field of fields) field.querySelector("input").value = "";
  };
  dialog.append(
    h("header", {}, h("h2", {}, "Settings"), h("span", {class: "space"}),
      iconButton("close", "Close", () => dialog.close())),
    h("section", {}, h("h3", {}, "System prompt"), system),
    h("section", {}, h("h3", {}, "Sampling"),
      h("p", {class: "aside"}, "Empty fields leave it to the model. New chats start with these."),
      ...fields, h("label", {class: "tall"}, h("span", {}, "Stop at"), stop),
      h("button", {onclick: reset}, "Leave all to the model")),
    conversationsSection(chats, dialog),
    h("section", {}, h("h3", {}, "Keys"), h("dl", {}, ...KEYS.flatMap(([keys, what]) =>
      [h("dt", {}, keys), h("dd", {}, what)]))));
  showDialog(dialog);
}

function numberField(chats, [name, label, min, max, what]) {
  const input = h("input", {type: "number", name, min, max, inputmode: "decimal",
    placeholder: EMPTY[name] ?? "model\u2019s", step: WHOLE.includes(name) ? "1" : "any"});
  input.value = chats.current.settings[name] ?? "";
  input.addEventListener("change", () => {
    if (input.checkValidity()) chats.set(name, input.value === "" ? "" : Number(input.value));
  });
  return h("label", {title: `${what} From ${min} to ${max}.`}, h("span", {}, label), input);
}

function conversationsSection(chats, dialog) {
  const file = h("input", {type: "file", accept: "application/json,.json", class: "offscreen",
    tabindex: "-1", "aria-label": "File to import"});
  file.addEventListener("change", async () => {
    const count = chats.import(await file.files[0].text());
    dialog.close();
    toast(count ? `Imported ${count} conversations.` : "This file holds no conversations.");
  });
  const day = new Date().toISOString().slice(0, 10);
  const {current} = chats;
  const markdown = h("button", {onclick: () =>
    download(`${current.title.replace(/[^\w -]/g, "").trim() || "chat"}.md`, "text/markdown",
      asMarkdown(current))}, "This one as Markdown");
  markdown.disabled = !current.leaf;
  return h("section", {}, h("h3", {}, "Conversations"), h("div", {class: "row"},
    h("button", {onclick: () => download(`orrery-${day}.json`, "application/json",
      chats.export())}, "Export all"),
    markdown, h("button", {onclick: () => file.click()}, "Import"), file));
}

// Resolves to whether a key was given.
export function askKey() {
  const input = h("input", {type: "password", autocomplete: "off", "aria-label": "API key"});
  const dialog = h("dialog", {id: "key-dialog", "aria-label": "API key"});
  const accept = () => {
    key.set(input.value.trim());
    dialog.close("given");
  };
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") accept();
  });
  dialog.append(h("h2", {}, "This server asks for a key"),
    h("p", {class: "aside"}, "It stays in this tab and is forgotten with it."), input,
    h("div", {class: "row"}, h("span", {class: "space"}),
      h("button", {onclick: () => dialog.close("")}, "Cancel"),
      h("button", {class: "primary", onclick: accept}, "Use it")));
  showDialog(dialog);
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "given"));
  });
}

function showDialog(dialog) {
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();  // the backdrop
  });
  document.body.append(dialog);
  dialog.showModal();
}
