// Accounts of the finished package against the real server, in Node over fake-indexeddb: devices, and a network that can
// be cut.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";

import "fake-indexeddb/auto";
import { IDBFactory } from "fake-indexeddb";

import { provide } from "../../../js/dist/testing/environment.js";
import { ServerProcess } from "../../e2e/support/server.mjs";

// Without locks, a session leads only after it has listened for other tabs for seconds.
provide();

export const { defineSchema, open } = await import("escale");
export const { accounts } = await import("escale/accounts");

export const CLASSES = {
  Note: { key: ["id"] },
  Help: { key: ["id"], exempt: 2, quota: { by: "id" } },
  EscaleAccount: {
    key: ["id"],
    rights: { read: [{ own: "id" }, "admin"], create: "none", update: "none", delete: "none" },
  },
};
export const schema = defineSchema(CLASSES);
const originalFetch = globalThis.fetch;

/** Each place has an address of its own: the server counts sign-ups and failures by it. */
export function realFetch(input, init) {
  const request = new Request(input, init);
  request.headers.set("x-forwarded-for", `10.0.0.${number}`);
  return originalFetch(request);
}
globalThis.fetch = realFetch;

/**
 * Each passphrase is derived once for each salt: these tests open hundreds of times, and 600,000 rounds of PBKDF2 took
 * most of their time. `formulas.test.mjs` derives the vectors without this.
 */
function deriveOnce({ subtle }) {
  const [secrets, derived] = [new WeakMap(), new Map()];
  const hex = (bytes) => Buffer.from(bytes).toString("hex");
  const importKey = subtle.importKey.bind(subtle);
  const deriveBits = subtle.deriveBits.bind(subtle);
  subtle.importKey = async (format, bytes, algorithm, ...rest) => {
    const name = algorithm.name ?? algorithm;
    // The caller clears the secret afterwards.
    const secret = name === "PBKDF2" ? hex(bytes) : undefined;
    const key = await importKey(format, bytes, algorithm, ...rest);
    if (secret !== undefined) secrets.set(key, secret);
    return key;
  };
  subtle.deriveBits = async (algorithm, key, length) => {
    const secret = secrets.get(key);
    if (secret === undefined) return deriveBits(algorithm, key, length);
    const input = [secret, hex(algorithm.salt), algorithm.iterations, algorithm.hash.name ?? algorithm.hash, length].join(" ");
    if (!derived.has(input)) derived.set(input, deriveBits(algorithm, key, length));
    // The caller clears the result, too.
    return (await derived.get(input)).slice(0);
  };
}
deriveOnce(crypto);

export let folder;
export let server;
let number = 0;
/** All that was sent, for the scan at the end. */
export const sent = [];

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "escale-accounts-"));
  await writeFile(join(folder, "schema.json"), JSON.stringify(CLASSES));
  server = await new ServerProcess(folder, join(folder, "schema.json"), ["--sign-up", "open", "--trusted-proxy", "127.0.0.0/8"]).start();
});

after(async () => {
  globalThis.fetch = originalFetch;
  await server.stop();
  await rm(folder, { recursive: true });
});

/** A new login, at an org of its own. */
export function newPlace() {
  number += 1;
  return { server: server.url, org: `org-${number}`, account: "ada" };
}

export const isOfAccount = (url) => String(url).endsWith("/account");

/** Cuts the network for the endpoint `account`: the n-th request is lost, or its answer, and so are all later ones. */
export function cut(at, how) {
  let count = 0;
  globalThis.fetch = async (url, init) => {
    if (!isOfAccount(url)) return realFetch(url, init);
    sent.push(String(init.body));
    const isCut = count++ >= at;
    if (isCut && how === "request") throw new TypeError("cut");
    const response = await realFetch(url, init);
    if (isCut && how === "answer") throw new TypeError("cut");
    return response;
  };
  return { mend: () => (globalThis.fetch = realFetch), count: () => count };
}

/** A device: databases of its own. */
export function device() {
  const databases = new IDBFactory();
  const use = () => (globalThis.indexedDB = databases);
  return {
    use,
    async open(place, options) {
      use();
      return open({ ...place, schema, accounts, ...options });
    },
  };
}

export const codeOf = async (promise) => promise.then(() => "ok", (error) => error.code);

/** Resolves once the session has no operation that waits, or has ended: whether it goes on. */
export const settled = (session) =>
  new Promise((resolve) => {
    const stop = session.status.subscribe(({ pending, phase }) => {
      if (phase === "closed" || (pending === 0 && phase === "live")) queueMicrotask(() => (stop(), resolve(phase === "live")));
    });
  });

/** Resolves once the session has ended: why, and the code of its last error. */
export const ended = (session) =>
  new Promise((resolve) => {
    const stop = session.status.subscribe(({ phase, reason, error }) => {
      if (phase === "closed") queueMicrotask(() => (stop(), resolve([reason, error?.code])));
    });
  });

/** Another server, which knows none of the accounts. */
export async function otherServer(t) {
  const own = await mkdtemp(join(tmpdir(), "escale-accounts-"));
  const other = await new ServerProcess(own, join(folder, "schema.json"), ["--sign-up", "open"]).start();
  t.after(async () => {
    await other.stop();
    await rm(own, { recursive: true });
  });
  return other.url;
}
