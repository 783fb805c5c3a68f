// A session as `escale/files` sees one, over fake-indexeddb, and the real server.
import { randomBytes } from "node:crypto";

import { IDBFactory, IDBKeyRange } from "fake-indexeddb";

import { provide } from "../../../js/dist/testing/environment.js";
import { openCatalogue } from "../../../js/dist/files/catalogue.js";
import { cipherOf } from "../../../js/dist/files/cipher.js";
import { DatabaseStore } from "../../../js/dist/files/database.js";
import { openFiles } from "../../../js/dist/files.js";
import { makeServer } from "../../e2e/support/server.mjs";

provide();
globalThis.IDBKeyRange = IDBKeyRange;

export const MIB = 1 << 20;
export const SCHEMA = { Note: { key: ["id"], properties: { photo: "file", scans: "file[]" } } };

/** A server that keeps files. */
export const filesServer = async (t, options) => (await makeServer(t, { schema: SCHEMA, options })).start();

/** A status that the test sets. */
export class FakeStatus {
  #callbacks = new Set();

  constructor(value) {
    this.value = value;
  }
  get mode() {
    return this.value.mode;
  }
  get phase() {
    return this.value.phase;
  }
  get leads() {
    return this.value.leads;
  }
  set(change) {
    this.value = { ...this.value, ...change };
    for (const call of [...this.#callbacks]) call(this.value);
  }
  subscribe(callback) {
    this.#callbacks.add(callback);
    callback(this.value);
    return () => this.#callbacks.delete(callback);
  }
}

let count = 0;

/** A device: a database, and keys. Each `open` is a tab of it. */
export class Device {
  constructor(server, { org = "demo", databases = new IDBFactory() } = {}) {
    this.server = server;
    this.org = org;
    this.databases = databases;
    this.name = `test-${process.pid}-${count++}-files`;
    this.keys = { seal: randomBytes(32), index: randomBytes(32) };
    this.tabs = [];
  }

  /** A tab. Its `settled` are the words on objects that the core got. */
  async open({ leads = true, mode = "synced", phase = "live", incognito = false, ...other } = {}) {
    const status = new FakeStatus({ mode, phase, leads });
    const tab = { status, settled: [], errors: [], referenced: [], documents: new Map(), waiters: [] };
    const follows = new Set();
    tab.host = {
      name: incognito ? undefined : this.name,
      databases: this.databases,
      org: this.org,
      server: this.server,
      keys: () => (incognito ? undefined : { seal: new Uint8Array(this.keys.seal), index: new Uint8Array(this.keys.index) }),
      status,
      token: () => Promise.resolve(undefined),
      settle(shas, verdict, epoch) {
        tab.settled.push({ shas: [...shas].sort(), verdict, epoch });
        for (const wake of tab.waiters.splice(0)) wake();
      },
      referenced: () => tab.referenced,
      local: () => [],
      follow(name, match, callback) {
        const entry = { name, callback };
        follows.add(entry);
        // As a session does it: later, once the documents are read.
        queueMicrotask(() => follows.has(entry) && callback(tab.documents.get(name) ?? []));
        return () => follows.delete(entry);
      },
      fileProperties: (name) => Object.entries(SCHEMA[name].properties).flatMap(([property, type]) => (type.startsWith("file") ? [property] : [])),
      fail: (error) => tab.errors.push(error),
      ...other,
    };
    tab.opened = await openFiles(tab.host);
    tab.files = tab.opened.files;
    /** The word of the module on these. */
    tab.word = async (...shas) => {
      tab.opened.needed(shas);
      while (!shas.every((sha) => tab.settled.some((word) => word.shas.includes(sha)))) {
        await new Promise((resolve) => tab.waiters.push(resolve));
      }
      const words = tab.settled.filter((word) => word.shas.some((sha) => shas.includes(sha)));
      tab.settled = [];
      return words;
    };
    /** The documents of a class change. */
    tab.has = (name, documents) => {
      tab.documents.set(name, documents);
      for (const follow of follows) if (follow.name === name) follow.callback(documents);
    };
    tab.end = () => tab.opened.end();
    this.tabs.push(tab);
    return tab;
  }

  end() {
    for (const tab of this.tabs) tab.end();
  }
}

/** Bytes from a seed: the same for the same seed. */
export function bytesOf(length, seed = 1) {
  const bytes = new Uint8Array(length);
  let state = seed >>> 0 || 1;
  for (let at = 0; at < length; at++) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    bytes[at] = state;
  }
  return bytes;
}

/** All bytes of a stream. */
export async function drain(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return new Uint8Array(Buffer.concat(parts));
}

/** Resolves with the first state that the test accepts. */
export const stateOf = (files, ref, accept) =>
  new Promise((resolve) => {
    const stop = files.subscribe(ref, (state) => {
      if (accept(state)) queueMicrotask(() => (stop(), resolve(state)));
    });
  });

export const codeOf = async (promise) => promise.then(() => "ok", (error) => error.code ?? String(error));
export const isEqual = (a, b) => Buffer.compare(a, b) === 0;

/** Resolves once it is true. The runner ends a test that waits for ever. */
export async function until(isTrue) {
  while (!(await isTrue())) await new Promise((resolve) => setImmediate(resolve));
}

/** All records of a table of a device, as they are stored. */
export async function recordsOf({ databases, name }, table) {
  const request = (made) => new Promise((resolve, reject) => Object.assign(made, { onsuccess: () => resolve(made.result), onerror: () => reject(made.error) }));
  const database = await request(databases.open(name));
  try {
    const store = database.transaction(table).objectStore(table);
    const [keys, values] = await Promise.all([request(store.getAllKeys()), request(store.getAll())]);
    return keys.map((key, at) => [key, values[at]]);
  } finally {
    database.close();
  }
}

/** The records of a device, as a tab that tells nobody has them. */
export async function catalogueOf({ databases, name, keys }) {
  const cipher = await cipherOf({ seal: new Uint8Array(keys.seal), index: new Uint8Array(keys.index) });
  return openCatalogue(new DatabaseStore(databases, name), cipher);
}

/** The chunks of a device that no record names. */
export async function orphansOf(device) {
  const catalogue = await catalogueOf(device);
  const named = new Set(catalogue.files().flatMap(({ names }) => names));
  catalogue.end();
  return (await recordsOf(device, "c")).filter(([name]) => !named.has(name)).length;
}
