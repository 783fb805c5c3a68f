// Queries: how each is asked of the core, and the callbacks of live ones.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defineSchema } from "../../js/dist/schema/schema.js";
import { openFake, recorder, settled } from "./fake-core.mjs";

const schema = defineSchema({
  Package: {
    key: ["name"],
    collections: { section: { key: ["section"] } },
    indexes: { size: "integer", heavy: { type: "number", property: "weight" }, word: "string", words: "string[]" },
  },
  Other: { key: ["a", "b"] },
});
const names = (docs) => docs.map((document) => document.name);
const asked = (core) => core.calls.filter(([name]) => name === "query").map(([, query]) => JSON.parse(query));

test("each method of a query is one part of the question, and changes no other query", async () => {
  const { session, core } = await openFake(schema);
  const all = session.query("Package");
  await all.where("word", "in", ["a", "b"]).where("word", "startsWith", "a").docs();
  await all.in({ section: "games" }).orderBy("heavy", "desc").limit(10).after({ name: "x", weight: 1.5 }).docs();
  await all.orderBy("key").after({ name: "x" }).docs();
  await all.after({ name: "x" }).docs();
  await session.query("Other").after({ a: "1", b: "2/3" }).orderBy("key", "desc").docs();
  await all.docs();
  assert.deepEqual(asked(core), [
    [[["word", "in", ["a", "b"]], ["word", "startsWith", "a"]], null, null, null, null],
    [[], 'Package/{"section":"games"}', ["heavy", true], 10, [1.5, ["x"]]],
    [[], null, ["key", false], null, [null, ["x"]]],
    [[], null, null, null, [null, ["x"]]],
    [[], null, ["key", true], null, [null, ["1", "2/3"]]],
    [[], null, null, null, null],
  ]);
});

test("an ordered query keeps the core's order, and another one ascends by key", async () => {
  const { session, core } = await openFake(schema);
  core.put("Package", { name: "b" }, { name: "c" }, { name: "a" });
  const all = session.query("Package");
  assert.deepEqual(names(await all.docs()), ["a", "b", "c"]);
  assert.deepEqual(names(await all.orderBy("size").docs()), ["a", "c", "b"]);
  assert.deepEqual(names(await all.limit(2).docs()), ["a", "c"]);
  assert.equal((await all.orderBy("size").first()).name, "a");
  assert.equal(await session.query("Other").first(), undefined);
});

test("a count reads no document", async () => {
  const { session, core } = await openFake(schema);
  core.put("Package", { name: "b" }, { name: "c" });
  assert.equal(await session.query("Package").where("size", ">", 1).count(), 2);
  assert.equal(core.called("read"), 0);
});

test("a live query calls back once for a burst, and only if documents or their order changed", async () => {
  const { session, core } = await openFake(schema);
  core.put("Package", { name: "a", size: 1 });
  const { callback, calls, seen } = recorder();
  session.query("Package").orderBy("size").limit(2).live(callback);
  assert.equal(seen.length, 0, "never during the call");
  assert.deepEqual(names((await calls(1))[0]), ["a"]);
  core.put("Package", { name: "b" });
  core.put("Package", { name: "c" });
  assert.deepEqual(names((await calls(2))[0]), ["c", "b"]);
  assert.ok(Object.isFrozen(seen[1][0]));
  const before = asked(core).length;
  core.put("Package/x", { name: "z" });
  await settled();
  assert.deepEqual([seen.length, asked(core).length], [2, before + 1], "asked, and nothing changed for it");
  core.put("Other", { name: "z" });
  await settled();
  assert.equal(asked(core).length, before + 1, "of another class");
  assert.equal(core.called("read"), 2, "only new documents cross");
});

test("a live count calls back with each new number", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls, seen } = recorder();
  session.query("Package").liveCount(callback);
  assert.deepEqual(await calls(1), [0, { ready: true, error: undefined }]);
  core.put("Package", { name: "a" }, { name: "b" });
  assert.deepEqual(await calls(2), [2, { ready: false, error: undefined }], "the class is loading");
  core.put("Package", { name: "a", size: 2 });
  await settled();
  assert.equal(seen.length, 2, "as many as before");
});

test("a stopped live query asks no more, and lets its indexes go once", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls, seen } = recorder();
  const stop = session.query("Package").live(callback);
  await calls(1);
  stop();
  stop();
  core.put("Package", { name: "a" });
  await settled();
  assert.deepEqual([seen.length, core.called("watch"), core.called("unwatch")], [1, 1, 1]);
  const stopped = session.query("Package").live(callback);
  await session.close();
  stopped();
  assert.deepEqual([seen.length, core.called("unwatch")], [1, 1], "the core of a closed session has let all go");
});

test("a live query that fails is reported, and asked again at the next change", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls, seen } = recorder();
  session.query("Package").live(callback);
  await calls(1);
  core.queryError = { code: "storage_failed", kind: "X", retryable: true, message: "by the test", cure: "" };
  core.put("Package", { name: "a" });
  await settled();
  assert.deepEqual([seen.length, session.status.error.code], [1, "storage_failed"]);
  core.queryError = undefined;
  core.put("Package", { name: "b" });
  assert.deepEqual(names((await calls(2))[0]), ["a", "b"]);
});

test("a live query that the core cannot answer throws at the call", async () => {
  const { session, core } = await openFake(schema);
  core.queryError = { code: "unknown_index", kind: "A", retryable: false, message: "none", cure: "" };
  assert.throws(() => session.query("Package").live(() => {}), { name: "EscaleError", code: "unknown_index" });
});

for (const [what, ask] of [
  ["a limit of nothing", (query) => query.limit(0)],
  ["a limit of too much", (query) => query.limit(10_001)],
  ["a limit of a part", (query) => query.limit(1.5)],
  ["a limit that is a text", (query) => query.limit("5")],
  ["an order by nothing", (query) => query.orderBy(undefined)],
  ["a direction that is none", (query) => query.orderBy("size", "down")],
  ["a cursor that is no document", (query) => query.after("a")],
  ["values that are no list", (query) => query.where("word", "in", "a")],
  ["no values", (query) => query.where("word", "in", [])],
  ["too many values", (query) => query.where("word", "in", Array(101).fill("a"))],
  ["values of another type", (query) => query.where("word", "in", [1])],
  ["a match that is none", (query) => query.in("games")],
  ["a callback that is none", (query) => query.live()],
  ["a count without a callback", (query) => query.liveCount({})],
]) {
  test(`${what} is refused by name`, async () => {
    const { session, core } = await openFake(schema);
    assert.throws(() => ask(session.query("Package")), { name: "EscaleError", code: "bad_option" });
    assert.equal(core.called("query"), 0);
  });
}

test("a cursor of another class is refused by name", async () => {
  const { session } = await openFake(schema);
  await assert.rejects(session.query("Other").after({ name: "x" }).docs(), { code: "bad_key" });
});

test("a live query within a subscription that has ended is empty, and no error", async () => {
  const { session, core } = await openFake(schema);
  core.put("Package", { name: "a" });
  const [list, count] = [recorder(), recorder()];
  const query = session.query("Package").in({ section: "games" });
  query.live(list.callback);
  query.liveCount(count.callback);
  const loading = { ready: false, error: undefined };
  assert.deepEqual([names((await list.calls(1))[0]), await count.calls(1)], [["a"], [1, loading]]);
  core.queryError = { code: "bad_option", kind: "A", retryable: false, message: "in: not subscribed", cure: "" };
  core.put("Package", { name: "b" });
  assert.deepEqual([await list.calls(2), await count.calls(2)], [[[], loading], [0, loading]]);
  assert.equal(session.status.error, null);
  await assert.rejects(query.docs(), { code: "bad_option" });
});
