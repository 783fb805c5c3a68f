// A browser that never answers, or whose word on the network is wrong: the package in Node over fake-indexeddb, in mocked time.
import assert from "node:assert/strict";
import { test } from "node:test";

import "fake-indexeddb/auto";

import { makePageServer } from "../e2e/support/in-page/page-server.js";
import { defineSchema, open, wipe } from "escale";

const schema = defineSchema({ Note: { key: ["id"] } });
const turn = () => new Promise((resolve) => setImmediate(resolve));
const turns = async (count) => {
  for (let n = 0; n < count; n++) await turn();
};

/** Mocked time, for timers and for the clock of the core. `pass` lets it pass, with its consequences. */
function time(t) {
  let now = performance.now();
  t.mock.method(performance, "now", () => now);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  return async (ms) => {
    for (let passed = 0; passed < ms; passed += 500) {
      now += 500;
      t.mock.timers.tick(500);
      await turns(10);
    }
    await turns(50);
  };
}

/** Tells later whether a promise has settled, and how. */
function followed(promise) {
  let state = "waits";
  promise.then(
    (value) => (state = { value }),
    ({ code }) => (state = { code }),
  );
  return () => state;
}

/** A request that gives no event. Each of its methods gives another one. */
const silent = () => new Proxy({}, { get: (target, name) => target[name] ?? (typeof name === "string" && name !== "then" && !name.startsWith("on") ? () => silent() : null) });

/** The ways in which IndexedDB is silent. Each ends by the function that it returns. */
const WAYS = {
  "open gives no event": () => {
    const { open: real } = IDBFactory.prototype;
    IDBFactory.prototype.open = silent;
    return () => (IDBFactory.prototype.open = real);
  },
  "no transaction ends": () => {
    const { transaction: real } = IDBDatabase.prototype;
    // That of an upgrade is the fake's own.
    IDBDatabase.prototype.transaction = function (...args) {
      return args[1] === "versionchange" ? real.apply(this, args) : silent();
    };
    return () => (IDBDatabase.prototype.transaction = real);
  },
  "nothing answers": () => {
    const ends = ["open gives no event", "no transaction ends"].map((way) => WAYS[way]());
    const { databases: real } = IDBFactory.prototype;
    IDBFactory.prototype.databases = () => new Promise(() => {});
    return () => (ends.forEach((end) => end()), (IDBFactory.prototype.databases = real));
  },
};

let stores = 0;
const optionsOf = (more) => ({ org: `silence${stores++}`, schema, server: makePageServer().adapter, key: new Uint8Array(32), ...more });

/** Makes the store, so that an opening finds it. */
async function made(options, pass) {
  const make = async () => {
    const session = await open(options);
    await session.put("Note", { id: "first" }).accepted;
    await session.flush();
    await session.close();
  };
  const isMade = followed(make());
  while (isMade() === "waits") await pass(500);
  assert.deepEqual(isMade(), { value: undefined });
}

for (const [way, begin] of Object.entries(WAYS)) {
  for (const isThere of [true, false]) {
    test(`${way}: the session opens in memory and says why, ${isThere ? "over a store" : "without a store"}`, async (t) => {
      const [options, pass] = [optionsOf(), time(t)];
      if (isThere) await made(options, pass);
      t.after(begin());
      const opened = followed(open(options));
      await pass(9_000);
      assert.equal(opened(), "waits", "a slow device has its time");
      // Ten seconds for the first answer that does not come, and one for the list of databases.
      await pass(4_000);
      const { value: session } = opened();
      assert.equal(session.status.storage, "memory");
      assert.match(session.status.error.code, /^storage_/);
      assert.match(session.status.error.message, /answer/);
      const operation = session.put("Note", { id: "second" });
      assert.equal(await operation.saved, "memory");
      await operation.accepted;
      await session.close();
    });
  }

  test(`${way}: an opening in avion fails by name`, async (t) => {
    const [options, pass] = [optionsOf(), time(t)];
    await made(options, pass);
    t.after(begin());
    const opened = followed(open({ ...options, mode: "avion" }));
    await pass(13_000);
    assert.match(opened().code, /^storage_/);
  });
}

test("a transaction that does not end: the status says so after ten seconds, and what waits is saved once the device answers", async (t) => {
  const pass = time(t);
  const opened = followed(open(optionsOf()));
  while (opened() === "waits") await pass(500);
  const { value: session } = opened();
  session.collection("Note", {}, { keep: "forever" });
  // Without Web Locks a tab leads only once no other one has answered.
  while (!session.status.leads) await pass(500);
  const settled = followed(session.flush());
  while (settled() === "waits") await pass(500);
  const end = WAYS["no transaction ends"]();
  t.after(end);
  const operation = session.put("Note", { id: "a" });
  const saved = followed(operation.saved);
  await pass(9_000);
  assert.deepEqual([saved(), session.status.storage], ["waits", "ok"]);
  await pass(2_000);
  assert.deepEqual([session.status.storage, session.status.error.code], ["memory", "storage_closed"]);
  const flushed = followed(session.flush());
  await pass(60_000);
  assert.match(flushed().code, /^storage_/, "flush does not wait for ever");
  assert.match(session.status.error.message, /does not answer/);
  end();
  await pass(120_000);
  assert.deepEqual(saved(), { value: "device" });
  assert.equal(session.status.storage, "ok");
  const closed = followed(session.close());
  await pass(30_000);
  assert.deepEqual(closed(), { value: undefined });
});

test("wipe of a device that does not answer fails by name", async (t) => {
  const { deleteDatabase: real } = IDBFactory.prototype;
  IDBFactory.prototype.deleteDatabase = silent;
  t.after(() => (IDBFactory.prototype.deleteDatabase = real));
  const pass = time(t);
  const wiped = followed(wipe({ org: "silence" }));
  await pass(12_000);
  assert.match(wiped().code, /^storage_/);
});

test("the browser says that there is no network, and there is one: the session asks all the same", async (t) => {
  const asked = [];
  const { adapter } = makePageServer();
  const { navigator } = globalThis;
  Object.defineProperty(globalThis, "navigator", { value: { onLine: false }, configurable: true, writable: true });
  t.after(() => Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true, writable: true }));
  const pass = time(t);
  const sync = (request) => (asked.push(request), adapter.sync(request));
  const session = await open(optionsOf({ mode: "incognito", key: undefined, server: { sync } }));
  const notes = session.collection("Note", {});
  await pass(29_000);
  assert.deepEqual([asked.length, session.status.phase], [0, "offline"], "its word counts for a while");
  await pass(2_000);
  await notes.whenReady();
  assert.equal(session.status.phase, "live");
  await session.close();
});
