// Markdown as a list of blocks, each with the lines it was made of:
//
//   {type: "code", language, text} {type: "heading", level, text} {type: "rule"}
//   {type: "paragraph", text} {type: "quote", blocks} {type: "table", head, align, rows}
//   {type: "list", ordered, start, items: [blocks], loose}
//
// The parser takes time linear in the text, and nesting is bounded.

const MAX_DEPTH = 8;
const FENCE = /^ {0,3}(`{3,}|~{3,}) *([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?: +|$)/;
const RULE = /^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)/;
const DELIMITERS = /^ *\|?(?: *:?-+:? *\|)* *:?-+:? *\|? *$/;

export function parse(text) {
  return parseLines(text.replace(/\r\n?/g, "\n").replaceAll("\t", "    ").split("\n"), 0);
}

function parseLines(lines, depth) {
  const blocks = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at++;
      continue;
    }
    const [block, end] = blockAt(lines, at, depth);
    block.source = lines.slice(at, end).join("\n");
    blocks.push(block);
    at = end;
  }
  return blocks;
}

// [block, the line behind it]
function blockAt(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return code(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) {
    const text = line.slice(heading[0].length).trim().replace(/ #+$/, "");
    return [{type: "heading", level: heading[1].length, text}, at + 1];
  }
  if (RULE.test(line)) return [{type: "rule"}, at + 1];
  if (depth < MAX_DEPTH && QUOTE.test(line)) return quote(lines, at, depth);
  if (depth < MAX_DEPTH && ITEM.test(line)) return list(lines, at, depth);
  if (isTable(lines, at)) return table(lines, at);
  return paragraph(lines, at);
}

// A fence that is not closed reaches to the end: so it looks right while it is written.
function code(lines, at, fence) {
  const indent = /^ */.exec(lines[at])[0].length;
  let end = at + 1;
  const isEnd = (line) => {
    const text = line.trim();
    return text.length >= fence[1].length && text === fence[1][0].repeat(text.length);
  };
  while (end < lines.length && !isEnd(lines[end])) end++;
  const text = lines.slice(at + 1, end).map((line) => dedent(line, indent)).join("\n");
  return [{type: "code", language: fence[2].trim().split(/\s/, 1)[0].toLowerCase(), text},
    Math.min(end + 1, lines.length)];
}

function dedent(line, columns) {
  let at = 0;
  while (at < columns && line[at] === " ") at++;
  return line.slice(at);
}

function quote(lines, at, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end++;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return [{type: "quote", blocks: parseLines(inner, depth + 1)}, end];
}

function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  const base = first[1].length;
  const ordered = first[2].length > 1;
  const start = parseInt(first[2], 10) || 0;
  const block = {type: "list", ordered, start, items: [], loose: false};
  let end = at;
  while (end < lines.length) {
    const marker = ITEM.exec(lines[end]);
    if (!marker || marker[2].length > 1 !== ordered || marker[1].length >= base + 2 ||
        RULE.test(lines[end])) break;
    const next = itemEnd(lines, end, marker);
    const width = marker[0].length;
    const inner = lines.slice(end, next).map((line, index) =>
      index === 0 ? line.slice(width) : dedent(line, width));
    block.items.push(parseLines(inner, depth + 1));
    end = next;
    while (end < lines.length && !lines[end].trim()) end++;
    if (end === next) continue;
    const following = ITEM.exec(lines[end] ?? "");
    if (!following || following[2].length > 1 !== ordered) return [block, next];
    block.loose = true;
  }
  return [block, end];
}

// The line behind an item: it holds what is indented, and text that goes on without a blank line.
function itemEnd(lines, at, marker) {
  const indent = marker[1].length + 2;
  let end = at + 1;
  let last = end;
  let inFence = FENCE.test(lines[at].slice(marker[0].length));
  for (; end < lines.length; end++) {
    const line = lines[end];
    if (!line.trim()) continue;
    const indented = line.startsWith(" ".repeat(indent));
    const goesOn = last === end && !inFence && !startsBlock(line);
    if (!indented && !goesOn) break;
    if (FENCE.test(line.trim())) inFence = !inFence;
    last = end + 1;
  }
  return last;
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) ||
    ITEM.test(line);
}

const cells = (line) =>
  line.trim().replace(/^\|/, "").replace(/\|$/, "").split(/(?<!\\)\|/).map((cell) =>
    cell.trim().replaceAll("\\|", "|"));

function isTable(lines, at) {
  const next = lines[at + 1] ?? "";
  return lines[at].includes("|") && next.includes("-") && next.length < 1000 &&
    DELIMITERS.test(next) && cells(next).length === cells(lines[at]).length;
}

function table(lines, at) {
  const head = cells(lines[at]);
  const align = cells(lines[at + 1]).map((cell) =>
    cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left");
  let end = at + 2;
  const rows = [];
  while (end < lines.length && lines[end].trim() && lines[end].includes("|")) {
    const row = cells(lines[end++]);
    rows.push(head.map((_, column) => row[column] ?? ""));
  }
  return [{type: "table", head, align, rows}, end];
}

function paragraph(lines, at) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !endsParagraph(lines, end)) end++;
  const text = lines.slice(at, end).map((line) => line.trim()).join("\n");
  return [{type: "paragraph", text}, end];
}

// A number at the start of a line is a list's within a paragraph only if it is 1.
function endsParagraph(lines, at) {
  const item = ITEM.exec(lines[at]);
  if (item) return item[3] !== "" && (item[2].length === 1 || parseInt(item[2], 10) === 1);
  return startsBlock(lines[at]) || isTable(lines, at);
}
