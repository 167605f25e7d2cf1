// The conversations and what is being written into them. Views are told by `onchange`:
//   ("list")           the set of conversations, a title, or what runs
//   ("thread")         what the open conversation shows
//   ("node", node)     the text or the state of one message
//   ("error", error)   an answer failed for this ApiError

import {ApiError, streamChat} from "./api.js";
import {addNode, checkedConversation, newConversation, pathTo, showBranch, shownPath}
  from "./tree.js";
import {preference, setPreference, Store} from "./store.js";

// Settings that go into a request under their own names.
const NUMBERS = ["temperature", "top_p", "top_k", "min_p", "repeat_penalty", "presence_penalty",
  "frequency_penalty", "max_tokens", "seed"];
const SAVE_EVERY = 1000;  // ms, while an answer is written

export class Chats {
  constructor(onchange) {
    this.onchange = onchange;
    this.all = new Map();
    this.runs = new Map();  // conversation id -> AbortController
    this.store = new Store((id) => this.reload(id));
    this.current = newConversation(preference("defaults", {}));
  }

  // Returns false where the browser stores nothing.
  async load() {
    try {
      for (const conversation of await this.store.load()) this.take(conversation);
      return true;
    } catch {
      return false;
    }
  }

  // A message that was being written when the page went away has stopped.
  take(conversation) {
    for (const node of Object.values(conversation.nodes)) {
      if (node.state === "streaming") node.state = "stopped";
    }
    this.all.set(conversation.id, conversation);
  }

  // Newest first.
  list() {
    return [...this.all.values()].sort((a, b) => b.updated - a.updated);
  }

  isRunning(conversation = this.current) {
    return this.runs.has(conversation.id);
  }

  // Opens the conversation, or a new one where there is none of this name.
  open(id) {
    if (id === this.current.id) return;
    this.current = this.all.get(id) ?? newConversation(preference("defaults", {}));
    this.onchange("thread");
    this.onchange("list");
  }

  async save(conversation = this.current) {
    if (!this.all.has(conversation.id)) return;
    try {
      await this.store.put(conversation);
    } catch (error) {
      this.onchange("error", new ApiError("storage",
        `The browser could not store this conversation: ${error.message}`));
    }
  }

  async reload(id) {
    if (this.runs.has(id)) return;
    const stored = await this.store.get(id);
    if (stored) this.all.set(id, stored);
    else this.all.delete(id);
    if (stored && this.current.id === id) {
      this.current = stored;
      this.onchange("thread");
    }
    this.onchange("list");
  }

  remove(conversation) {
    this.stop(conversation);
    this.all.delete(conversation.id);
    this.store.remove(conversation.id).catch(() => {});
    this.onchange("list");
  }

  restore(conversation) {
    this.all.set(conversation.id, conversation);
    this.save(conversation);
    this.onchange("list");
  }

  rename(conversation, title) {
    conversation.title = title;
    this.save(conversation);
    this.onchange("list");
  }

  // New conversations start with what was chosen last, but for the system prompt and the seed.
  set(name, value) {
    const {settings} = this.current;
    if (value === "") delete settings[name];
    else settings[name] = value;
    if (name !== "system" && name !== "seed") {
      const {system, seed, ...defaults} = settings;
      setPreference("defaults", defaults);
    }
    this.save();
  }

  show(node) {
    showBranch(this.current, node);
    this.save();
    this.onchange("thread");
  }

  send(text) {
    this.all.set(this.current.id, this.current);
    const node = addNode(this.current, this.current.leaf, "user", text);
    return this.answer(node);
  }

  // A sibling with the new text; one of the user is answered.
  edit(node, text) {
    const changed = addNode(this.current, node.parent, node.role, text);
    if (node.role === "user") return this.answer(changed);
    changed.model = node.model;
    this.save();
    return this.onchange("thread");
  }

  // Another answer beside this one; one that failed before its first word is replaced.
  regenerate(node) {
    const {current} = this;
    if (node.state === "failed" && !node.content && !node.reasoning &&
        !Object.values(current.nodes).some((other) => other.parent === node.id)) {
      delete current.nodes[node.id];
    }
    return this.answer(current.nodes[node.parent]);
  }

  stop(conversation = this.current) {
    this.runs.get(conversation.id)?.abort();
  }

  async answer(parent) {
    const conversation = this.current;
    if (this.isRunning(conversation)) return;
    const controller = new AbortController();
    this.runs.set(conversation.id, controller);
    const node = addNode(conversation, parent.id, "assistant", "", "streaming");
    node.model = conversation.settings.model ?? "";
    node.reasoning = "";
    this.onchange("thread");
    this.onchange("list");
    this.save(conversation);
    try {
      await this.stream(conversation, node, controller.signal);
      node.state = "done";
    } catch (error) {
      node.state = error.name === "AbortError" ? "stopped" : "failed";
      if (node.state === "failed") {
        node.error = {kind: error.kind ?? "server", message: error.message};
        this.onchange("error", error);
      }
    }
    this.runs.delete(conversation.id);
    conversation.updated = Date.now();
    this.onchange("node", node);
    this.onchange("list");
    await this.save(conversation);
  }

  async stream(conversation, node, signal) {
    const clock = new Clock(node);
    let saved = performance.now();
    for await (const part of streamChat(requestOf(conversation, node), signal)) {
      clock.count(part);
      node.content += part.content;
      node.reasoning += part.reasoning;
      if (part.finish === "length") node.cut = true;
      this.onchange("node", node);
      if (performance.now() - saved > SAVE_EVERY) {
        saved = performance.now();
        this.save(conversation);
      }
    }
  }

  // Adds what an exported file holds, unless there is a newer version; returns how many these were.
  import(text) {
    let file;
    try {
      file = JSON.parse(text);
    } catch {
      return 0;
    }
    const found = Array.isArray(file?.conversations) ? file.conversations : [];
    const good = found.map(checkedConversation).filter((conversation) =>
      conversation !== null && !this.runs.has(conversation.id) &&
      !(this.all.get(conversation.id)?.updated > conversation.updated));
    for (const conversation of good) {
      this.all.set(conversation.id, conversation);
      if (conversation.id === this.current.id) this.current = conversation;
      this.save(conversation);
    }
    this.onchange("list");
    this.onchange("thread");
    return good.length;
  }

  export() {
    return JSON.stringify({format: "orrery-conversations", version: 1,
      conversations: this.list()}, null, 1);
  }
}

// What the server is asked: only what the user has set, so that the model's own values hold.
export function requestOf(conversation, node) {
  const {settings} = conversation;
  const messages = [];
  for (const {role, content} of pathTo(conversation, node.parent)) {
    // Many chat templates want the roles by turns; behind an answer that failed they are not.
    const last = messages.at(-1);
    if (content && last?.role === role) last.content += `\n\n${content}`;
    else if (content) messages.push({role, content});
  }
  if (settings.system) messages.unshift({role: "system", content: settings.system});
  const body = {messages};
  if (settings.model) body.model = settings.model;
  for (const name of NUMBERS) {
    if (settings[name] !== undefined) body[name] = Number(settings[name]);
  }
  const stop = (settings.stop ?? "").split("\n").filter((line) => line);
  if (stop.length) body.stop = stop;
  return body;
}

// Fills node.stats {prompt, cached, output, rate, first} and node.thought, in tokens and seconds.
// Until the server's own numbers come, an event counts as a token.
class Clock {
  constructor(node) {
    this.node = node;
    this.start = performance.now();
    this.first = 0;
    this.events = 0;
    node.stats = {output: 0, rate: 0, first: 0};
  }

  count({content, reasoning, usage, timings}) {
    const {stats} = this.node;
    const now = performance.now();
    if (content || reasoning) {
      this.first ||= now;
      this.last = now;
      stats.first = (this.first - this.start) / 1000;
      stats.output = ++this.events;
      if (reasoning) this.node.thought = (now - this.first) / 1000;
    }
    if (usage) {
      stats.prompt = Number(usage.prompt_tokens) || 0;
      stats.cached = Number(usage.prompt_tokens_details?.cached_tokens) || 0;
      stats.output = Number(usage.completion_tokens) || stats.output;
    }
    const seconds = (this.last - this.first) / 1000;
    if (timings?.predicted_per_second > 0) stats.rate = Number(timings.predicted_per_second);
    else if (!stats.measured && stats.output > 1 && seconds > 0) {
      stats.rate = (stats.output - 1) / seconds;
    }
    stats.measured ||= timings?.predicted_per_second > 0;
  }
}

// The conversation as it is shown, to be read elsewhere.
export function asMarkdown(conversation) {
  const parts = shownPath(conversation).map(({role, content}) =>
    `**${role === "user" ? "You" : "Assistant"}**\n\n${content}\n`);
  return `# ${conversation.title}\n\n${parts.join("\n")}`;
}
