// The page of the measurements of storage: records of one size in IndexedDB, or in files of the origin private file
// system (OPFS). The runner hands this module to a page as text, because the same text is the worker of synchronous files.

const STAMP_EVERY = 4096;
const IV_BYTES = 12;
const isWorker = typeof document === "undefined";

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

/** Sixteen bytes, as a name that hides a hash would have. */
function nameOf(n) {
  const name = new Uint8Array(16);
  new DataView(name.buffer).setUint32(0, n);
  return name;
}

class Database {
  constructor(durability) {
    this.durability = durability;
  }
  async open() {
    const request = indexedDB.open("records", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("c");
    this.db = await done(request);
  }
  /** One transaction for each record. */
  #change(work) {
    return new Promise((resolve, reject) => {
      const transaction = this.db.transaction("c", "readwrite", { durability: this.durability });
      transaction.oncomplete = () => resolve();
      transaction.onabort = () => reject(transaction.error ?? new Error("aborted"));
      work(transaction.objectStore("c"));
    });
  }
  put(n, bytes) {
    return this.#change((store) => store.put(bytes, nameOf(n)));
  }
  delete(n) {
    return this.#change((store) => store.delete(nameOf(n)));
  }
  get(n) {
    return done(this.db.transaction("c").objectStore("c").get(nameOf(n)));
  }
  async names() {
    const keys = await done(this.db.transaction("c").objectStore("c").getAllKeys());
    return keys.map((key) => new DataView(key).getUint32(0));
  }
  /** Removes all. Gives the number of things that are no records: none here. */
  async clear() {
    await this.#change((store) => store.clear());
    return 0;
  }
}

class Files {
  async open() {
    const root = await navigator.storage.getDirectory();
    this.folder = await root.getDirectoryHandle("records", { create: true });
  }
  #file(n, create) {
    return this.folder.getFileHandle(String(n), { create });
  }
  async put(n, bytes) {
    const file = await this.#file(n, true);
    if (!isWorker) {
      const stream = await file.createWritable();
      await stream.write(bytes);
      await stream.close();
      return;
    }
    const access = await file.createSyncAccessHandle();
    try {
      const written = access.write(bytes, { at: 0 });
      // Not every browser throws if a device is full.
      if (written < bytes.byteLength) throw new DOMException(`wrote ${written} of ${bytes.byteLength}`, "QuotaExceededError");
      access.truncate(bytes.byteLength);
      access.flush();
    } finally {
      access.close();
    }
  }
  delete(n) {
    return this.folder.removeEntry(String(n));
  }
  async get(n) {
    const file = await this.#file(n, false);
    if (!isWorker) return new Uint8Array(await (await file.getFile()).arrayBuffer());
    const access = await file.createSyncAccessHandle();
    try {
      const bytes = new Uint8Array(access.getSize());
      access.read(bytes, { at: 0 });
      return bytes;
    } finally {
      access.close();
    }
  }
  async #all() {
    const names = [];
    for await (const name of this.folder.keys()) names.push(name);
    return names;
  }
  async names() {
    return (await this.#all()).filter((name) => /^\d+$/.test(name)).map(Number);
  }
  /** Removes all. Gives the number of files that are no records: a browser's own, of a write that ended in the middle. */
  async clear() {
    const all = await this.#all();
    for (const name of all) await this.folder.removeEntry(name);
    return all.filter((name) => !/^\d+$/.test(name)).length;
  }
}

const STORES = {
  "idb": () => new Database("strict"),
  "idb-relaxed": () => new Database("relaxed"),
  "opfs-page": () => new Files(),
  "opfs-worker": () => new Files(),
};

async function opened(name) {
  const store = STORES[name]();
  await store.open();
  return store;
}

/** Makes records: the same random bytes each time, with the record's number in each block of 4 KiB. */
class Records {
  constructor(size) {
    this.bytes = new Uint8Array(size);
    for (let from = 0; from < size; from += 65_536) crypto.getRandomValues(this.bytes.subarray(from, from + 65_536));
    this.view = new DataView(this.bytes.buffer);
  }
  record(n) {
    for (let at = 0; at < this.bytes.length; at += STAMP_EVERY) this.view.setUint32(at, n);
    return this.bytes;
  }
}

/** The fault of a record; nothing if it is whole. */
function faultOf(n, size, bytes) {
  if (bytes.byteLength !== size) return `${bytes.byteLength} bytes`;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < size; at += STAMP_EVERY) if (view.getUint32(at) !== n) return `other bytes at ${at}`;
  return undefined;
}

class Cipher {
  static async make(isFreed) {
    const cipher = new Cipher();
    cipher.isFreed = isFreed;
    cipher.key = await crypto.subtle.importKey("raw", new Uint8Array(32).fill(7), "AES-GCM", false, ["encrypt", "decrypt"]);
    return cipher;
  }
  async seal(n, bytes) {
    const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES));
    const sealed = new Uint8Array(await crypto.subtle.encrypt({ name: "AES-GCM", iv, additionalData: nameOf(n) }, this.key, bytes));
    const record = new Uint8Array(IV_BYTES + sealed.length);
    record.set(iv);
    record.set(sealed, IV_BYTES);
    if (this.isFreed) sealed.buffer.transfer(0);
    return record;
  }
  async open(n, record) {
    const iv = record.subarray(0, IV_BYTES);
    return new Uint8Array(await crypto.subtle.decrypt({ name: "AES-GCM", iv, additionalData: nameOf(n) }, this.key, record.subarray(IV_BYTES)));
  }
}

/** All numbers below `count`, in an order that is the same each time and no order of places. */
const shuffled = (count) => Array.from({ length: count }, (_, n) => (n * 7919 + 13) % count);

const work = {
  /**
   * Writes that many records, one after the other, each durable before the next. Milliseconds. With `isFreed` the page
   * frees each buffer once it is used, and does not wait for the garbage collector.
   */
  async write({ store: name, size, count, isSealed, isFreed }) {
    const records = new Records(size);
    const cipher = isSealed && (await Cipher.make(isFreed));
    const store = await opened(name);
    const start = performance.now();
    for (let n = 0; n < count; n += 1) {
      const record = cipher ? await cipher.seal(n, records.record(n)) : records.record(n);
      await store.put(n, record);
      if (isFreed) record.buffer.transfer(0);
    }
    return performance.now() - start;
  },

  /** Reads them all, in another order. Milliseconds. */
  async read({ store: name, size, count, isSealed, isFreed }) {
    const cipher = isSealed && (await Cipher.make(isFreed));
    const store = await opened(name);
    const start = performance.now();
    for (const n of shuffled(count)) {
      const found = await store.get(n);
      const bytes = cipher ? await cipher.open(n, found) : found;
      if (bytes.byteLength !== size || new DataView(bytes.buffer, bytes.byteOffset).getUint32(0) !== n) throw new Error(`record ${n} is wrong`);
      if (isFreed) for (const over of [found, bytes]) over.buffer.transfer(0);
    }
    return performance.now() - start;
  },

  /** Writes until the device refuses, at most `most` records; then tries to go on. */
  async fill({ store: name, size, most }) {
    const records = new Records(size);
    const store = await opened(name);
    const attempt = async (act) => act().then(() => "yes", (error) => `${error.name}: ${error.message}`);
    const put = (n) => attempt(() => store.put(n, records.record(n)));
    let stored = 0;
    let refused = "never";
    while (stored < most) {
      const told = await put(stored);
      if (told !== "yes") {
        refused = told;
        break;
      }
      stored += 1;
    }
    const { quota, usage } = await navigator.storage.estimate();
    const names = await store.names();
    const readable = await attempt(async () => {
      for (const n of [0, stored - 1]) if (faultOf(n, size, await store.get(n))) throw new Error(`record ${n} is torn`);
    });
    // The refused record: nothing, or a part of it.
    const left = names.includes(stored) ? `${(await store.get(stored)).byteLength} bytes` : "nothing";
    const little = () => attempt(() => store.put(1_000_000, new Uint8Array(1024)));
    const small = await little();
    const smallAgain = await little();
    for (let n = 0; n < stored / 2; n += 1) await store.delete(n);
    const again = await put(stored);
    return { bytes: stored * size, refused, left, quota, usage, readable, small, smallAgain, again };
  },

  /** Writes records until the browser dies; reports the number of each once it is complete. */
  async writeOn({ store: name, size }, tell) {
    const records = new Records(size);
    const store = await opened(name);
    for (let n = 0; ; n += 1) {
      await store.put(n, records.record(n));
      tell(n);
    }
  },

  /** The records that are there: whole ones, and those that are not, with their faults; and other files. Then deletes all. */
  async look({ store: name, size }) {
    const store = await opened(name);
    const whole = [];
    const torn = {};
    for (const n of await store.names()) {
      const fault = await store.get(n).then((bytes) => faultOf(n, size, bytes), (error) => `${error.name}: ${error.message}`);
      if (fault) torn[n] = fault;
      else whole.push(n);
    }
    return { whole, torn, others: await store.clear() };
  },
};

/** Runs some work where its store needs it: in this page, or in a worker made of this same text. */
export async function run(what, options, source) {
  // In a test's page this is a function of the runner.
  const tell = (n) => void window.told(n);
  if (options.store !== "opfs-worker") return work[what](options, tell);
  const worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })), { type: "module" });
  const ended = new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if (data.told !== undefined) tell(data.told);
      else if (data.failed) reject(new Error(data.failed));
      else resolve(data.result);
    };
    worker.onerror = ({ message }) => reject(new Error(message));
  });
  worker.postMessage({ what, options });
  return ended.finally(() => worker.terminate());
}

if (isWorker) {
  self.onmessage = async ({ data: { what, options } }) => {
    try {
      self.postMessage({ result: await work[what](options, (told) => self.postMessage({ told })) });
    } catch (error) {
      self.postMessage({ failed: `${error.name}: ${error.message}` });
    }
  };
}
