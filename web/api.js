// The server's OpenAI dialect, as far as a chat needs it. Addresses are relative, so that the page
// also works behind a proxy that puts it into a folder.

import {key} from "./store.js";

// kind: "network" (no answer), "key" (401), "busy" (429, 503), "context" (the conversation is too
// long), "cut" (the stream ended before the answer did), "server" (all else). The message is for
// the user.
export class ApiError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

const MAX_EVENT = 1 << 24;  // characters

// Cuts a text/event-stream into the data of its events; comments (pings) are empty strings.
export class EventReader {
  constructor() {
    this.rest = "";
    this.data = [];
  }

  feed(text) {
    const events = [];
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    if (this.rest.length > MAX_EVENT) throw new ApiError("server", "The answer has no line ends.");
    for (const line of lines) {
      if (line.startsWith("data:")) {
        this.data.push(line.slice(line[5] === " " ? 6 : 5));
      } else if (line.startsWith(":")) {
        events.push("");
      } else if (line === "" && this.data.length) {
        events.push(this.data.join("\n"));
        this.data = [];
      }
    }
    return events;
  }
}

async function request(path, options = {}) {
  const headers = {...options.headers};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  let response;
  try {
    response = await fetch(path, {...options, headers, cache: "no-store"});
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("network", "The server cannot be reached.");
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

async function errorOf(response) {
  const body = await response.json().catch(() => null);
  const said = body?.error?.message ?? (typeof body?.error === "string" ? body.error : "");
  const message = said || `The server answered with status ${response.status}.`;
  if (response.status === 401) return new ApiError("key", message);
  if (response.status === 429 || response.status === 503) {
    const wait = Number(response.headers.get("Retry-After"));
    return new ApiError("busy", wait > 0 ? `${message} Try again in ${wait} s.` : message);
  }
  return errorIn(body?.error, message);
}

function errorIn(error, message) {
  const context = error?.code === "context_length_exceeded" ||
    error?.type === "exceed_context_size_error";
  return new ApiError(context ? "context" : "server", message);
}

// [{id, context}]; context is in tokens, 0 where the server does not say.
export async function listModels() {
  const body = await (await request("v1/models")).json().catch(() => null);
  const models = Array.isArray(body?.data) ? body.data : [];
  return models.filter((model) => typeof model?.id === "string").map((model) => ({
    id: model.id,
    context: Number(model.meta?.n_ctx ?? model.context_length ?? model.max_model_len) || 0,
  }));
}

// The context of the default model, from llama.cpp's /props; 0 where there is none.
export async function contextOfServer() {
  try {
    const body = await (await request("props")).json();
    return Number(body.default_generation_settings?.n_ctx ?? body.n_ctx) || 0;
  } catch {
    return 0;
  }
}

// Yields {content, reasoning, finish, usage, timings}, each where there is one, as they come.
export async function* streamChat(body, signal) {
  const response = await request("v1/chat/completions", {
    method: "POST", signal, headers: {"Content-Type": "application/json"},
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}}),
  });
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) {
    throw new ApiError("server", "The server did not send a stream.");
  }
  let finished = false;
  for await (const data of eventsOf(response)) {
    if (data === "[DONE]") return;
    if (data === "") continue;
    const part = partOf(data);
    finished ||= Boolean(part.finish);
    yield part;
  }
  if (!finished) {
    throw new ApiError("cut", "The connection ended before the answer did.");
  }
}

async function* eventsOf(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const events = new EventReader();
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return;
      yield* events.feed(decoder.decode(value, {stream: true}));
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError("cut", "The connection ended before the answer did.");
  } finally {
    reader.cancel().catch(() => {});
  }
}

function partOf(data) {
  let event;
  try {
    event = JSON.parse(data);
  } catch {
    throw new ApiError("server", "The server sent an event that is not JSON.");
  }
  if (event?.error) {
    throw errorIn(event.error, String(event.error.message ?? "The server reported an error."));
  }
  const choice = event?.choices?.[0];
  const text = (value) => typeof value === "string" ? value : "";
  return {
    content: text(choice?.delta?.content),
    reasoning: text(choice?.delta?.reasoning_content) || text(choice?.delta?.reasoning),
    finish: choice?.finish_reason ?? null,
    usage: event?.usage ?? null,
    timings: event?.timings ?? null,
  };
}
