// Conversations in the browser's database, one record each; preferences in localStorage. Where the
// browser stores nothing (some private windows), all lives until the page is closed.

const DATABASE = "orrery";
const TABLE = "conversations";

function finished(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function open() {
  const request = indexedDB.open(DATABASE, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(TABLE, {keyPath: "id"});
  return finished(request);
}

export class Store {
  // onchange(id): another tab of the page has stored or removed this conversation.
  constructor(onchange) {
    this.database = null;
    this.channel = new BroadcastChannel(DATABASE);
    this.channel.onmessage = (event) => onchange(String(event.data));
  }

  // All conversations. Throws where there is no database; put and remove then do nothing.
  async load() {
    this.database = await open();
    return finished(this.table("readonly").getAll());
  }

  async get(id) {
    return this.database ? finished(this.table("readonly").get(id)) : undefined;
  }

  async put(conversation) {
    if (!this.database) return;
    await finished(this.table("readwrite").put(conversation));
    this.channel.postMessage(conversation.id);
  }

  async remove(id) {
    if (!this.database) return;
    await finished(this.table("readwrite").delete(id));
    this.channel.postMessage(id);
  }

  table(mode) {
    return this.database.transaction(TABLE, mode).objectStore(TABLE);
  }
}

// A preference, or the fallback where there is none or the browser refuses.
export function preference(name, fallback) {
  try {
    const text = localStorage.getItem(`orrery.${name}`);
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return fallback;
  }
}

export function setPreference(name, value) {
  try {
    localStorage.setItem(`orrery.${name}`, JSON.stringify(value));
  } catch {
    // It then holds until the page is closed.
  }
}

// The API key stays with this tab and ends with it.
export const key = {
  value: "",
  get() {
    try {
      this.value ||= sessionStorage.getItem("orrery.key") ?? "";
    } catch {
      // It then ends with the page.
    }
    return this.value;
  },
  set(value) {
    this.value = value;
    try {
      sessionStorage.setItem("orrery.key", value);
    } catch {
      // As above.
    }
  },
};
