// A conversation is a tree: an edited or repeated message is a sibling of the old one, and nothing
// is lost. What is shown is the path from a root to `leaf`.
//
//   conversation {id, title, created, updated, settings, nodes: {id: node}, leaf: id or null}
//   node {id, parent: id or null, role, content, created, state, reasoning?, model?, error?,
//         stats?, thought?, cut?}
//   state: "done", "streaming", "stopped" (by the user or a reload), "failed" (error says why)

// Not randomUUID, which browsers keep from pages that come over plain HTTP. An id starts with a
// letter, so that objects keep their entries in the order of insertion.
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return "n" + Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function newConversation(settings) {
  const now = Date.now();
  return {id: newId(), title: "", created: now, updated: now, settings: {...settings},
    nodes: {}, leaf: null};
}

export function addNode(conversation, parent, role, content, state = "done") {
  const node = {id: newId(), parent, role, content, created: Date.now(), state};
  conversation.nodes[node.id] = node;
  conversation.leaf = node.id;
  conversation.updated = node.created;
  if (!conversation.title && role === "user") conversation.title = titleOf(content);
  return node;
}

export function titleOf(text) {
  const line = text.trim().split("\n", 1)[0].replace(/\s+/g, " ");
  return line.length > 60 ? line.slice(0, 59).trimEnd() + "\u2026" : line;
}

// From the root to the node, both included.
export function pathTo(conversation, id) {
  const path = [];
  for (let node = conversation.nodes[id]; node; node = conversation.nodes[node.parent]) {
    path.push(node);
  }
  return path.reverse();
}

export function shownPath(conversation) {
  return pathTo(conversation, conversation.leaf);
}

export function siblings(conversation, node) {
  return Object.values(conversation.nodes).filter((other) => other.parent === node.parent);
}

// Shows the branch of this node, down to its newest end.
export function showBranch(conversation, node) {
  const newest = new Map();
  for (const other of Object.values(conversation.nodes)) newest.set(other.parent, other);
  let end = node;
  while (newest.has(end.id)) end = newest.get(end.id);
  conversation.leaf = end.id;
}

const ROLES = ["user", "assistant"];
const MAX_NODES = 20000;

// A conversation out of a foreign file, with only what is known and of the right type, or null.
export function checkedConversation(value) {
  if (typeof value !== "object" || value === null || typeof value.nodes !== "object" ||
      value.nodes === null) return null;
  const entries = Object.values(value.nodes);
  if (entries.length === 0 || entries.length > MAX_NODES) return null;
  const copy = newConversation(checkedSettings(value.settings));
  if (isId(value.id)) copy.id = value.id;
  copy.title = text(value.title, 200);
  copy.created = time(value.created);
  copy.updated = time(value.updated);
  for (const node of entries) {
    const parent = node?.parent ?? null;
    // A parent stands before its children, so there is no way to form a ring.
    if (!isId(node?.id) || !ROLES.includes(node.role) || typeof node.content !== "string" ||
        copy.nodes[node.id] || (parent !== null && !(isId(parent) && copy.nodes[parent]))) {
      return null;
    }
    copy.nodes[node.id] = {id: node.id, parent, role: node.role, content: node.content,
      created: time(node.created), state: node.state === "done" ? "done" : "stopped",
      reasoning: text(node.reasoning, Infinity), model: text(node.model, 200)};
    copy.leaf = node.id;
  }
  if (isId(value.leaf) && copy.nodes[value.leaf]) copy.leaf = value.leaf;
  return copy;
}

const isId = (value) => typeof value === "string" && /^n[0-9a-f]{24}$/.test(value);
const text = (value, limit) => typeof value === "string" ? value.slice(0, limit) : "";
const time = (value) => Number.isFinite(value) ? value : Date.now();

export function checkedSettings(value) {
  const settings = {};
  for (const [name, setting] of Object.entries(value ?? {})) {
    if (/^[a-z_]{1,40}$/.test(name) &&
        (typeof setting === "string" || Number.isFinite(setting))) settings[name] = setting;
  }
  return settings;
}
