// The list of conversations: by date, searched, renamed, removed.

import {h, icon, iconButton, toast} from "./dom.js";

const DAY = 86400000;
const SNIPPET = 70;

export class Sidebar {
  constructor(chats) {
    this.chats = chats;
    this.list = document.getElementById("conversations");
    this.search = document.getElementById("search");
    this.renaming = null;
    this.search.addEventListener("input", () => this.render());
    this.search.addEventListener("keydown", (event) => this.onsearch(event));
    document.getElementById("menu").addEventListener("click", () => this.toggle());
    document.getElementById("scrim").addEventListener("click", () => this.toggle(false));
    document.getElementById("new-chat").append(icon("plus"), "New chat");
    document.getElementById("new-chat").addEventListener("click", () => this.newChat());
  }

  // On a wide window the list makes room, on a narrow one it lies above the page.
  toggle(open) {
    const narrow = matchMedia("(max-width: 800px)").matches;
    document.body.classList.toggle(narrow ? "with-sidebar" : "without-sidebar",
      open === undefined ? undefined : narrow ? open : !open);
  }

  newChat() {
    location.hash = "";
    document.body.classList.remove("with-sidebar");
  }

  onsearch(event) {
    if (event.key === "Escape" && this.search.value) {
      this.search.value = "";
      this.render();
    } else if (event.key === "Enter" || event.key === "ArrowDown") {
      const first = this.list.querySelector("a");
      if (event.key === "Enter") first?.click();
      else first?.focus();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  // Many changes may come at once, from another tab for example.
  render() {
    this.timer ||= setTimeout(() => {
      this.timer = 0;
      this.draw();
    });
  }

  draw() {
    if (this.renaming) return;
    const words = this.search.value.toLowerCase().trim();
    const shown = this.chats.list()
      .map((conversation) => [conversation, words ? snippetOf(conversation, words) : ""])
      .filter(([, snippet]) => snippet !== null);
    // What would look the same stays, so that a click is not lost between down and up.
    const look = JSON.stringify([words, this.chats.current.id, shown.map(([each, snippet]) =>
      [each.id, each.title, groupOf(each.updated), this.chats.isRunning(each), snippet])]);
    if (look === this.look) return;
    this.look = look;
    const children = [];
    let group = "";
    for (const [conversation, snippet] of shown) {
      const day = groupOf(conversation.updated);
      if (day !== group) children.push(h("h2", {}, day));
      group = day;
      children.push(this.item(conversation, snippet));
    }
    if (!children.length) {
      children.push(h("p", {class: "note"}, words ? "Nothing found." : "No conversations yet."));
    }
    this.list.replaceChildren(...children);
  }

  item(conversation, snippet) {
    const current = conversation.id === this.chats.current.id;
    const running = this.chats.isRunning(conversation);
    const link = h("a", {href: `#${conversation.id}`, "aria-current": current ? "page" : null,
      title: conversation.title, onclick: () => document.body.classList.remove("with-sidebar")},
      running ? h("i", {class: "running", title: "Answering"}) : null,
      h("span", {}, conversation.title || "Untitled"),
      snippet ? h("small", {}, snippet) : null);
    const item = h("div", {class: `conversation${current ? " current" : ""}`}, link,
      iconButton("pencil", "Rename", () => this.rename(conversation, item)),
      iconButton("trash", "Delete", () => this.remove(conversation)));
    return item;
  }

  rename(conversation, item) {
    const input = h("input", {"aria-label": "Title", maxlength: "200"});
    input.value = conversation.title;
    const done = (keep) => {
      if (!this.renaming) return;
      this.renaming = null;
      const title = input.value.trim();
      if (keep && title) this.chats.rename(conversation, title);
      this.render();
    };
    input.addEventListener("blur", () => done(true));
    input.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter" || event.key === "Escape") done(event.key === "Enter");
    });
    this.renaming = conversation;
    this.look = "";
    item.replaceChildren(input);
    input.select();
  }

  remove(conversation) {
    const current = conversation.id === this.chats.current.id;
    this.chats.remove(conversation);
    if (current) location.hash = "";
    toast(`Deleted \u201c${conversation.title}\u201d.`, "Undo", () =>
      this.chats.restore(conversation));
  }
}

function groupOf(time) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (time >= midnight) return "Today";
  if (time >= midnight - DAY) return "Yesterday";
  if (time >= midnight - 7 * DAY) return "Last seven days";
  return new Date(time).toLocaleDateString(undefined, {month: "long", year: "numeric"});
}

// Where the words are found: "" in the title, the text around them in a message, null nowhere.
function snippetOf(conversation, words) {
  if (conversation.title.toLowerCase().includes(words)) return "";
  for (const {content} of Object.values(conversation.nodes)) {
    const at = content.toLowerCase().indexOf(words);
    if (at < 0) continue;
    const start = Math.max(0, at - 20);
    return (start ? "\u2026" : "") + content.slice(start, start + SNIPPET).replace(/\s+/g, " ");
  }
  return null;
}
