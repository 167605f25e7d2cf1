// Markdown within a line of text: emphasis, code, links, line breaks. What is not Markdown, HTML
// above all, is text. A link leads to http or https; an image becomes a link to it, so that nothing
// is loaded because a model wrote it.

import {h} from "./dom.js";

const SPECIAL = /[\\`*_~[!<&\n]|https?:\/\//g;
const PUNCTUATION = /[!-/:-@[-`{-~]/;
const ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'",
  "&nbsp;": "\u00a0"};
// Bounds that no honest text meets; beyond them the marks stay as they are.
const MAX_MARKS = 200;
const MAX_LABEL = 300;
const MAX_ADDRESS = 2000;

// A fragment of the text's elements.
export function inline(text, inLink = false) {
  return new Inline(text, inLink).run();
}

// The address as the browser understands it, or "" if a link may not lead there.
export function safeAddress(address) {
  if (!/^https?:\/\//i.test(address) || address.length > MAX_ADDRESS) return "";
  try {
    return new URL(address).href;
  } catch {
    return "";
  }
}

class Inline {
  constructor(text, inLink) {
    this.text = text;
    this.inLink = inLink;
    this.at = 0;
    this.out = document.createDocumentFragment();
    this.marks = [];  // {node, char, count, opens, closes}
    this.unclosed = new Set();  // lengths of runs of ` that have no second one
  }

  run() {
    const {text} = this;
    while (this.at < text.length) {
      SPECIAL.lastIndex = this.at;
      const found = SPECIAL.exec(text);
      const end = found ? found.index : text.length;
      this.literal(text.slice(this.at, end));
      this.at = end;
      if (found && !this.special(found[0])) {
        this.literal(found[0]);
        this.at += found[0].length;
      }
    }
    pairMarks(this.marks);
    return this.out;
  }

  literal(text) {
    if (text) this.out.append(text);
  }

  // Takes what begins here, or returns false.
  special(found) {
    switch (found) {
      case "\n": return this.element(h("br"), 1);
      case "\\": return this.escape();
      case "`": return this.code();
      case "[": return this.link(this.at, false);
      case "!": return this.text[this.at + 1] === "[" && this.link(this.at + 1, true);
      case "<": return this.angle();
      case "&": return this.entity();
      case "*": case "_": case "~": return this.mark(found);
      default: return this.address();
    }
  }

  element(node, length) {
    this.out.append(node);
    this.at += length;
    return true;
  }

  escape() {
    const next = this.text[this.at + 1] ?? "";
    if (next === "\n") return this.element(h("br"), 2);
    return PUNCTUATION.test(next) && this.element(next, 2);
  }

  code() {
    const length = runLength(this.text, this.at);
    let end = this.unclosed.has(length) ? -1 : this.at + length;
    while (end >= 0) {
      end = this.text.indexOf("`", end);
      if (end < 0) break;
      const run = runLength(this.text, end);
      if (run === length) {
        let code = this.text.slice(this.at + length, end).replaceAll("\n", " ");
        if (/^ .*[^ ].* $/.test(code)) code = code.slice(1, -1);
        return this.element(h("code", {}, code), end + length - this.at);
      }
      end += run;
    }
    this.unclosed.add(length);
    return this.element("`".repeat(length), length);
  }

  entity() {
    const end = this.text.indexOf(";", this.at);
    const character = end - this.at < 7 ? ENTITIES[this.text.slice(this.at, end + 1)] : undefined;
    return character !== undefined && this.element(character, end + 1 - this.at);
  }

  angle() {
    const rest = this.text.slice(this.at, this.at + MAX_ADDRESS);
    const lineBreak = /^<br ?\/?>/i.exec(rest);
    if (lineBreak) return this.element(h("br"), lineBreak[0].length);
    const auto = /^<(https?:\/\/[^\s<>]+)>/i.exec(rest);
    return auto !== null && this.anchor(auto[1], auto[1], auto[0].length);
  }

  // A bare address, without the punctuation that ends the sentence around it.
  address() {
    if (/\w/.test(this.text[this.at - 1] ?? "")) return false;
    const rest = this.text.slice(this.at, this.at + MAX_ADDRESS);
    let address = /^[^\s<>"`]+/.exec(rest)[0];
    for (;;) {
      const last = address[address.length - 1];
      const unpaired = last === ")" && address.split(")").length > address.split("(").length;
      if (!unpaired && !/[.,;:!?'*_~\]]/.test(last)) break;
      address = address.slice(0, -1);
    }
    return this.anchor(address, address, address.length);
  }

  anchor(address, label, length) {
    const href = safeAddress(address);
    if (!href || this.inLink) return false;
    const link = h("a", {href, title: href, target: "_blank", rel: "noopener noreferrer"});
    link.append(label);
    return this.element(link, length);
  }

  // [label](address "title"), or the same behind "!".
  link(start, isImage) {
    const close = closing(this.text, start, "[", "]", MAX_LABEL);
    if (close < 0 || this.text[close + 1] !== "(") return false;
    const end = closing(this.text, close + 1, "(", ")", MAX_ADDRESS);
    if (end < 0) return false;
    const inside = this.text.slice(close + 2, end).trim();
    const address = inside.split(/\s/, 1)[0].replace(/^<|>$/g, "");
    const label = this.text.slice(start + 1, close);
    const content = isImage ? `image: ${label || address}` : inline(label || address, true);
    return this.anchor(address, content, end + 1 - this.at);
  }

  mark(char) {
    const count = runLength(this.text, this.at);
    if (this.marks.length >= MAX_MARKS || (char === "~" && count !== 2)) {
      return this.element(char.repeat(count), count);
    }
    const before = this.text[this.at - 1] ?? " ";
    const after = this.text[this.at + count] ?? " ";
    const inWord = char === "_" && /[\p{L}\p{N}]/u.test(before) && /[\p{L}\p{N}]/u.test(after);
    const node = document.createTextNode(char.repeat(count));
    this.marks.push({node, char, count, opens: !inWord && !/\s/.test(after),
      closes: !inWord && !/\s/.test(before)});
    return this.element(node, count);
  }
}

function runLength(text, at) {
  let end = at + 1;
  while (text[end] === text[at]) end++;
  return end - at;
}

// Where the bracket that opens at `at` is closed, within `limit` characters, or -1.
function closing(text, at, open, close, limit) {
  let depth = 0;
  for (let end = at; end < text.length && end <= at + limit; end++) {
    if (text[end] === "\\") end++;
    else if (text[end] === open) depth++;
    else if (text[end] === close && --depth === 0) return end;
  }
  return -1;
}

// Puts what lies between marks that belong together into an element, inner ones first.
function pairMarks(marks) {
  const open = [];
  for (const mark of marks) {
    while (mark.closes && mark.count > 0) {
      const at = open.findLastIndex((other) => other.char === mark.char);
      if (at < 0) break;
      wrap(open[at], mark);
      open.length = open[at].count > 0 ? at + 1 : at;
    }
    if (mark.opens && mark.count > 0) open.push(mark);
  }
}

function wrap(from, to) {
  const length = Math.min(from.count, to.count, 2);
  const tag = from.char === "~" ? "del" : length === 2 ? "strong" : "em";
  const element = h(tag);
  while (from.node.nextSibling !== to.node) element.append(from.node.nextSibling);
  from.node.after(element);
  for (const mark of [from, to]) {
    mark.count -= length;
    mark.node.data = mark.char.repeat(mark.count);
  }
}
