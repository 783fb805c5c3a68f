// IndexedDB by hand: one record for each document (the reference), 256 documents in a record, and one sealed record for
// each document.

import { listedBy } from "../page/data.js";

const PACK = 256;

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
const complete = (transaction) =>
  new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = transaction.onerror = () => reject(transaction.error);
  });

function openDatabase(upgrade) {
  const request = indexedDB.open("raw", 1);
  request.onupgradeneeded = () => upgrade(request.result);
  return done(request);
}

class Plain {
  #changed;
  async open() {
    this.db = await openDatabase((db) => {
      const store = db.createObjectStore("docs", { keyPath: "id" });
      store.createIndex(listedBy, listedBy, { multiEntry: listedBy === "lists" });
      if (listedBy === "group") store.createIndex("n", "n");
    });
  }
  async arrive(batches) {
    for (const batch of batches) {
      const transaction = this.db.transaction("docs", "readwrite");
      const store = transaction.objectStore("docs");
      for (const document of batch) store.put(document);
      await complete(transaction);
    }
  }
  async update(batches) {
    await this.arrive(batches);
    await this.#changed?.();
  }
  all() {
    return done(this.db.transaction("docs").objectStore("docs").getAll());
  }
  list(section) {
    return done(this.db.transaction("docs").objectStore("docs").index(listedBy).getAll(section));
  }
  get(ids) {
    const store = this.db.transaction("docs").objectStore("docs");
    return Promise.all(ids.map((id) => done(store.get(id))));
  }
  range(from, limit) {
    return done(this.db.transaction("docs").objectStore("docs").index("n").getAll(IDBKeyRange.lowerBound(from), limit));
  }
  /** The page itself asks again after each change. */
  async #live(ask, callback) {
    this.#changed = async () => callback(await ask());
    await this.#changed();
    return () => (this.#changed = undefined);
  }
  liveRange(limit, callback) {
    return this.#live(() => done(this.db.transaction("docs").objectStore("docs").index("n").getAll(null, limit)), callback);
  }
  liveItems(note, callback) {
    return this.#live(() => this.list(note), callback);
  }
  async endItems(note) {
    const transaction = this.db.transaction("docs", "readwrite");
    const store = transaction.objectStore("docs");
    for (const key of await done(store.index(listedBy).getAllKeys(note))) store.delete(key);
    await complete(transaction);
    await this.#changed?.();
  }
  async change(id, n) {
    const transaction = this.db.transaction("docs", "readwrite");
    const store = transaction.objectStore("docs");
    store.put({ ...(await done(store.get(id))), n });
    await complete(transaction);
    await this.#changed?.();
  }
  async close() {
    this.db.close();
  }
}

class Packed extends Plain {
  #at;
  async open() {
    this.db = await openDatabase((db) => db.createObjectStore("docs"));
    this.#at = undefined;
  }
  async arrive(batches) {
    let page = 0;
    let rest = [];
    for (const [index, batch] of batches.entries()) {
      rest.push(...batch);
      const transaction = this.db.transaction("docs", "readwrite");
      while (rest.length >= PACK || (rest.length > 0 && index === batches.length - 1)) {
        transaction.objectStore("docs").put(rest.slice(0, PACK), page++);
        rest = rest.slice(PACK);
      }
      await complete(transaction);
    }
  }
  /** Everything is read once and kept: there is no other way to find a document. */
  async #pages() {
    if (!this.#at) {
      const pages = await done(this.db.transaction("docs").objectStore("docs").getAll());
      const places = new Map();
      for (const [page, documents] of pages.entries()) for (const [slot, { id }] of documents.entries()) places.set(id, [page, slot]);
      this.#at = { pages, places };
    }
    return this.#at;
  }
  async update(batches) {
    const { pages, places } = await this.#pages();
    for (const batch of batches) {
      const touched = new Set();
      for (const document of batch) {
        const [page, slot] = places.get(document.id);
        pages[page][slot] = document;
        touched.add(page);
      }
      const transaction = this.db.transaction("docs", "readwrite");
      for (const page of touched) transaction.objectStore("docs").put(pages[page], page);
      await complete(transaction);
    }
  }
  async all() {
    return (await this.#pages()).pages.flat();
  }
  async list(section) {
    return (await this.all()).filter((document) => [document[listedBy]].flat().includes(section));
  }
  async get(ids) {
    const { pages, places } = await this.#pages();
    return ids.map((id) => places.get(id)).map(([page, slot]) => pages[page][slot]);
  }
}

class Sealed extends Plain {
  #key;
  async open() {
    await super.open();
    this.#key = await crypto.subtle.importKey("raw", new Uint8Array(32).fill(7), "AES-GCM", false, ["encrypt", "decrypt"]);
  }
  async #seal({ id, [listedBy]: listed, ...rest }) {
    const iv = crypto.getRandomValues(new Uint8Array(12));
    const bytes = new TextEncoder().encode(JSON.stringify(rest));
    return { id, [listedBy]: listed, iv, data: await crypto.subtle.encrypt({ name: "AES-GCM", iv }, this.#key, bytes) };
  }
  async #unseal({ id, [listedBy]: listed, iv, data }) {
    const bytes = await crypto.subtle.decrypt({ name: "AES-GCM", iv }, this.#key, data);
    return { id, [listedBy]: listed, ...JSON.parse(new TextDecoder().decode(bytes)) };
  }
  async arrive(batches) {
    for (const batch of batches) await super.arrive([await Promise.all(batch.map((document) => this.#seal(document)))]);
  }
  async all() {
    return Promise.all((await super.all()).map((record) => this.#unseal(record)));
  }
  async list(section) {
    return Promise.all((await super.list(section)).map((record) => this.#unseal(record)));
  }
  async get(ids) {
    return Promise.all((await super.get(ids)).map((record) => this.#unseal(record)));
  }
}

export const create = (variant) => new { plain: Plain, packed: Packed, sealed: Sealed }[variant]();
