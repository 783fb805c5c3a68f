// The calls of a session one by one: their results, and the errors of their refusals.
import assert from "node:assert/strict";
import { test } from "node:test";

import { EscaleError } from "../../js/dist/base/errors.js";
import { defineSchema } from "../../js/dist/schema/schema.js";
import { fault, openFake, recorder, settled } from "./fake-core.mjs";

const schema = defineSchema({ Package: { key: ["name"], indexes: { size: "integer" } } });

test("open hands the core what it needs", async () => {
  const { core } = await openFake(schema, { server: "http://localhost:7700/base//", token: "t", account: "me", pollEveryMs: 5_000 });
  assert.deepEqual(core.options, {
    org: "demo",
    account: "me",
    schema: '{"Package":{"key":["name"],"indexes":{"size":"integer"}}}',
    mode: "synced",
    server: "http://localhost:7700/base",
    passphrase: "secret",
    key: undefined,
    hasFiles: false,
    hasToken: true,
    pollEveryMs: 5_000,
    format: "msgpack",
    policies: "{}",
  });
});

test("an error of the core keeps its code and its cure, and has a word for its kind", async () => {
  const words = { A: "refused", N: "not-found", B: "bug", X: "unexpected", D: "outdated", C: "retry", O: "unavailable", S: "unauthorized" };
  for (const [letter, word] of Object.entries(words)) {
    const wrong = { code: "wrong_passphrase", kind: letter, retryable: false, message: "x", cure: "Ask." };
    await assert.rejects(openFake(schema, {}, () => Promise.reject(wrong)), (error) => {
      assert.ok(error instanceof EscaleError && error instanceof Error);
      const { code, kind, retryable, message, cure, name } = error;
      assert.deepEqual({ code, kind, retryable, message, cure }, { ...wrong, kind: word });
      assert.equal(name, "EscaleError");
      return true;
    });
  }
});

test("what is no error of the core is a bug, by name and with its cause", async () => {
  const cause = new TypeError("x is not a function");
  const opening = openFake(schema, {}, () => Promise.reject(cause));
  await assert.rejects(opening, { code: "internal", kind: "bug", cause });
  const odd = { code: "offline", kind: "constructor", retryable: false, message: "x", cure: "y" };
  await assert.rejects(openFake(schema, {}, () => Promise.reject(odd)), { code: "internal", kind: "bug", cause: odd });
});

test("a panic ends the session", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls, seen } = recorder();
  session.live("Package", {}, callback);
  await calls(1);
  core.meta = () => {
    throw new WebAssembly.RuntimeError("unreachable");
  };
  core.put("Package", { name: "a" });
  const [[document]] = await calls(2);
  assert.throws(() => session.meta(document), { code: "panicked" });
  assert.deepEqual([session.status.phase, session.status.error.code], ["closed", "panicked"]);
  assert.throws(() => session.subscriptions(), { code: "closed" });
  core.put("Package", { name: "b" });
  await settled();
  assert.equal(seen.length, 2);
  await session.close();
});

test("get gives the document of a key, or nothing", async () => {
  const { session, core } = await openFake(schema);
  core.put("Package", { name: "a", size: 1 });
  assert.equal((await session.get("Package", ["a"])).size, 1);
  assert.equal(await session.get("Package", ["b"]), undefined);
  await assert.rejects(session.get("Package", "a"), { code: "bad_key" });
  await assert.rejects(session.get("Package", [1]), { code: "bad_key" });
  await assert.rejects(session.get("Other", ["a"]), { code: "unknown_class" });
});

test("a query asks all its predicates at once, and its documents ascend", async () => {
  const { session, core } = await openFake(schema);
  core.put("Package", { name: "b", size: 1 }, { name: "a", size: 2 });
  const all = session.query("Package");
  const some = all.where("size", ">=", 1).where("size", "<", 9);
  const docs = await some.docs();
  assert.deepEqual(docs.map(({ name }) => name), ["a", "b"]);
  assert.ok(Object.isFrozen(docs));
  assert.equal(docs[0], await session.get("Package", ["a"]));
  await all.docs();
  const asked = core.calls.filter(([name]) => name === "query").map(([, query]) => JSON.parse(query));
  assert.deepEqual(asked.map(([where]) => where), [[["size", ">=", 1], ["size", "<", 9]], []]);
  assert.throws(() => session.query("toString"), { code: "unknown_class" });
});

test("a query that a change overtakes is asked again", async () => {
  const { session, core } = await openFake(schema);
  core.put("Package", { name: "a", size: 1 });
  core.isHolding = true;
  const asking = session.query("Package").docs();
  await settled();
  core.put("Package", { name: "a", size: 2 });
  core.release();
  assert.deepEqual((await asking).map(({ size }) => size), [2]);
});

test("matches and callbacks that cannot be used are refused", async () => {
  const { session } = await openFake(schema);
  assert.throws(() => session.live("Package", undefined, () => {}), { code: "bad_option", message: /match/ });
  assert.throws(() => session.live("Package", "games", () => {}), { code: "bad_option", message: /match/ });
  // As in the core's errors, the code is not in the message.
  assert.throws(() => session.live("Package", {}), { code: "bad_option", message: /^live: the callback / });
  assert.throws(() => session.live("Pakage", {}, () => {}), { code: "unknown_class" });
  assert.throws(() => session.collection("Pakage", {}), { code: "unknown_class" });
});

for (const [what, match, error] of [
  ["nothing", { section: undefined }, { code: "bad_option", message: /match: section/ }],
  ["null", { section: null }, { code: "bad_option", message: /match: section/ }],
  ["a number", { country: "France", zip: 69001 }, { code: "bad_option", message: /match: zip/ }],
  ["a list", { tags: ["a"] }, { code: "bad_option", message: /match: tags/ }],
  ["a bigint", { section: 1n }, { code: "bad_option", message: /match: section/ }],
  ["a key that is nothing", { key: undefined }, { code: "bad_option", message: /match: key/ }],
  ["a key that holds nothing", { key: [undefined] }, { code: "bad_key" }],
  ["a key with a property", { key: ["a"], section: "games" }, { code: "bad_option", message: /match: key/ }],
]) {
  test(`a match of ${what} is refused, and subscribes to nothing`, async () => {
    const { session, core } = await openFake(schema);
    const refused = (error) => error instanceof EscaleError;
    for (const call of [
      () => session.live("Package", match, () => {}),
      () => session.collection("Package", match),
      () => session.unsubscribe("Package", match),
    ]) {
      assert.throws(call, error);
      assert.throws(call, refused);
    }
    assert.deepEqual([session.subscriptions(), core.called("unsubscribe")], [[], 0]);
  });
}

for (const operand of [1n, NaN, undefined, null, new Date(), ["a"], Symbol("a")]) {
  test(`an index is not compared with ${String(operand)} (${typeof operand})`, async () => {
    const { session, core } = await openFake(schema);
    const ask = () => session.query("Package").where("size", "==", operand);
    assert.throws(ask, { name: "EscaleError", code: "bad_option", message: /where: size/ });
    assert.throws(() => session.query("Package").where(1n, "==", 1), { name: "EscaleError", code: "bad_option" });
    assert.equal(core.called("query"), 0);
  });
}

test("the status tells its fields, the same object until something changes", async () => {
  const { session, core } = await openFake(schema);
  const { status } = session;
  const { callback, seen } = recorder();
  const stop = status.subscribe(callback);
  assert.deepEqual([status.mode, status.phase, status.storage, status.pending], ["synced", "live", "ok", 0]);
  assert.deepEqual(seen, [[status.value]]);
  assert.equal(status.value, status.value);
  const fault = { code: "forbidden", kind: "S", retryable: false, message: "x", cure: "y" };
  core.tell({ phase: "loading", progress: { received: 5, total: 10 }, faults: { Package: fault } });
  assert.equal(seen.length, 2);
  assert.equal(seen[1][0], status.value);
  assert.deepEqual(status.progress, { received: 5, total: 10 });
  assert.ok(status.faults.Package instanceof EscaleError && status.faults.Package.code === "forbidden");
  assert.ok(Object.isFrozen(status.value) && Object.isFrozen(status.value.progress));
  stop();
  core.tell({ phase: "live" });
  assert.equal(seen.length, 2);
});

test("an error of this side stays until the core has news", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { session, core } = await openFake(schema, {
    token: () => {
      throw new Error("no token today");
    },
  });
  void core.host.token(false);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(session.status.error.code, "unauthorized");
  assert.equal(session.status.error.cause.message, "no token today");
  core.tell({ phase: "paused" });
  assert.equal(session.status.error.code, "unauthorized");
  const offline = { code: "offline", kind: "X", retryable: true, message: "x", cure: "y" };
  core.tell({ error: offline });
  assert.equal(session.status.error.code, "offline");
  core.tell({ error: null });
  assert.equal(session.status.error, null);
});

test("a mistake of the server is written to the console once, with its line of the protocol, and no other error is", async (t) => {
  const warn = t.mock.method(console, "warn", () => {});
  const warned = () => warn.mock.calls.map(({ arguments: words }) => words);
  const { session, core } = await openFake(schema);
  const mistake = (line) => ({ ...fault("bad_reply"), kind: "B", message: line });
  const first = "parts[2].rows[17].v: it is below that of the one before (docs/protocol.md, Rows and departures)";
  core.tell({ error: mistake(first) });
  assert.deepEqual(warned(), [[`escale: bad_reply: ${first}`]]);
  // The core reports its whole status at every change, so the same error comes again.
  core.tell({ error: mistake(first) });
  core.tell({ phase: "loading" });
  assert.equal(warned().length, 1);
  assert.deepEqual([session.status.error.code, session.status.error.message], ["bad_reply", first]);
  const second = "seq: it is below the number of results[0] (docs/protocol.md, Operations)";
  core.tell({ error: mistake(second) });
  assert.deepEqual(warned().slice(1), [[`escale: bad_reply: ${second}`]]);
  for (const code of ["offline", "unauthorized", "storage_closed"]) core.tell({ error: fault(code) });
  core.tell({ error: null, faults: { Package: fault("bad_reply") } });
  assert.equal(warned().length, 2);
});

test("a token is given once as a string, or fetched each time", async () => {
  const fixed = await openFake(schema, { token: "t" });
  assert.deepEqual([await fixed.core.host.token(false), await fixed.core.host.token(true)], ["t", undefined]);
  const asked = [];
  const fetched = await openFake(schema, {
    token: async ({ refused }) => {
      asked.push(refused);
      return `t${asked.length}`;
    },
  });
  assert.deepEqual([await fetched.core.host.token(false), await fetched.core.host.token(true)], ["t1", "t2"]);
  assert.deepEqual(asked, [false, true]);
  const none = await openFake(schema);
  assert.equal(none.core.options.hasToken, false);
});

test("a session whose token function fails is paused, and opens once it gives one", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let calls = 0;
  const token = () => {
    if (++calls === 1) throw new Error("not now");
    return "good";
  };
  const { session, core } = await openFake(schema, { token });
  core.tell({ phase: "opening" });
  const given = core.host.token(false);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual([session.status.phase, session.status.error.code], ["paused", "unauthorized"]);
  core.tell({ phase: "opening", pending: 1 });
  assert.deepEqual([session.status.phase, session.status.pending], ["paused", 1], "the core does not know why");
  core.tell({ phase: "offline" });
  assert.equal(session.status.phase, "offline");
  core.tell({ phase: "opening" });
  t.mock.timers.tick(1_000);
  assert.equal(await given, "good");
  assert.equal(session.status.phase, "opening");
});

test("modes and passphrases are checked before the core sees them", async () => {
  const { session, core } = await openFake(schema);
  await session.setMode("avion");
  assert.equal(session.status.mode, "avion");
  await assert.rejects(session.setMode("plane"), { code: "bad_option", message: /mode/ });
  await session.flush();
  assert.deepEqual(core.calls.at(-1), ["flush"]);
  await session.changePassphrase("secret", "other");
  assert.deepEqual(core.calls.at(-1), ["changePassphrase", "secret", "other"]);
  await assert.rejects(session.changePassphrase("secret", ""), { code: "bad_option", message: /next/ });
});

test("inspect shows the device and the memory", async () => {
  const { session } = await openFake(schema);
  const { store, memory } = await session.inspect({ limit: 7 });
  assert.deepEqual([store.name, store.counts, memory], ["escale1-x", { documents: 7 }, { documents: 0, collections: [] }]);
});
