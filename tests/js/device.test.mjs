// A device that refuses to open: the session is in memory meanwhile, and moves as soon as nothing could be lost.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openWith } from "../../js/dist/session/open.js";
import { defineSchema } from "../../js/dist/schema/schema.js";
import { fault, FakeCore, recorder } from "./fake-core.mjs";

const schema = defineSchema({ Package: { key: ["name"] }, Note: { key: ["name"] } });
const turn = () => new Promise((resolve) => setImmediate(resolve));

/**
 * A device that refuses with `refusal.code`, while there is one; and the cores, in the order in which they were opened.
 */
function setUp(t, code = "storage_closed") {
  globalThis.indexedDB = {};
  t.after(() => delete globalThis.indexedDB);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const cores = [];
  const tries = [];
  // `stored`: the subscriptions that an earlier opening left on the device.
  const device = { code, stored: [] };
  const glue = {
    async open(options, host) {
      if (!options.inMemory) tries.push(options.passphrase);
      if (!options.inMemory && device.code) throw fault(device.code);
      const core = new FakeCore({ ...options }, host);
      // The report of a core without a device.
      if (options.inMemory) core.tell({ storage: "none" });
      else for (const def of device.stored) core.subscribe(def);
      cores.push(core);
      return core;
    },
  };
  const back = [];
  const take = async () => ({ glue, giveBack: () => back.push("back") });
  const given = { org: "demo", schema, server: "http://localhost:7700", passphrase: "secret" };
  const open = (options) => openWith({ take }, { ...given, ...options });
  /** Lets time pass, with its consequences. */
  const pass = async (ms) => {
    // No timer fires before the work that is already due.
    await turn();
    t.mock.timers.tick(ms);
    for (let n = 0; n < 5; n++) {
      await turn();
      t.mock.timers.tick(0);
    }
  };
  /** The core on the device runs out of the time that it has to catch up. */
  const runOut = async () => {
    t.mock.method(performance, "now", () => 1e9);
    await pass(200);
    t.mock.restoreAll();
  };
  return { cores, tries, device, back, open, pass, runOut };
}

test("the session begins in memory, says so, and tries the device at growing delays", async (t) => {
  const { cores, tries, open, pass } = setUp(t);
  const session = await open();
  assert.deepEqual([cores.length, cores[0].options.inMemory], [1, true]);
  assert.deepEqual([session.status.storage, session.status.error.code, session.status.mode], ["memory", "storage_closed", "synced"]);
  await assert.rejects(session.flush(), { code: "storage_closed" });
  for (const [ms, count] of [[4_999, 1], [1, 2], [9_999, 2], [1, 3], [20_000, 4], [40_000, 5], [80_000, 6], [160_000, 7], [299_999, 7], [1, 8], [300_000, 9]]) {
    await pass(ms);
    assert.equal(tries.length, count);
  }
  await session.close();
  await pass(300_000);
  assert.equal(tries.length, 9, "nothing is tried once it is closed");
});

test("it moves to the device once that holds as much, and nothing waits", async (t) => {
  const { cores, device, back, open, pass } = setUp(t);
  const session = await open();
  const { callback, calls, seen } = recorder();
  session.live("Package", {}, callback);
  cores[0].put("Package", { name: "a" });
  cores[0].becomeReady("Package");
  await calls(1);
  const operation = session.put("Package", { name: "b" });
  device.code = undefined;
  await pass(5_000);
  const [first, next] = cores;
  assert.equal(next.options.passphrase, "secret");
  assert.deepEqual(next.subscriptions(), ["Package"]);
  next.put("Package", { name: "a" });
  await pass(0);
  assert.equal(session.status.storage, "memory", "it holds less");
  next.becomeReady("Package");
  await pass(0);
  assert.equal(session.status.storage, "memory", "an operation waits");
  first.save(operation.id, "memory");
  first.refuse(operation.id);
  await pass(0);
  assert.equal(session.status.storage, "memory", "a refused one waits as well");
  session.refused.value[0].discard();
  await assert.rejects(operation.accepted);
  first.tell({ drafts: 1 });
  await pass(0);
  assert.equal(session.status.storage, "memory", "a draft is nowhere else");
  first.tell({ drafts: 0 });
  first.isHolding = true;
  first.put("Package", { name: "c" });
  await pass(0);
  assert.equal(session.status.storage, "memory", "a call is under way");
  first.release();
  next.put("Package", { name: "c" });
  await pass(200);
  assert.deepEqual([session.status.storage, session.status.error], ["ok", null]);
  assert.ok(first.calls.some(([name]) => name === "closed"));
  assert.equal(back.length, 2, "that of the refusal, and that of the core in memory");
  await pass(0);
  assert.deepEqual(seen.at(-1)[0].map(({ name }) => name), ["a", "c"]);
  assert.ok(seen.every(([docs]) => docs.length > 0), "nothing disappears");
  // The first core is ignored from now on.
  first.tell({ phase: "offline" });
  assert.equal(session.status.phase, "live");
  await session.flush();
  await session.close();
});

test("a subscription that ends in memory has ended on the device too", async (t) => {
  const { cores, device, open, pass, runOut } = setUp(t);
  device.stored = ["Note", "Other", "Package"];
  const session = await open();
  session.live("Package", {}, () => {});
  session.unsubscribe("Note", {});
  cores[0].becomeReady("Package");
  device.code = undefined;
  await pass(5_000);
  // This core never gets as far, so another one follows it.
  await runOut();
  await pass(10_000);
  assert.equal(cores.length, 3);
  cores[2].becomeReady("Package");
  await pass(200);
  assert.equal(session.status.storage, "ok");
  assert.deepEqual(session.subscriptions(), ["Other", "Package"]);
  await session.close();
});

test("a subscription that ends while the device loads it ends there, unless it begins again", async (t) => {
  const { cores, device, open, pass } = setUp(t);
  const session = await open();
  const { callback, calls, seen } = recorder();
  session.live("Package", {}, callback);
  const ready = session.collection("Note", {}).whenReady();
  cores[0].becomeReady("Package");
  device.code = undefined;
  await pass(5_000);
  assert.deepEqual(cores[1].subscriptions(), ["Package", "Note"]);
  session.unsubscribe("Note", {});
  await assert.rejects(ready, { code: "closed" });
  session.unsubscribe("Package", {});
  session.live("Package", {}, callback);
  cores[0].becomeReady("Package");
  cores[1].put("Package", { name: "a" });
  cores[1].becomeReady("Package");
  await pass(200);
  assert.equal(session.status.storage, "ok");
  assert.deepEqual(session.subscriptions(), ["Package"]);
  assert.deepEqual(cores[1].calls.filter(([name]) => name === "unsubscribe"), [["unsubscribe", "Note"]]);
  await calls(seen.length);
  assert.deepEqual(seen.at(-1)[0].map(({ name }) => name), ["a"]);
  await session.close();
});

test("in avion the device is not tried, and is again in synced", async (t) => {
  const { cores, tries, open, pass } = setUp(t);
  const session = await open();
  cores[0].tell({ mode: "avion", storage: "none" });
  await pass(5_000);
  assert.equal(tries.length, 1);
  cores[0].tell({ mode: "synced", storage: "none" });
  await pass(10_000);
  assert.equal(tries.length, 2);
  await session.close();
});

test("X of a core that does not take over is forgotten, and the passphrase is not", async (t) => {
  const { cores, tries, device, open, pass } = setUp(t);
  const session = await open();
  session.live("Package", {}, () => {});
  cores[0].becomeReady("Package");
  device.code = undefined;
  await pass(5_000);
  const x = new Uint8Array(32).fill(7);
  cores[1].host.derived(x);
  t.mock.method(performance, "now", () => 1e9);
  await pass(200);
  t.mock.restoreAll();
  assert.deepEqual(x, new Uint8Array(32));
  await pass(10_000);
  assert.deepEqual(tries, ["secret", "secret", "secret"]);
  await session.close();
});

test("a device that opens and is not this session's is told, and not tried again", async (t) => {
  const { tries, device, open, pass } = setUp(t);
  const session = await open();
  device.code = "wrong_passphrase";
  await pass(5_000);
  assert.equal(session.status.error.code, "wrong_passphrase");
  assert.equal(session.status.storage, "memory");
  await pass(300_000);
  assert.equal(tries.length, 2);
  await session.close();
});

test("a core on the device that does not come as far is closed, and opened again later", async (t) => {
  const { cores, device, open, pass, runOut } = setUp(t);
  const session = await open();
  session.live("Package", {}, () => {});
  cores[0].becomeReady("Package");
  device.code = undefined;
  await pass(5_000);
  await runOut();
  assert.ok(cores[1].calls.some(([name]) => name === "closed"));
  assert.equal(session.status.phase, "live");
  await pass(10_000);
  assert.equal(cores.length, 3);
  await session.close();
  assert.ok(cores[2].calls.some(([name]) => name === "closed"), "with the session");
});

for (const [what, code, options] of [
  ["in avion", "storage_closed", { mode: "avion" }],
  ["of another reason", "wrong_passphrase", {}],
  ["of a store that somebody deletes", "store_in_use", {}],
  ["of a damaged store", "store_damaged", {}],
]) {
  test(`a refusal ${what} is an error of the opening`, async (t) => {
    const { cores, open } = setUp(t, code);
    await assert.rejects(open(options), { code });
    assert.equal(cores.length, 0);
  });
}

test("where there is no IndexedDB at all, opening fails as it did", async (t) => {
  const { open } = setUp(t, "storage_failed");
  delete globalThis.indexedDB;
  await assert.rejects(open(), { code: "storage_failed" });
});
