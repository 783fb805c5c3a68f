// The promises of `live` and `collection`: which calls are made, with which objects, in which order.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defineSchema } from "../../../js/dist/schema/schema.js";
import { openFake, recorder, settled } from "../fake-core.mjs";

const schema = defineSchema({ Package: { key: ["name"], collections: { section: { key: ["section"] } } } });
const names = (docs) => docs.map((document) => document.name);

test("live calls back with what is held, even nothing, then at each change", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls, seen } = recorder();
  session.live("Package", {}, callback);
  assert.equal(seen.length, 0, "never during the call");
  assert.deepEqual(await calls(1), [[], { ready: false, whole: false, error: undefined }]);
  core.put("Package", { name: "b" }, { name: "a" });
  assert.deepEqual(names((await calls(2))[0]), ["a", "b"]);
  core.becomeReady("Package");
  assert.deepEqual((await calls(3))[1], { ready: true, whole: true, error: undefined });
  assert.equal(seen[2][0], seen[1][0], "the same array: no document changed");
});

test("an unchanged document is the same object, and so is an unchanged list", async () => {
  const { session, core } = await openFake(schema);
  const first = recorder();
  session.live("Package", {}, first.callback);
  core.put("Package", { name: "a", n: 1 }, { name: "b", n: 1 });
  const [before] = await first.calls(1);
  core.put("Package", { name: "b", n: 2 });
  const [after] = await first.calls(2);
  assert.equal(after[0], before[0]);
  assert.notEqual(after[1], before[1]);
  const second = recorder();
  session.live("Package", {}, second.callback);
  assert.equal((await second.calls(1))[0], after);
  assert.equal(await session.get("Package", ["b"]), after[1]);
  assert.equal(session.collection("Package", {}).docs, after);
});

test("documents and lists are frozen through and through", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls } = recorder();
  session.live("Package", {}, callback);
  core.put("Package", { name: "a", tags: ["x"], deep: { er: [{}] } });
  const [docs] = await calls(1);
  for (const value of [docs, docs[0], docs[0].tags, docs[0].deep, docs[0].deep.er, docs[0].deep.er[0]]) {
    assert.ok(Object.isFrozen(value));
  }
});

test("documents ascend by UTF-16 code units, whatever the order of their arrival", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls } = recorder();
  const expected = ["", "B", "a", "a/b", "aa", "e\u0301", "\u00e9", "\ud83d\ude00", "\uff5e"];
  session.live("Package", {}, callback);
  await calls(1);
  const shuffled = [3, 0, 8, 5, 1, 7, 2, 6, 4].map((i) => expected[i]);
  for (const [i, name] of shuffled.entries()) {
    core.put("Package", { name });
    assert.deepEqual(names((await calls(i + 2))[0]), expected.filter((n) => shuffled.slice(0, i + 1).includes(n)));
  }
  core.remove("Package", "aa");
  assert.deepEqual(names((await calls(11))[0]), expected.filter((name) => name !== "aa"));
});

test("a burst of changes makes one refresh", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls, seen } = recorder();
  session.live("Package", {}, callback);
  await calls(1);
  const before = core.called("list");
  for (let i = 0; i < 50; i++) core.put("Package", { name: `p${i}` });
  await calls(2);
  await settled();
  assert.equal(core.called("list") - before, 1);
  assert.equal(seen.length, 2);
});

test("what changes while a refresh runs makes exactly one more", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls, seen } = recorder();
  session.live("Package", {}, callback);
  await calls(1);
  core.isHolding = true;
  core.put("Package", { name: "a" });
  await settled();
  const before = core.called("list");
  for (let i = 0; i < 10; i++) core.put("Package", { name: `p${i}` });
  core.release();
  await calls(3);
  await settled();
  assert.equal(core.called("list") - before, 1);
  assert.deepEqual([seen[1][0].length, seen[2][0].length, seen.length], [1, 11, 3]);
});

test("a document that changes while it is read never goes missing", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls, seen } = recorder();
  session.live("Package", {}, callback);
  core.put("Package", { name: "a", n: 1 });
  await calls(1);
  core.isHolding = true;
  core.put("Package", { name: "a", n: 2 });
  await settled();
  core.put("Package", { name: "a", n: 3 });
  core.release();
  await calls(2);
  await settled();
  assert.deepEqual(seen.map(([docs]) => docs.map(({ n }) => n)), [[1], [3]]);
});

test("a stopped callback is never called again, not even by the refresh that runs", async () => {
  const { session, core } = await openFake(schema);
  const stopped = recorder();
  const other = recorder();
  const stop = session.live("Package", {}, stopped.callback);
  session.live("Package", {}, other.callback);
  await other.calls(1);
  core.isHolding = true;
  core.put("Package", { name: "a" });
  await settled();
  stop();
  core.release();
  await other.calls(2);
  assert.equal(stopped.seen.length, 1);
});

test("a callback may stop another one while the two are being called", async () => {
  const { session } = await openFake(schema);
  const stopped = recorder();
  const stops = [];
  session.live("Package", {}, () => stops[0]());
  stops.push(session.live("Package", {}, stopped.callback));
  await settled();
  assert.equal(stopped.seen.length, 0);
});

test("a callback may listen again, and hears at once", async () => {
  const { session } = await openFake(schema);
  const inner = recorder();
  session.live("Package", {}, () => session.live("Package", {}, inner.callback));
  assert.deepEqual((await inner.calls(1))[0], []);
});

test("what a callback throws is reported, and the others still run", async (t) => {
  const logged = t.mock.method(console, "error", () => {});
  const { session, core } = await openFake(schema);
  const { callback, calls } = recorder();
  session.live("Package", {}, () => {
    throw new Error("by the application");
  });
  session.live("Package", {}, async () => {
    throw new Error("later, by the application");
  });
  session.live("Package", {}, callback);
  await calls(1);
  await settled();
  assert.equal(logged.mock.callCount(), 2);
  core.put("Package", { name: "a" });
  assert.equal((await calls(2))[0].length, 1);
});

test("subscriptions outlive their callbacks, and end by unsubscribe", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls, seen } = recorder();
  const match = { section: "games" };
  session.live("Package", match, callback)();
  const [def] = session.subscriptions();
  core.put(def, { name: "a" });
  await settled();
  assert.equal(seen.length, 0);
  assert.equal(core.called("read"), 0, "nobody looks: nothing is read");
  session.live("Package", match, callback);
  assert.deepEqual(names((await calls(1))[0]), ["a"]);
  // Another tab or the server may have ended it meanwhile: each call says again that it is wanted.
  assert.equal(core.called("subscribe"), 2);
  const collection = session.collection("Package", match);
  session.unsubscribe("Package", match);
  await settled();
  assert.deepEqual([session.subscriptions(), seen.length, collection.docs], [[], 1, []]);
  session.live("Package", match, callback);
  assert.deepEqual((await calls(2))[0], []);
  session.unsubscribe(def);
  assert.deepEqual(session.subscriptions(), []);
});

test("a collection subscribes to nothing until somebody listens or waits, and then keeps its documents at hand", async () => {
  const { session, core } = await openFake(schema);
  const collection = session.collection("Package", {});
  assert.deepEqual([collection.docs, collection.ready, session.subscriptions()], [[], false, []]);
  core.put("Package", { name: "a" });
  core.becomeReady("Package");
  const docs = await collection.whenReady();
  assert.deepEqual([names(docs), session.subscriptions()], [["a"], ["Package"]]);
  assert.equal(session.collection("Package", {}).docs, docs, "another object of the same match");
  assert.equal(collection.docs, docs);
  assert.equal(await collection.whenReady(), docs);
  const { callback, calls } = recorder();
  collection.subscribe(callback);
  assert.deepEqual(await calls(1), [docs, { ready: true, whole: true, error: undefined }]);
  core.put("Package", { name: "b" });
  await calls(2);
  assert.deepEqual(names(collection.docs), ["a", "b"]);
});

test("documents that are kept for ever are at hand with no listener, until the subscription ends", async () => {
  const { session, core } = await openFake(schema);
  const collection = session.collection("Package", {}, { keep: "forever" });
  core.put("Package", { name: "a" });
  await settled();
  assert.deepEqual([names(collection.docs), core.rests.get("Package")], [["a"], 0]);
  session.unsubscribe("Package", {});
  assert.deepEqual([collection.docs, session.subscriptions()], [[], []]);
  for (const keep of [-1, Number.NaN, "always"]) {
    assert.throws(() => session.collection("Package", {}, { keep }), { code: "bad_option", message: /keep/ });
    assert.throws(() => session.live("Package", {}, () => {}, { keep }), { code: "bad_option", message: /keep/ });
  }
});

test("the first load's end is refused where the subscription ends before", async () => {
  const { session } = await openFake(schema);
  const ready = session.collection("Package", {}).whenReady();
  session.unsubscribe("Package", {});
  await assert.rejects(ready, { code: "closed" });
});

test("a refresh that fails shows in the status, and the next change tries again", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls, seen } = recorder();
  session.live("Package", {}, callback);
  await calls(1);
  core.readError = { code: "storage_failed", kind: "X", retryable: true, message: "storage_failed: x", cure: "y" };
  core.put("Package", { name: "a" });
  await settled();
  assert.equal(session.status.error.code, "storage_failed");
  assert.equal(seen.length, 1);
  core.readError = undefined;
  core.put("Package", { name: "b" });
  assert.deepEqual(names((await calls(2))[0]), ["a", "b"]);
});

test("twenty thousand documents are read in slices, and one change reads one", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls } = recorder();
  core.put("Package", ...Array.from({ length: 20_000 }, (_, i) => ({ name: `p${String(i).padStart(5, "0")}` })));
  session.live("Package", {}, callback);
  const [docs] = await calls(1);
  assert.equal(docs.length, 20_000);
  assert.ok(docs.every((document, i) => document.name === `p${String(i).padStart(5, "0")}`));
  assert.equal(core.called("read"), 20);
  core.put("Package", { name: "p10000", changed: true });
  const [next] = await calls(2);
  assert.deepEqual(core.calls.at(-1), ["read", 1]);
  assert.equal(next[10_000].changed, true);
  assert.equal(next.filter((document, i) => document !== docs[i]).length, 1);
});

test("ready rejects where the server refuses the class, and waits again once it does not", async () => {
  const { session, core } = await openFake(schema);
  const ready = session.collection("Package", {}).whenReady();
  const fault = { code: "unknown_def", kind: "N", retryable: false, message: "no class `Package`", cure: "Declare it." };
  core.tell({ faults: { Package: fault } });
  await assert.rejects(ready, { code: "unknown_def", message: "no class `Package`" });
  await assert.rejects(session.collection("Package", {}).whenReady(), { code: "unknown_def" });
  core.tell({ faults: { Package: { ...fault, code: "server_error", kind: "X", retryable: true } } });
  const again = session.collection("Package", {}).whenReady();
  core.put("Package", { name: "a" });
  core.becomeReady("Package");
  await settled();
  assert.equal(session.collection("Package", {}).ready, false, "it is refused for now, but waiting goes on");
  core.tell({ faults: {} });
  assert.deepEqual(names(await again), ["a"]);
});
