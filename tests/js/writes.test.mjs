// The writes of a session: the requests, the refusals, and the tracking of an operation to its end.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defineSchema } from "../../js/dist/schema/schema.js";
import { fault, openFake, recorder, settled } from "./fake-core.mjs";

const schema = defineSchema({ Package: { key: ["name"] }, Point: { key: ["x", "y"], release: 2 } });
const written = (core) => core.calls.filter(([name]) => name === "write").map(([, ...rest]) => rest);
const state = async (promise) => {
  let state = { error: "still waits" };
  promise.then((value) => (state = { value }), (error) => (state = { error }));
  await settled();
  return state;
};

test("each write says what it is sent as, and gives its id at once", async () => {
  const { session, core } = await openFake(schema);
  const { id } = session.put("Package", { name: "a", size: 1, gone: undefined });
  assert.equal(id, "op1");
  session.patch("Package", ["a"], { summary: "x", size: undefined }, { unset: ["tags"], ifVersion: 5 });
  session.delete("Package", ["a"], { ifVersion: { op: id }, after: id });
  session.run("count.add", { by: 1 }, { touches: [["Package", ["a"]]], after: [{ id }, "op9"] });
  assert.deepEqual(written(core), [
    ["doc.put", { class: "Package", data: { name: "a", size: 1, release: 1 } }, {}],
    ["doc.patch", { class: "Package", key: ["a"], set: { summary: "x" }, unset: ["tags", "size"], ifVersion: 5 }, {}],
    ["doc.delete", { class: "Package", key: ["a"], ifVersion: { op: id } }, { after: [id] }],
    ["count.add", { by: 1 }, { touches: [["Package", ["a"]]], after: [id, "op9"] }],
  ]);
});

test("`-0` is 0 at every door (docs/rules.md)", async () => {
  const declared = defineSchema({ Doc: { key: ["n"], indexes: { size: "number" } } });
  const { session, core } = await openFake(declared);
  session.put("Doc", { n: -0, size: -0, deep: { list: [-0] } });
  session.batch((tx) => {
    tx.patch("Doc", ["0"], { size: -0 });
    tx.run("add", { by: -0 }, { touches: [] });
  });
  session.run("add", { by: -0 });
  // Strict equality tells `-0` from 0.
  assert.deepEqual(written(core), [
    ["doc.put", { class: "Doc", data: { n: 0, size: 0, deep: { list: [0] }, release: 1 } }, {}],
    ["batch", { ops: [{ name: "doc.patch", args: { class: "Doc", key: ["0"], set: { size: 0 } } }, { name: "add", args: { by: 0 } }] }, { touches: [] }],
    ["add", { by: 0 }, {}],
  ]);
  await session.query("Doc").where("size", "=", -0).docs();
  const [, query] = core.calls.find(([name]) => name === "query");
  assert.ok(!query.includes("-0"), query);
});

test("a batch is one operation", async () => {
  const { session, core } = await openFake(schema);
  const first = session.put("Package", { name: "a" });
  session.batch(
    (tx) => {
      tx.put("Point", { x: "1", y: "2" });
      tx.delete("Package", ["a"], { ifVersion: first });
      tx.run("count.add", {}, { touches: [["Package", ["b"]]] });
    },
    { after: first },
  );
  assert.deepEqual(written(core)[1], [
    "batch",
    {
      ops: [
        { name: "doc.put", args: { class: "Point", data: { x: "1", y: "2", release: 2 } } },
        { name: "doc.delete", args: { class: "Package", key: ["a"], ifVersion: { op: first.id } } },
        { name: "count.add", args: {} },
      ],
    },
    { after: [first.id], touches: [["Package", ["b"]]] },
  ]);
});

test("a batch that fails, waits, writes nothing or too late writes nothing", async () => {
  const { session, core } = await openFake(schema);
  let kept;
  const put = (tx) => tx.put("Package", { name: "a" });
  assert.throws(() => session.batch((tx) => (put(tx), assert.fail("by the application"))), { code: "ERR_ASSERTION" });
  assert.throws(() => session.batch(async (tx) => put(tx)), { code: "bad_option", message: /async/ });
  assert.throws(() => session.batch(() => {}), { code: "bad_option", message: /nothing/ });
  assert.throws(() => session.batch([]), { code: "bad_option", message: /function/ });
  assert.throws(() => session.batch((tx) => (put(tx), tx.put("Pakage", {}))), { code: "unknown_class" });
  assert.equal(written(core).length, 0);
  session.batch((tx) => put((kept = tx)));
  assert.throws(() => put(kept), { code: "bad_option", message: /ended/ });
});

test("bytes cross as text, and keys that look like bytes are escaped", async () => {
  const { session, core } = await openFake(schema);
  const deep = { $bytes: "x", $$bytes: [Uint8Array.of()], ["__proto__"]: 1 };
  session.put("Package", { name: "a", photo: Uint8Array.of(0, 255, 254, 128), deep });
  const [[, { data }]] = written(core);
  assert.deepEqual(data.photo, { $bytes: "AP_-gA" });
  assert.equal(JSON.stringify(data.deep), '{"$$bytes":"x","$$$bytes":[{"$bytes":""}],"__proto__":1}');
  const long = new Uint8Array(100_000).map((_, i) => i % 251);
  const operation = session.run("echo", { long });
  assert.deepEqual(session.pending()[1].args.long, long);
  core.accept(operation.id, 7, { $bytes: "AP_-gA" });
  assert.deepEqual(await operation.accepted, { v: 7, value: Uint8Array.of(0, 255, 254, 128) });
});

const cycle = {};
cycle.self = cycle;
for (const [what, data, expected] of [
  ["a number that is not finite", { size: NaN }, { code: "bad_value", message: /data\.size/ }],
  ["a function", { size: () => {} }, { code: "bad_value", message: /data\.size .* function/ }],
  ["a bigint", { deep: [{ er: 1n }] }, { code: "bad_value", message: /data\.deep .* bigint/ }],
  ["nothing in a list", { list: [undefined] }, { code: "bad_value", message: /data\.list/ }],
  ["a date", { date: new Date() }, { code: "bad_value", message: /data\.date .* Date/ }],
  ["a Map", { map: new Map() }, { code: "bad_value", message: /plain/ }],
  ["floats", { floats: new Float32Array(1) }, { code: "bad_value", message: /plain/ }],
  ["a cycle", { cycle }, { code: "too_deep", message: /data\.cycle/ }],
  ["half a character", { list: ["\ud83d"] }, { code: "bad_value", message: /data\.list .* Unicode/ }],
  ["a technical name", { _v: 1 }, { code: "bad_value", message: /_v/ }],
  ["a name with an underscore", { first_name: 1 }, { code: "bad_value", message: /^first_name: a property is a letter, then letters and digits$/ }],
  ["a name with a letter of another alphabet", { ["gr\u00f6\u00dfe"]: 1 }, { code: "bad_value", message: /^gr\u00f6\u00dfe: .* letters/ }],
  ["a name that is too long", { ["n".repeat(65)]: 1 }, { code: "bad_value", message: /^n{65}: / }],
  ["its own release", { release: 1 }, { code: "bad_value", message: /release/ }],
]) {
  test(`a document that holds ${what} is refused before anything is written`, async () => {
    const { session, core } = await openFake(schema);
    assert.throws(() => session.put("Package", { name: "a", ...data }), expected);
    assert.equal(core.called("write"), 0);
  });
}

test("values nest as deep at each door, and no deeper", async () => {
  const nested = (levels) => Array.from({ length: levels }).reduce((value) => [value], 1);
  const doors = {
    put: (to, value) => to.put("Package", { name: "a", value }),
    patch: (to, value) => to.patch("Package", ["a"], { value }),
    run: (to, value) => to.run("echo", { value }),
  };
  for (const [door, write] of Object.entries(doors)) {
    const { session, core } = await openFake(schema);
    for (const through of [(value) => write(session, value), (value) => session.batch((tx) => write(tx, value))]) {
      through(nested(27));
      assert.throws(() => through(nested(28)), { code: "too_deep", message: /\.value .* 27/ }, door);
    }
    assert.equal(core.called("write"), 2);
    // Within a batch it is as deep as arguments may be (docs/protocol.md, Limits).
    const [, args] = written(core).at(-1);
    const depthOf = (value) => (typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0);
    assert.equal(depthOf(args), door === "run" ? 31 : 32);
  }
});

test("what cannot be a write is refused by its name", async () => {
  const { session, core } = await openFake(schema);
  assert.throws(() => session.put("Pakage", {}), { code: "unknown_class" });
  assert.throws(() => session.put("toString", {}), { code: "unknown_class" });
  assert.throws(() => session.put("Package", null), { code: "bad_value" });
  assert.throws(() => session.patch("Package", "a", {}), { code: "bad_key" });
  assert.throws(() => session.patch("Package", ["a"], []), { code: "bad_value" });
  assert.throws(() => session.patch("Package", ["a"], { _x: 1 }), { code: "bad_value" });
  assert.throws(() => session.patch("Package", ["a"], { x: 1 }, { unset: ["x"] }), { code: "bad_option", message: /unset/ });
  assert.throws(() => session.patch("Package", ["a"], {}, { unset: "x" }), { code: "bad_option", message: /unset/ });
  assert.throws(() => session.delete("Package", [1]), { code: "bad_key" });
  assert.throws(() => session.delete("Package", ["a"], { ifVersion: -1 }), { code: "bad_option", message: /ifVersion/ });
  assert.throws(() => session.delete("Package", ["a"], { ifVersion: { op: 5 } }), { code: "bad_option" });
  assert.throws(() => session.delete("Package", ["a"], { after: {} }), { code: "bad_option", message: /after/ });
  assert.throws(() => session.delete("Package", ["a"], 5), { code: "bad_option", message: /options/ });
  assert.throws(() => session.run("", {}), { code: "bad_option" });
  assert.throws(() => session.run("doc.put", {}), { code: "bad_option", message: /method/ });
  assert.throws(() => session.run("x", []), { code: "bad_value" });
  assert.throws(() => session.run("x", {}, { touches: [["Pakage", ["a"]]] }), { code: "unknown_class" });
  assert.throws(() => session.run("x", {}, { touches: ["Package"] }), { code: "bad_option", message: /touches/ });
  assert.equal(core.called("write"), 0);
  core.writeError = fault("not_found");
  assert.throws(() => session.patch("Package", ["a"], { x: 1 }), { name: "EscaleError", code: "not_found" });
});

test("an option that is misspelt, or of another write, is refused before anything is written", async () => {
  const { session, core } = await openFake(schema);
  const all = { ifVersion: 1, after: "op1", unset: ["a"], touches: [] };
  const calls = {
    put: [(options) => session.put("Package", { name: "a" }, options), ["ifVersion", "after"]],
    patch: [(options) => session.patch("Package", ["a"], { size: 1 }, options), ["ifVersion", "after", "unset"]],
    delete: [(options) => session.delete("Package", ["a"], options), ["ifVersion", "after"]],
    run: [(options) => session.run("count.add", {}, options), ["after", "touches"]],
    batch: [(options) => session.batch((tx) => tx.delete("Package", ["a"]), options), ["after"]],
  };
  let count = 0;
  for (const [call, [write, taken]] of Object.entries(calls)) {
    for (const [name, value] of Object.entries({ ...all, ifversion: 3, constructor: 1 })) {
      const options = { [name]: value };
      if (taken.includes(name)) {
        write(options);
        count++;
      } else assert.throws(() => write(options), { code: "bad_option", message: new RegExp(`^${call}: .*${name}`) });
    }
    assert.throws(() => write(3), { code: "bad_option" });
  }
  assert.throws(() => session.batch((tx) => tx.delete("Package", ["a"], { after: "op1" })), { code: "bad_option", message: /order/ });
  assert.throws(() => session.batch((tx) => tx.run("count.add", {}, { touch: [] })), { code: "bad_option", message: /touch/ });
  assert.equal(written(core).length, count);
});

test("saved and accepted resolve in their time", async () => {
  const { session, core } = await openFake(schema);
  const operation = session.put("Package", { name: "a" });
  assert.deepEqual(await state(operation.saved), { error: "still waits" });
  core.save(operation.id, "memory");
  assert.equal(await operation.saved, "memory");
  assert.deepEqual(await state(operation.accepted), { error: "still waits" });
  core.accept(operation.id, 12);
  assert.deepEqual(await operation.accepted, { v: 12 });
});

test("news that come before the core has given the id are not lost", async () => {
  const { session, core } = await openFake(schema);
  core.isQuick = true;
  assert.equal(await session.put("Package", { name: "a" }).saved, "device");
});

test("an operation is followed through those that take its place", async () => {
  const { session, core } = await openFake(schema);
  const first = session.put("Package", { name: "a" });
  const by = core.replace(first.id);
  session.delete("Package", ["a"], { ifVersion: first, after: first });
  assert.deepEqual(written(core)[1].slice(1), [
    { class: "Package", key: ["a"], ifVersion: { op: by } },
    { after: [by] },
  ]);
  core.save(by);
  core.accept(by, 4);
  assert.deepEqual([await first.saved, await first.accepted], ["device", { v: 4 }]);
});

test("an operation that is refused or given up fails, and nobody needs to catch it", async (t) => {
  const unhandled = t.mock.fn();
  process.on("unhandledRejection", unhandled);
  t.after(() => process.off("unhandledRejection", unhandled));
  const { session, core } = await openFake(schema);
  const operation = session.put("Package", { name: "a" });
  const ignored = session.put("Package", { name: "b" });
  const refused = session.put("Package", { name: "c" });
  core.giveUp(operation.id);
  core.giveUp(ignored.id);
  core.refuse(refused.id);
  for (const promise of [operation.accepted, operation.saved]) {
    await assert.rejects(promise, { name: "EscaleError", code: "version_conflict" });
  }
  await settled();
  assert.equal(unhandled.mock.callCount(), 0);
});

test("a refused operation fails at once with the server's error, and shows in refused", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls, seen } = recorder();
  session.refused.subscribe(callback);
  assert.deepEqual(seen, [[[]]]);
  const operation = session.put("Package", { name: "a", photo: Uint8Array.of(1) });
  const failed = assert.rejects(operation.accepted, (error) => {
    assert.deepEqual([error.name, error.code], ["EscaleError", "forbidden"]);
    assert.equal(session.refused.value[0].id, operation.id, "listed by the time that the application hears of it");
    return true;
  });
  core.refuse(operation.id);
  await failed;
  const [[entry]] = await calls(2);
  assert.equal(session.refused.value[0], entry);
  assert.deepEqual([entry.id, entry.name, entry.at], [operation.id, "doc.put", 5]);
  assert.deepEqual(entry.args, { class: "Package", data: { name: "a", photo: Uint8Array.of(1), release: 1 } });
  assert.equal(entry.error.code, "forbidden");
  assert.ok(Object.isFrozen(entry) && Object.isFrozen(entry.args.data));
  assert.deepEqual(await state(operation.saved), { error: "still waits" }, "it may be saved later");
  core.save(operation.id);
  assert.equal(await operation.saved, "device");
  assert.deepEqual(session.pending(), []);
});

test("a refused operation is amended or retried: the new one has promises of its own", async () => {
  const { session, core } = await openFake(schema);
  const { callback, calls } = recorder();
  const first = session.put("Package", { name: "a" });
  core.save(first.id);
  core.refuse(first.id);
  session.refused.subscribe(callback);
  const [entry] = session.refused.value;
  const second = entry.amend({ ...entry.args, data: { name: "b", photo: Uint8Array.of(255) } });
  assert.deepEqual(core.calls.findLast(([name]) => name === "amend").slice(1), [
    first.id,
    { class: "Package", data: { name: "b", photo: { $bytes: "_w" } } },
  ]);
  await calls(2);
  assert.deepEqual(session.refused.value, []);
  core.refuse(second.id);
  const third = session.refused.value[0].retry();
  for (const { accepted } of [first, second]) await assert.rejects(accepted, { code: "forbidden" });
  assert.deepEqual(await state(third.accepted), { error: "still waits" });
  session.delete("Package", ["a"], { ifVersion: first });
  assert.deepEqual(written(core).at(-1)[1].ifVersion, { op: third.id }, "the old one still names the new one");
  core.save(third.id);
  core.accept(third.id, 9);
  assert.deepEqual(await third.accepted, { v: 9 });
  assert.throws(() => entry.retry(), { code: "not_found" });
  assert.throws(() => entry.amend(5), { code: "bad_value" });
});

test("a refused operation that is discarded before it is saved is never saved", async () => {
  const { session, core } = await openFake(schema);
  const operation = session.put("Package", { name: "a" });
  core.refuse(operation.id);
  session.refused.value[0].discard();
  await assert.rejects(operation.saved, { code: "forbidden" });
  await settled();
  assert.deepEqual(session.refused.value, []);
});

test("a question that the server refuses is discarded, and fails with the reason", async () => {
  const { session, core } = await openFake(schema);
  const asked = session.quota("g");
  core.refuse("op1");
  await assert.rejects(asked, { code: "forbidden" });
  await settled();
  assert.deepEqual(session.refused.value, []);
  assert.deepEqual(written(core), [["quota.get", { of: "g" }, {}]]);
});

test("a refusal that comes just before the session closes is no error of the page", async (t) => {
  const { session, core } = await openFake(schema);
  session.refused.subscribe(() => {});
  const uncaught = [];
  const note = (error) => uncaught.push(error);
  process.on("uncaughtException", note);
  t.after(() => process.off("uncaughtException", note));
  const { id } = session.put("Package", { name: "a" });
  core.refuse(id);
  const closed = session.close();
  await settled();
  await closed;
  assert.deepEqual(uncaught, []);
});

test("refused is read once for many changes, and tells nothing that has not changed", async () => {
  const { session, core } = await openFake(schema);
  const { callback, seen } = recorder();
  const stop = session.refused.subscribe(callback);
  const ids = [1, 2, 3].map((n) => session.put("Package", { name: `p${n}` }).id);
  const before = core.called("operations");
  for (const id of ids) core.refuse(id);
  await settled();
  assert.deepEqual([core.called("operations") - before, seen.length, seen[1][0].length], [1, 2, 3]);
  assert.equal(session.refused.value, seen[1][0]);
  stop();
  session.refused.value[0].discard();
  await settled();
  assert.equal(seen.length, 2);
  assert.throws(() => session.refused.subscribe(), { code: "bad_option" });
});

test("pending lists what waits, in order", async () => {
  const { session, core } = await openFake(schema);
  const ids = ["a", "b"].map((name) => session.put("Package", { name }).id);
  core.save(ids[0]);
  assert.deepEqual(
    session.pending().map(({ id, name, state: how, at }) => [id, name, how, at]),
    [
      [ids[0], "doc.put", "saved", 5],
      [ids[1], "doc.put", "unsaved", 5],
    ],
  );
  assert.deepEqual(session.lostByServer(), ["lost"]);
});

test("a patch of a document of an older release writes it whole, on the version that was read", async () => {
  const migrating = defineSchema(
    { Package: { key: ["name"], release: 2 } },
    { migrate: { Package: { 2: (data) => ({ ...data, kilobytes: data.bytes / 1000, bytes: undefined }) } } },
  );
  const { session, core } = await openFake(migrating);
  core.put("Package", { name: "a", bytes: 5000 });
  await session.get("Package", ["a"]);
  session.patch("Package", ["a"], { summary: "x" });
  core.put("Package", { name: "a", kilobytes: 5, release: 2 });
  await session.get("Package", ["a"]);
  session.patch("Package", ["a"], { summary: "y" });
  assert.deepEqual(written(core), [
    ["doc.put", { class: "Package", data: { name: "a", kilobytes: 5, summary: "x", release: 2 }, ifVersion: 1001 }, {}],
    ["doc.patch", { class: "Package", key: ["a"], set: { summary: "y" } }, {}],
  ]);
});

test("history gives past states as documents", async () => {
  const { session, core } = await openFake(schema);
  core.past = [
    { rowid: 1, op: "op1", type: "create", at: 1, commit: 3, data: null },
    { rowid: 2, op: "op1", type: "persist", at: 1, commit: 3, data: { name: "a", release: 1, photo: { $bytes: "AQ" } } },
    { rowid: 3, op: "op2", type: "persist", at: 2, commit: null, data: null },
  ];
  const past = await session.history("Package", ["a"]);
  assert.deepEqual(past.map(({ doc }) => doc && { ...doc }), [null, { name: "a", photo: Uint8Array.of(1) }, null]);
  assert.deepEqual({ ...past[2], doc: 0 }, { rowid: 3, op: "op2", type: "persist", at: 2, commit: null, doc: 0 });
  assert.ok(Object.isFrozen(past[1].doc));
  await assert.rejects(session.history("Package", "a"), { code: "bad_key" });
  await assert.rejects(session.history("Pakage", ["a"]), { code: "unknown_class" });
});

test("in a batch, what was brought up to the present release by one patch is patched by the next", async () => {
  const migrating = defineSchema(
    { Package: { key: ["name"], release: 2 } },
    { migrate: { Package: { 2: (data) => ({ ...data, kilobytes: data.bytes / 1000, bytes: undefined }) } } },
  );
  const { session, core } = await openFake(migrating, { conflicts: { Package: "merge" } });
  core.put("Package", { name: "a", bytes: 5000 }, { name: "b", bytes: 7000 });
  await Promise.all([session.get("Package", ["a"]), session.get("Package", ["b"])]);
  session.batch((tx) => {
    tx.patch("Package", ["a"], { summary: "x" });
    tx.patch("Package", ["a"], { size: 2 });
    tx.put("Package", { name: "b", kilobytes: 1 });
    tx.patch("Package", ["b"], { size: 3 });
  });
  const [[, { ops }]] = written(core);
  const patch = (name, set) => ({ name: "doc.patch", args: { class: "Package", key: [name], set } });
  assert.deepEqual(ops, [
    // No version: the class's policy resolves conflicts, and the session adds the expected version itself.
    { name: "doc.put", args: { class: "Package", data: { name: "a", kilobytes: 5, summary: "x", release: 2 } } },
    patch("a", { size: 2 }),
    { name: "doc.put", args: { class: "Package", data: { name: "b", kilobytes: 1, release: 2 } } },
    patch("b", { size: 3 }),
  ]);
});

test("the journal is swept by one rule, checked first", async () => {
  const { session, core } = await openFake(schema);
  assert.deepEqual(await session.journal.sweep({ count: 4 }), { removed: 2, rowids: [1, 2] });
  await session.journal.sweep({ before: new Date(0), apply: true });
  await session.journal.sweep({ days: 30, max: 5 });
  assert.deepEqual(core.calls.filter(([name]) => name === "sweep").map(([, rule]) => rule), [
    { count: 4, apply: false },
    { before: "1970-01-01T00:00:00.000Z", apply: true },
    { days: 30, max: 5, apply: false },
  ]);
  const refused = [null, { cuont: 1 }, { count: "4" }, { count: 1.5 }, { count: 1, days: 2 }, { before: new Date(NaN) }, { count: 1, max: 2 }];
  for (const rule of refused) await assert.rejects(session.journal.sweep(rule), { code: "bad_option", message: /sweep/ });
});
