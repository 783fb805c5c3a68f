// Sources that never answer: databases without events, and adapters whose promises never settle. Each wait has an end. In mocked time.
import assert from "node:assert/strict";
import { test } from "node:test";

import { ROOT } from "../../packaging/project.mjs";

const dist = `${ROOT}/js/dist`;
const { openDatabase, settled, transact } = await import(`${dist}/platform/database.js`);
const { inTime } = await import(`${dist}/platform/retry.js`);
const { enter } = await import(`${dist}/accounts/entry.js`);
const { recover, signUp } = await import(`${dist}/accounts/manage.js`);
const { remoteOf } = await import(`${dist}/files/remote.js`);

const never = () => new Promise(() => {});
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** Mocked timers, and a function that lets time pass until a promise settles. It gives the error, and the time. */
function time(t) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  return async (promise, most) => {
    let error;
    promise.catch((failure) => (error = failure));
    await turn();
    for (let ms = 0; ms <= most; ms += 1_000) {
      if (error) return [error, ms];
      t.mock.timers.tick(1_000);
      for (let turns = 0; turns < 5; turns++) await turn();
    }
    return assert.fail(`it still waits after ${most} ms`);
  };
}

test("a call has its time, and an answer stops the clock", async (t) => {
  const failed = time(t);
  assert.equal(await inTime(Promise.resolve(7), 10), 7);
  await assert.rejects(inTime(Promise.reject(new Error("own")), 10), /own/);
  const [error, ms] = await failed(inTime(never(), 5_000), 10_000);
  assert.deepEqual([error.name, ms], ["TimeoutError", 5_000]);
});

test("a database without any event counts as failed, and closes if it opens after all", async (t) => {
  const failed = time(t);
  const opening = {};
  const [error, ms] = await failed(openDatabase({ open: () => opening }, "one", "a"), 40_000);
  assert.deepEqual([error.name, ms], ["TimeoutError", 30_000]);
  let isClosed = false;
  opening.result = { close: () => (isClosed = true) };
  opening.onsuccess({ target: opening });
  assert.ok(isClosed);
  assert.equal((await failed(settled({}), 40_000))[0].name, "TimeoutError", "a transaction that never ends");
});

test("a transaction that is silent too long is aborted: it must not happen after its failure was reported", async (t) => {
  const failed = time(t);
  let isAborted = false;
  const database = { objectStoreNames: ["a"], transaction: () => ({ abort: () => (isAborted = true) }) };
  const [error] = await failed(transact(database, "readwrite", "strict", async () => 7), 40_000);
  assert.deepEqual([error.name, isAborted], ["TimeoutError", true]);
});

test("an account is entered though IndexedDB is silent, and an adapter that never answers is offline", async (t) => {
  const failed = time(t);
  const real = globalThis.indexedDB;
  globalThis.indexedDB = { open: () => ({}), deleteDatabase: () => ({}) };
  t.after(() => (globalThis.indexedDB = real));
  let wasAsked = false;
  const server = { account: () => ((wasAsked = true), never()) };
  const entering = enter({ org: "o", account: "ada", server, passphrase: "one", mode: "synced" });
  entering.catch(() => {});
  // The hashes take real time, so the turns are not counted.
  while (!wasAsked) {
    t.mock.timers.tick(1_000);
    await turn();
  }
  assert.equal((await failed(entering, 40_000))[0].code, "offline");
});

test("an adapter of files that never answers is offline, and gives its place to the next", async (t) => {
  const failed = time(t);
  const adapter = { files: { have: never, put: never, get: never } };
  const host = { server: adapter, status: { mode: "synced", phase: "live" }, token: async () => undefined };
  const remote = remoteOf(host, new AbortController().signal);
  assert.deepEqual(await failed(remote.have(["sha"]), 60_000).then(([{ code }, ms]) => [code, ms]), ["offline", 30_000]);
  const bytes = new Uint8Array(8_000);
  const transfers = [remote.put("a", () => bytes), remote.put("b", () => bytes), remote.get("c", 8_000), remote.get("d", 8_000)];
  for (const transfer of transfers) transfer.catch(() => {});
  for (const transfer of transfers) assert.equal((await failed(transfer, 120_000))[0].code, "offline");
});

test("half of a surrogate pair is in no passphrase: it would be another one", async () => {
  const place = { org: "o", account: "ada", server: { account: () => assert.fail("nothing is sent") } };
  const code = "AAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAA-AAAA";
  await assert.rejects(signUp({ ...place, passphrase: "a\ud800" }), { code: "bad_option" });
  await assert.rejects(recover({ ...place, code, passphrase: "a\ud800" }), { code: "bad_option" });
});
