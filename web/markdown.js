// Shows Markdown that grows: blocks whose source has not changed keep their elements, so a long
// answer costs what its last block costs.

import {copyButton, h} from "./dom.js";
import {highlight} from "./highlight.js";
import {inline} from "./inline.js";
import {parse} from "./blocks.js";

export class MarkdownView {
  constructor() {
    this.element = h("div", {class: "prose"});
    this.text = "";
    this.shown = [];  // {source, type, language, element}
  }

  update(text) {
    if (text === this.text) return;
    this.text = text;
    const blocks = parse(text);
    let same = 0;
    while (same < blocks.length && same < this.shown.length &&
           blocks[same].source === this.shown[same].source) same++;
    const old = this.shown.splice(same);
    for (const block of blocks.slice(same)) {
      const before = old.shift();
      if (before?.type === "code" && block.type === "code" &&
          before.language === block.language) {
        fillCode(before.element, block);  // so that it stays scrolled as it is
        this.shown.push({...before, source: block.source});
        continue;
      }
      const element = render(block);
      if (before) before.element.replaceWith(element);
      else this.element.append(element);
      this.shown.push({source: block.source, type: block.type, language: block.language, element});
    }
    for (const block of old) block.element.remove();
  }
}

function render(block) {
  switch (block.type) {
    case "code": return codeBlock(block);
    case "heading": return h(`h${Math.min(block.level + 1, 6)}`, {}, inline(block.text));
    case "rule": return h("hr");
    case "quote": return h("blockquote", {}, ...block.blocks.map(render));
    case "list": return listOf(block);
    case "table": return tableOf(block);
    default: return h("p", {}, inline(block.text));
  }
}

function codeBlock(block) {
  const code = h("code");
  const figure = h("figure", {class: "code"},
    h("figcaption", {}, h("span", {}, block.language || "text"),
      copyButton(() => code.textContent, "Copy code")),
    h("pre", {tabindex: "0"}, code));
  fillCode(figure, block);
  return figure;
}

function fillCode(figure, block) {
  figure.querySelector("code").replaceChildren(highlight(block.text, block.language));
}

function listOf(block) {
  const items = block.items.map((blocks) => h("li", {}, ...blocks.flatMap((inner, index) => {
    if (inner.type !== "paragraph" || block.loose) return [render(inner)];
    const task = index === 0 ? /^\[([ xX])\] /.exec(inner.text) : null;
    if (!task) return [inline(inner.text)];
    return [task[1] === " " ? "\u2610 " : "\u2611 ", inline(inner.text.slice(task[0].length))];
  })));
  if (!block.ordered) return h("ul", {}, ...items);
  return h("ol", {start: block.start === 1 ? null : String(block.start)}, ...items);
}

function tableOf(block) {
  const row = (tag, texts) => h("tr", {}, ...texts.map((text, column) =>
    h(tag, {class: block.align[column]}, inline(text))));
  return h("div", {class: "table"}, h("table", {},
    h("thead", {}, row("th", block.head)),
    h("tbody", {}, ...block.rows.map((texts) => row("td", texts)))));
}
