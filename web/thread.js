// The open conversation: its messages, and following the end while an answer grows.

import {h, svg} from "./dom.js";
import {MessageView} from "./message.js";
import {shownPath, siblings} from "./tree.js";

const NEAR_END = 48;  // pixels
const SUGGESTIONS = [
  "Explain why the sky is blue, in three sentences.",
  "Write a Python function that merges two sorted lists.",
  "Name five things to see in the night sky.",
];

export class Thread {
  // actions: those of MessageView, and suggest(text)
  constructor(chats, actions) {
    this.chats = chats;
    this.actions = actions;
    this.element = document.getElementById("thread");
    this.scroller = document.getElementById("scroll");
    this.jump = document.getElementById("jump");
    this.views = new Map();  // node id -> MessageView
    this.conversation = "";
    this.follows = true;
    this.frame = 0;
    this.dirty = new Set();
    this.scroller.addEventListener("scroll", () => this.onscroll());
    this.jump.addEventListener("click", () => this.toEnd(true));
    new ResizeObserver(() => this.toEnd()).observe(this.element);
    new ResizeObserver(() => this.toEnd()).observe(this.scroller);
  }

  render() {
    const {current} = this.chats;
    if (this.conversation !== current.id) {
      this.conversation = current.id;
      this.views.clear();
      this.follows = true;
    }
    this.dirty.clear();
    const path = shownPath(current);
    for (const node of path) this.view(node).update(siblings(current, node), this.busy());
    const shown = new Set(path.map((node) => node.id));
    for (const id of this.views.keys()) if (!shown.has(id)) this.views.delete(id);
    this.place(path.length ? path.map((node) => this.views.get(node.id).element) :
      [this.welcome()]);
    this.toEnd();
  }

  // Elements that stay are not moved, so that they keep the focus.
  place(elements) {
    const kept = new Set(elements);
    for (const child of [...this.element.children]) if (!kept.has(child)) child.remove();
    elements.forEach((element, index) => {
      const there = this.element.children[index];
      if (there !== element) this.element.insertBefore(element, there ?? null);
    });
  }

  view(node) {
    let view = this.views.get(node.id);
    if (view?.node !== node) {
      view = new MessageView(node, this.actions);
      this.views.set(node.id, view);
    }
    return view;
  }

  busy() {
    return this.chats.isRunning();
  }

  // Many tokens may come between two frames; and no more than a third of the time goes into frames.
  changed(node) {
    if (node.state !== "streaming") return this.render();
    if (!this.views.has(node.id)) return;
    this.dirty.add(node);
    this.frame ||= requestAnimationFrame(() => {
      const start = performance.now();
      for (const each of this.dirty) {
        this.views.get(each.id)?.update(siblings(this.chats.current, each), this.busy());
      }
      this.dirty.clear();
      this.toEnd();
      setTimeout(() => {
        this.frame = 0;
        if (this.dirty.size) this.changed(this.dirty.values().next().value);
      }, Math.min(500, 2 * (performance.now() - start)));
    });
  }

  tick() {
    for (const view of this.views.values()) {
      if (view.node.state === "streaming") view.tick();
    }
  }

  editLast() {
    const last = shownPath(this.chats.current).findLast((node) => node.role === "user");
    if (last && !this.busy()) this.views.get(last.id)?.edit();
  }

  onscroll() {
    const {scrollTop, clientHeight, scrollHeight} = this.scroller;
    this.follows = scrollTop + clientHeight >= scrollHeight - NEAR_END;
    this.jump.hidden = this.follows;
  }

  toEnd(force = false) {
    this.follows ||= force;
    if (this.follows) this.scroller.scrollTop = this.scroller.scrollHeight;
    this.jump.hidden = this.follows;
  }

  welcome() {
    const orbit = (r, speed, size, hue) => svg("g", {class: `orbit ${speed}`},
      svg("circle", {class: "track", cx: 60, cy: 60, r}),
      svg("circle", {class: hue, cx: 60 + r, cy: 60, r: size}));
    return h("section", {class: "welcome"},
      svg("svg", {class: "orrery", viewBox: "0 0 120 120", "aria-hidden": "true"},
        svg("circle", {class: "sun", cx: 60, cy: 60, r: 9}),
        orbit(22, "fast", 3, "stone"), orbit(37, "middle", 4.5, "blue"),
        orbit(53, "slow", 3.5, "stone")),
      h("h1", {}, "What would you like to know?"),
      h("p", {}, "Your words go to this server and nowhere else."),
      h("div", {class: "suggestions"}, ...SUGGESTIONS.map((text) =>
        h("button", {onclick: () => this.actions.suggest(text)}, text))));
  }
}
