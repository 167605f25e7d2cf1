// One message: its text, what can be done with it, and what it cost.

import {copyButton, h, iconButton} from "./dom.js";
import {MarkdownView} from "./markdown.js";

const LONG = 1500;  // characters of a user's message that are shown before the rest is folded

export class MessageView {
  // actions {copy, regenerate(node), edit(node, text), show(node), key()}
  constructor(node, actions) {
    this.node = node;
    this.actions = actions;
    this.body = h("div", {class: "body"});
    this.footer = h("footer");
    this.element = h("article", {class: node.role, "data-id": node.id,
      "aria-label": node.role === "user" ? "You" : "Answer"}, this.body, this.footer);
    if (node.role === "user") this.fillUser();
    else this.buildAnswer();
  }

  fillUser() {
    const {content} = this.node;
    const text = h("div", {class: "text"}, content);
    this.body.replaceChildren(text);
    if (content.length <= LONG && content.split("\n").length <= 20) return;
    text.classList.add("folded");
    const more = h("button", {class: "link", onclick: () => {
      more.textContent = text.classList.toggle("folded") ? "Show all" : "Show less";
    }}, "Show all");
    this.body.append(more);
  }

  buildAnswer() {
    this.markdown = new MarkdownView();
    this.summary = h("summary");
    this.thoughts = h("div", {class: "thoughts"});
    this.reasoning = h("details", {class: "reasoning", hidden: true}, this.summary, this.thoughts);
    this.waiting = h("p", {class: "waiting"}, h("i"), h("span"));
    this.notice = h("div");
    this.body.replaceChildren(this.reasoning, this.markdown.element, this.waiting, this.notice);
  }

  // others: the siblings of the node, itself included. busy: an answer is being written here.
  update(others, busy) {
    const {node} = this;
    this.others = others;
    this.busy = busy;
    if (node.role === "assistant") this.updateAnswer();
    const streaming = node.state === "streaming";
    this.element.classList.toggle("streaming", streaming);
    this.updateFooter(streaming);
  }

  // Its buttons stay as long as they would be the same, so that they keep the focus.
  updateFooter(streaming) {
    const {node, others, busy} = this;
    const stats = statsOf(node);
    const state = [streaming, busy, others.length, others.indexOf(node), !node.content, stats];
    if (this.editor || this.footerState === state.join()) return;
    this.footerState = state.join();
    this.footer.replaceChildren(...(streaming ? [] : this.tools()));
    if (node.role === "assistant") {
      this.footer.append(h("span", {class: "stats", title: node.model}, stats));
    }
  }

  updateAnswer() {
    const {node} = this;
    const streaming = node.state === "streaming";
    this.reasoning.hidden = !node.reasoning;
    if (node.reasoning) {
      const thinking = streaming && !node.content;
      this.summary.textContent = thinking ? "Thinking\u2026" : thoughtFor(node.thought);
      this.summary.classList.toggle("alive", thinking);
      if (this.thoughts.textContent !== node.reasoning) this.thoughts.textContent = node.reasoning;
    }
    this.markdown.update(node.content);
    this.waiting.hidden = !streaming || Boolean(node.content) || Boolean(node.reasoning);
    const notice = [node.state, node.error?.message, node.cut, !node.content].join();
    if (notice !== this.noticeState) this.notice.replaceChildren(...this.notices());
    this.noticeState = notice;
    this.tick();
  }

  // Called now and then while nothing has come yet.
  tick() {
    const seconds = Math.floor((Date.now() - this.node.created) / 1000);
    this.waiting.lastChild.textContent =
      seconds < 2 ? "" : `Reading the conversation, ${seconds} s`;
  }

  notices() {
    const {node, actions} = this;
    if (node.state === "stopped") return [h("p", {class: "aside"}, "Stopped.")];
    if (node.state === "done" && node.cut) {
      return [h("p", {class: "aside"}, "Ended at the length limit.")];
    }
    if (node.state === "done" && !node.content) {
      return [h("p", {class: "aside"}, "The answer is empty.")];
    }
    if (node.state !== "failed") return [];
    const {kind, message} = node.error ?? {};
    const advice = kind === "context" ?
      "Edit an earlier message to branch off, or start a new chat." : null;
    const button = kind === "key" ?
      h("button", {onclick: () => actions.key(node)}, "Enter the key") :
      h("button", {onclick: () => actions.regenerate(node)}, "Try again");
    return [h("div", {class: "failure", role: "alert"},
      h("div", {}, h("strong", {}, message), advice && h("p", {}, advice)), button)];
  }

  tools() {
    const {node, actions, others, busy} = this;
    const tools = [];
    if (others.length > 1) tools.push(this.branches());
    if (node.content) tools.push(copyButton(() => node.content, "Copy"));
    if (!busy) {
      if (node.role === "assistant") {
        tools.push(iconButton("redo", "Answer again", () => actions.regenerate(node)));
      }
      if (node.content) tools.push(iconButton("pencil", "Edit", () => this.edit()));
    }
    return tools;
  }

  branches() {
    const {node, actions, others} = this;
    const at = others.indexOf(node);
    const step = (name, label, other) => {
      const button = iconButton(name, label, () => actions.show(other));
      button.disabled = !other || this.busy;
      return button;
    };
    return h("span", {class: "branches"},
      step("left", "Earlier branch", others[at - 1]),
      h("span", {}, `${at + 1}/${others.length}`),
      step("right", "Later branch", others[at + 1]));
  }

  edit() {
    if (this.editor) return;
    const {node, actions} = this;
    const area = h("textarea", {rows: "1", "aria-label": "Edit message"});
    area.value = node.content;
    const grow = () => {
      area.style.height = "auto";
      area.style.height = `${area.scrollHeight}px`;
    };
    const save = () => {
      if (this.busy) return;
      const text = area.value.trim();
      this.leaveEditor();
      if (text && text !== node.content) actions.edit(node, text);
    };
    area.addEventListener("input", grow);
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.leaveEditor();
      else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    const done = node.role === "user" ? "Send" : "Save";
    this.editor = h("div", {class: "editor"}, area, h("div", {class: "row"},
      h("span", {class: "aside"}, "The old version stays as a branch."),
      h("span", {class: "space"}),
      h("button", {onclick: () => this.leaveEditor()}, "Cancel"),
      h("button", {class: "primary", onclick: save}, done)));
    this.element.classList.add("editing");
    this.body.after(this.editor);
    this.footer.replaceChildren();
    this.footerState = "";
    grow();
    area.focus();
  }

  leaveEditor() {
    this.editor?.remove();
    this.editor = null;
    this.element.classList.remove("editing");
    this.update(this.others, this.busy);
  }
}

function thoughtFor(seconds) {
  return seconds >= 1 ? `Thought for ${Math.round(seconds)} s` : "Thoughts";
}

function statsOf({stats}) {
  if (!stats?.output) return "";
  const parts = [`${stats.output} tokens`];
  if (stats.rate > 0) parts.unshift(`${stats.rate.toFixed(stats.rate < 10 ? 1 : 0)} tokens/s`);
  if (stats.first >= 0.05) parts.push(`first after ${stats.first.toFixed(1)} s`);
  return parts.join(" \u00b7 ");
}

