// The message box, its button, and the meter of the context.

import {h, setIcon, svg} from "./dom.js";
import {shownPath} from "./tree.js";

const RADIUS = 7;
const ROUND = 2 * Math.PI * RADIUS;

export class Composer {
  constructor(chats) {
    this.chats = chats;
    this.context = 0;  // tokens of the model's context, 0 where unknown
    this.input = document.getElementById("input");
    this.button = document.getElementById("send");
    this.meter = document.getElementById("context");
    this.hint = document.getElementById("hint");
    this.touch = matchMedia("(pointer: coarse)");
    this.input.addEventListener("input", () => this.grow());
    this.input.addEventListener("keydown", (event) => this.onkey(event));
    this.button.addEventListener("click", () =>
      this.chats.isRunning() ? this.chats.stop() : this.send());
  }

  onkey(event) {
    if (event.key === "ArrowUp" && !this.input.value) {
      event.preventDefault();
      this.oneditlast();
    }
    // A touch keyboard has no Shift+Enter, and Enter may also end the choice of a character.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || this.touch.matches) return;
    event.preventDefault();
    this.send();
  }

  send() {
    const text = this.input.value.trim();
    if (!text || this.chats.isRunning()) return;
    this.fill("");
    this.onsend(text);
  }

  fill(text) {
    this.input.value = text;
    this.grow();
    this.input.focus();
  }

  // Not where it would bring up a keyboard that nobody asked for.
  focus() {
    if (!this.touch.matches) this.input.focus();
  }

  grow() {
    this.input.style.height = "auto";
    this.input.style.height = `${this.input.scrollHeight}px`;
    this.render();
  }

  render() {
    const running = this.chats.isRunning();
    setIcon(this.button, running ? "stop" : "send", running ? "Stop" : "Send");
    this.button.disabled = !running && !this.input.value.trim();
    this.hint.textContent = this.touch.matches ? "" : running ? "Esc stops" :
      "Enter sends, Shift+Enter starts a new line";
    this.showMeter();
  }

  // What the conversation takes of the context, as of its last answer.
  showMeter() {
    const last = shownPath(this.chats.current).findLast(({stats}) => stats?.prompt);
    const used = last ? last.stats.prompt + last.stats.output : 0;
    const count = (number) => number.toLocaleString("en");
    const words = this.context ? `${count(used)} of ${count(this.context)} tokens` :
      used ? `${count(used)} tokens` : "";
    if (this.meter.textContent === words) return;
    this.meter.replaceChildren();
    this.meter.title = "Context in use";
    if (this.context) this.meter.append(ring(Math.min(1, used / this.context)));
    this.meter.append(h("span", {}, words));
  }
}

function ring(part) {
  const circle = (name, extra = {}) =>
    svg("circle", {class: name, cx: 9, cy: 9, r: RADIUS, ...extra});
  return svg("svg", {class: `ring${part > 0.85 ? " full" : ""}`, viewBox: "0 0 18 18",
    "aria-hidden": "true"}, circle("track"),
    circle("arc", {"stroke-dasharray": `${part * ROUND} ${ROUND}`}));
}
