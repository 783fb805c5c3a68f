// Helpers that run in the test page: short names for the public API, so that a test reads like its steps.
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

/** Like `start`, but returns the error instead of throwing it. */
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

/** The longest wait for a condition: far more than it ever takes. */
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

/** Listens until a check succeeds. If it never does, the error describes the session's state. */
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

/** The documents of a match, once it is completely loaded. */
export async function loaded(name, className, match) {
  const collection = sessions[name].session.collection(className, match);
  return collection.whenReady();
}

/** The stores of the page. Each has a backup database with its high-water mark. */
export async function stores() {
  return (await indexedDB.databases()).filter(({ name }) => !name.endsWith("-mark"));
}

/** The IDBFactory of the backup databases: in a separate bucket, in browsers that have buckets. */
export async function beside() {
  const bucket = await navigator.storageBuckets?.open("escale");
  return bucket?.indexedDB ?? indexedDB;
}

/**
 * Deletes the backup database of a closed store: without it, nothing shows that the store was restored to an earlier
 * state.
 */
export async function forgetMark(name) {
  return done((await beside()).deleteDatabase(`${name}-mark`));
}

/** The names and versions of all databases of the page, including those of the bucket. */
export async function allDatabases() {
  const factories = new Set([indexedDB, await beside()]);
  const lists = [...factories].map(async (factory) => (await factory.databases()).map((one) => ({ ...one, factory })));
  return (await Promise.all(lists)).flat().sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** Every stored record of every database of the page, in hexadecimal. */
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

/** All records of one table of a closed store, unchanged. */
export async function records(name, table) {
  const database = await connect(name);
  const store = database.transaction(table).objectStore(table);
  const [keys, values] = await Promise.all([done(store.getAllKeys()), done(store.getAll())]);
  database.close();
  return keys.map((key, i) => [key, values[i]]);
}

/** Restores a table to the records that `records` returned. */
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

/** Opens a session that shows the effect of `counter.add`, and has a different conflict policy for each class. */
export function openWriting(name, options) {
  const operations = {
    "counter.add": {
      optimistic(tx, { key, by }) {
        tx.put("Counter", { id: key[0], n: (tx.get("Counter", key)?.n ?? 0) + by });
      },
    },
  };
  const settle = (base, mine, theirs) => mine && theirs && { ...theirs, a: mine.a + theirs.a - (base?.a ?? 0) };
  const conflicts = { Asked: "ask", Kept: "server", Mine: "client", Merged: "merge", Settled: settle };
  const key = options.mode === "incognito" || options.passphrase ? undefined : new Uint8Array(32);
  return start(name, { key, ...options, operations, conflicts });
}

/** Resolves with the refused operations once they satisfy `wanted`. */
export function whenRefused(name, wanted) {
  const { session } = sessions[name];
  const plain = ({ id, name: called, args, at, error, base, mine, theirs }) => ({ id, name: called, args, at, error: plainError(error), base, mine, theirs });
  return when(
    name,
    `the refused operations: ${wanted}`,
    (check) => session.refused.subscribe((refused) => check(wanted(refused), () => refused.map(plain))),
  );
}

/** The outcome of a promise: its value, or the error as `{ failed }`. */
export const outcome = (promise) => promise.catch((error) => ({ failed: plainError(error).code }));

/** Writes without end: each operation adds to its own counter and to a shared one. Reports each step by `tell`. */
export async function streamWrites(name, round) {
  const { session } = sessions[name];
  for (let n = 0; ; n++) {
    const own = `${round}-${n}`;
    // Reported before, so that no executed operation is unreported.
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
