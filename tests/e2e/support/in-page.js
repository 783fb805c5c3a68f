// What runs in the test page: a few words over the public API, so that a test reads as what it does.
import { defineSchema, EscaleError, init, open, wipe } from "/pkg/index.js";

export { defineSchema, EscaleError, init, open, wipe };

/** Sessions by name: they outlive a call from the test. */
export const sessions = {};

/** Opens a session under a name, and notes every status it has. */
export async function start(name, { schema, ...options }) {
  const session = await open({ schema: defineSchema(schema), ...options });
  const log = [];
  session.status.subscribe((status) => log.push(plainStatus(status)));
  sessions[name] = { session, log };
  return session;
}

/** As `start`; gives the error instead of throwing it. */
export async function tryToStart(name, options) {
  try {
    await start(name, options);
    return null;
  } catch (error) {
    return plainError(error);
  }
}

export function plainError(error) {
  if (!(error instanceof EscaleError)) return { code: `not an EscaleError: ${error}`, stack: error?.stack };
  const { name, code, kind, retryable, cure, message } = error;
  return { name, code, kind, retryable, cure, message };
}

export function plainStatus({ error, faults, ...rest }) {
  const plainFaults = Object.entries(faults).map(([def, fault]) => [def, plainError(fault)]);
  return { ...rest, error: error && plainError(error), faults: Object.fromEntries(plainFaults) };
}

/** How long a condition is waited for: far more than it ever takes. */
const PATIENCE_MS = 25_000;

/** Resolves with the status once it satisfies `wanted`. */
export function whenStatus(name, wanted) {
  const { session } = sessions[name];
  return when(
    name,
    `the status ${wanted}`,
    (check) => session.status.subscribe((status) => check(wanted(status), () => plainStatus(status))),
  );
}

/** Resolves with the documents of a match once they satisfy `wanted`. */
export function whenDocs(name, className, match, wanted) {
  const { session } = sessions[name];
  return when(
    name,
    `the documents of ${JSON.stringify(match)}: ${wanted}`,
    (check) => session.live(className, match, (docs, { ready }) => check(wanted(docs, ready), () => docs)),
  );
}

/** Listens until a check succeeds; where none does, the error tells how the session stood. */
function when(name, what, listen) {
  return new Promise((resolve, reject) => {
    let stop;
    let isOver = false;
    const over = () => {
      isOver = true;
      clearTimeout(timer);
      // The first call can come before there is anything to stop.
      queueMicrotask(() => stop?.());
    };
    const timer = setTimeout(() => {
      over();
      const { log } = sessions[name];
      reject(new Error(`waited in vain for ${what}\nlast statuses: ${JSON.stringify(log.slice(-3))}`));
    }, PATIENCE_MS);
    stop = listen((holds, result) => {
      if (isOver || !holds) return;
      over();
      resolve(result());
    });
  });
}

/** The documents of a match once it was loaded whole. */
export async function loaded(name, className, match) {
  const collection = sessions[name].session.collection(className, match);
  return collection.ready;
}

/** The stores of the page; beside each stands a database with its mark. */
export async function stores() {
  return (await indexedDB.databases()).filter(({ name }) => !name.endsWith("-mark"));
}

/** Where what stands beside a store is: a bucket of its own, in browsers that have them. */
export async function beside() {
  const bucket = await navigator.storageBuckets?.open("escale");
  return bucket?.indexedDB ?? indexedDB;
}

/** Takes away what stands beside a closed store: without it, nothing tells that the store was put back. */
export async function forgetMark(name) {
  return done((await beside()).deleteDatabase(`${name}-mark`));
}

/** The names and versions of all databases of the page, those of the bucket with them. */
export async function allDatabases() {
  const factories = new Set([indexedDB, await beside()]);
  const lists = [...factories].map(async (factory) => (await factory.databases()).map((one) => ({ ...one, factory })));
  return (await Promise.all(lists)).flat().sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Every record of every database of the page, as it rests, in hexadecimal. */
export async function dump() {
  const result = {};
  for (const { name, version, factory } of await allDatabases()) {
    const database = await connect(name, undefined, undefined, factory);
    const tables = {};
    for (const table of [...database.objectStoreNames]) {
      const store = database.transaction(table).objectStore(table);
      const [keys, values] = await Promise.all([done(store.getAllKeys()), done(store.getAll())]);
      tables[table] = keys.map((key, i) => [hexOf(key), hexOf(values[i])]);
    }
    database.close();
    result[name] = { version, tables };
  }
  return result;
}

/** Runs `change(store, done)` in a transaction on one table of a closed store. */
export async function alter(name, table, change, factory) {
  const database = await connect(name, undefined, undefined, factory);
  const transaction = database.transaction(table, "readwrite");
  const complete = new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error);
  });
  await change(transaction.objectStore(table), done);
  await complete;
  database.close();
}

/** All records of one table of a closed store, as they are. */
export async function records(name, table) {
  const database = await connect(name);
  const store = database.transaction(table).objectStore(table);
  const [keys, values] = await Promise.all([done(store.getAllKeys()), done(store.getAll())]);
  database.close();
  return keys.map((key, i) => [key, values[i]]);
}

/** Puts a table back to what `records` gave. */
export async function restore(name, table, list) {
  await alter(name, table, (store) => {
    store.clear();
    for (const [key, value] of list) store.put(value, key);
  });
}

export function connect(name, version, upgrade, factory = indexedDB) {
  return new Promise((resolve, reject) => {
    const request = factory.open(name, version);
    request.onupgradeneeded = () => upgrade?.(request.result);
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("blocked"));
  });
}

export function done(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

function hexOf(value) {
  if (typeof value === "number") return String(value);
  const bytes = value instanceof ArrayBuffer ? new Uint8Array(value) : value;
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Opens a session that shows what `counter.add` does, and settles the conflicts of each class in another way. */
export function openWriting(name, options) {
  const operations = {
    "counter.add": {
      optimistic(tx, { key, by }) {
        tx.put("Counter", { id: key[0], n: (tx.get("Counter", key)?.n ?? 0) + by });
      },
    },
  };
  const settle = (base, mine, theirs) => mine && theirs && { ...theirs, a: mine.a + theirs.a - (base?.a ?? 0) };
  const conflicts = { Kept: "server", Mine: "client", Merged: "merge", Settled: settle };
  const key = options.mode === "incognito" || options.passphrase ? undefined : new Uint8Array(32);
  return start(name, { key, ...options, operations, conflicts });
}

/** Resolves with the refused operations once they satisfy `wanted`. */
export function whenRefused(name, wanted) {
  const { session } = sessions[name];
  const plain = ({ id, name: called, args, at, error, theirs }) => ({ id, name: called, args, at, error: plainError(error), theirs });
  return when(
    name,
    `the refused operations: ${wanted}`,
    (check) => session.refused.subscribe((refused) => check(wanted(refused), () => refused.map(plain))),
  );
}

/** What a promise came to: its value, or the error as `{ failed }`. */
export const outcome = (promise) => promise.catch((error) => ({ failed: plainError(error).code }));

/** Writes without end: each operation adds to a counter of its own and to a shared one. Tells each step by `tell`. */
export async function streamWrites(name, round) {
  const { session } = sessions[name];
  for (let n = 0; ; n++) {
    const own = `${round}-${n}`;
    // Told before, so that nothing is done that was not told to be issued.
    await window.tell("issued", own);
    const { saved, accepted } = session.batch((tx) => {
      tx.run("counter.add", { key: [own], by: 1 });
      tx.run("counter.add", { key: ["shared"], by: 1 });
    });
    saved.then(() => window.tell("saved", own));
    accepted.then(() => window.tell("accepted", own));
    // A few at a time, so that some wait to be saved, some to be sent, some to be answered.
    if (n % 7 === 6) await saved;
  }
}
