// The functions of an application that the core calls: optimistic parts, and custom conflict resolvers.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defineOperations } from "../../js/dist/writes/operations.js";
import { defineSchema } from "../../js/dist/schema/schema.js";
import { fault, openFake } from "./fake-core.mjs";

const schema = defineSchema(
  { Counter: { key: ["name"], release: 2 }, Note: { key: ["id"] } },
  { migrate: { Counter: { 2: ({ n, ...data }) => ({ ...data, count: n }) } } },
);

/** Runs an optimistic part as the core does: again with each document that it needs. */
async function run(optimistic, args, rest = {}) {
  const { core } = await openFake(schema, { operations: { op: { optimistic } } });
  const known = [];
  for (;;) {
    const outcome = JSON.parse(core.host.optimistic("op", JSON.stringify(args), JSON.stringify(known)));
    if (!outcome.wants) return { changes: outcome.changes, asked: known.length };
    for (const [className, key] of outcome.wants) {
      known.push({ class: className, key, state: rest[JSON.stringify([className, ...key])] ?? null });
    }
  }
}

const counter = (state) => ({ '["Counter","a"]': state });

test("an optimistic part reads, writes, and reads what it wrote", async () => {
  const seen = [];
  const part = (tx, { by }) => {
    const before = tx.get("Counter", ["a"]);
    tx.patch("Counter", ["a"], { count: before.count + by, old: undefined });
    tx.put("Note", { id: "x", photo: Uint8Array.of(1) });
    tx.delete("Note", ["y"]);
    seen.push(before, tx.get("Counter", ["a"]), tx.get("Note", ["x"]), tx.get("Note", ["y"]));
  };
  const { changes, asked } = await run(part, { by: 2 }, counter({ name: "a", count: 1, old: 5, release: 2 }));
  assert.equal(asked, 1);
  assert.deepEqual(changes, [
    { class: "Counter", key: ["a"], set: { count: 3 }, unset: ["old"] },
    { class: "Note", key: ["x"], put: { id: "x", photo: { $bytes: "AQ" }, release: 1 } },
    { class: "Note", key: ["y"] },
  ]);
  const shown = seen.map((doc) => doc && { ...doc });
  assert.deepEqual(shown, [
    { name: "a", count: 1, old: 5 },
    { name: "a", count: 3 },
    { id: "x", photo: Uint8Array.of(1) },
    undefined,
  ]);
  assert.ok(Object.isFrozen(seen[0]));
});

test("arguments are frozen, and bytes are bytes in them", async () => {
  const { changes } = await run(
    (tx, args) => {
      assert.ok(Object.isFrozen(args) && Object.isFrozen(args.list));
      tx.put("Note", { id: String(args.photo[0]) });
    },
    { photo: { $bytes: "_w" }, list: [] },
  );
  assert.deepEqual(changes, [{ class: "Note", key: ["255"], put: { id: "255", release: 1 } }]);
});

test("a part that catches everything still gets the documents that it asked for", async () => {
  const part = (tx) => {
    let doc;
    try {
      doc = tx.get("Note", ["x"]);
    } catch {
      doc = { id: "fallback" };
    }
    tx.put("Note", { id: doc?.id ?? "none" });
  };
  const { changes } = await run(part, {}, { '["Note","x"]': { id: "found" } });
  assert.deepEqual(changes.map(({ key }) => key), [["found"]]);
});

test("a patch of nothing changes nothing, and one of an older release writes the document whole", async () => {
  const part = (tx) => {
    tx.patch("Note", ["none"], { text: "x" });
    tx.patch("Counter", ["a"], { title: "t" });
  };
  const { changes } = await run(part, {}, counter({ name: "a", n: 4 }));
  assert.deepEqual(changes, [{ class: "Counter", key: ["a"], put: { name: "a", count: 4, title: "t", release: 2 } }]);
});

test("operations without an optimistic part, and unknown ones, say nothing", async () => {
  const { core } = await openFake(schema, { operations: defineOperations(schema, { plain: {} }) });
  assert.equal(core.host.optimistic("plain", "{}", "[]"), undefined);
  assert.equal(core.host.optimistic("unknown", "{}", "[]"), undefined);
  assert.equal(core.host.optimistic("toString", "{}", "[]"), undefined);
});

test("a part that fails is told of once, and fails each time", async (t) => {
  const told = t.mock.method(console, "error", () => {});
  const parts = {
    throws: () => assert.fail("by the application"),
    waits: async () => {},
    wrong: (tx) => tx.put("Note", { id: 5 }),
    unknown: (tx) => tx.get("Pakage", ["x"]),
  };
  const operations = Object.fromEntries(Object.entries(parts).map(([name, optimistic]) => [name, { optimistic }]));
  const { core } = await openFake(schema, { operations });
  for (const [name, code] of [["throws", "ERR_ASSERTION"], ["waits", "bad_option"], ["wrong", "bad_key"], ["unknown", "unknown_class"]]) {
    for (let i = 0; i < 2; i++) assert.throws(() => core.host.optimistic(name, "{}", "[]"), { code });
  }
  assert.equal(told.mock.callCount(), 4);
});

test("what cannot be operations or policies is refused by its name", async () => {
  const refused = (options, message) => assert.rejects(openFake(schema, options), { code: "bad_option", message });
  await refused({ operations: 5 }, /operations/);
  await refused({ operations: { "doc.put": {} } }, /doc\.put is built in/);
  await refused({ operations: { x: { optimistic: 5 } } }, /x: optimistic/);
  await refused({ operations: { x: () => {} } }, /x: must be an object/);
  await refused({ conflicts: { Note: "mine" } }, /conflicts: Note: must be overwrite, ask, server, client, merge or a function/);
  await refused({ conflicts: { Note: "custom" } }, /conflicts: Note/);
  await refused({ conflicts: [] }, /conflicts/);
  await assert.rejects(openFake(schema, { conflicts: { Pakage: "ask" } }), { code: "unknown_class" });
  assert.throws(() => defineOperations(schema, { batch: {} }), { code: "bad_option" });
});

test("policies cross by their names, functions as custom", async () => {
  const { core } = await openFake(schema, { conflicts: { Note: "merge", Counter: () => undefined } });
  assert.deepEqual(JSON.parse(core.options.policies), { Note: "merge", Counter: "custom" });
  for (const Note of ["overwrite", "ask", "server", "client"]) {
    const named = await openFake(schema, { conflicts: { Note, Counter: undefined } });
    assert.deepEqual(JSON.parse(named.core.options.policies), { Note });
  }
  const none = await openFake(schema);
  assert.equal(none.core.options.policies, "{}");
});

test("a conflict is settled from documents, for a document", async () => {
  const seen = [];
  const answers = [{ name: "a", count: 9 }, null, undefined];
  const { core } = await openFake(schema, {
    conflicts: {
      Counter: (...documents) => {
        seen.push(...documents);
        return answers.shift();
      },
      Note: "merge",
    },
  });
  const settle = () => core.host.settle("Counter", '{"name":"a","n":1}', "null", '{"name":"a","count":2,"release":2}');
  assert.deepEqual(JSON.parse(settle()), { name: "a", count: 9, release: 2 });
  assert.deepEqual(seen.map((doc) => doc && { ...doc }), [{ name: "a", count: 1 }, null, { name: "a", count: 2 }]);
  assert.ok(Object.isFrozen(seen[0]));
  assert.equal(settle(), "null");
  assert.equal(settle(), undefined);
  assert.equal(core.host.settle("Note", "null", "null", "null"), undefined);
});

test("a settling function that fails is told of, and fails", async (t) => {
  const told = t.mock.method(console, "error", () => {});
  const { core } = await openFake(schema, {
    conflicts: { Counter: () => assert.fail("by the application"), Note: async () => undefined },
  });
  assert.throws(() => core.host.settle("Counter", "null", "null", "null"), { code: "ERR_ASSERTION" });
  assert.throws(() => core.host.settle("Note", "null", "null", "null"), { code: "bad_option", message: /async/ });
  assert.equal(told.mock.callCount(), 2);
});

const conflict = fault("version_conflict");
/** A session with a refused put of a counter, and the entry about the conflict. */
async function refusedFor(theirs, known = schema) {
  const { session, core } = await openFake(known, { conflicts: { Counter: "ask" } });
  core.refuse(session.put("Counter", { name: "a", count: 3 }).id, conflict, theirs);
  const [entry] = session.refused.value;
  return { session, core, entry };
}

test("a write that waits for an answer has base, mine and theirs, as documents of the present release", async () => {
  const own = [{ name: "a", n: 1 }, { name: "a", count: 3, release: 2 }];
  const { entry } = await refusedFor({ class: "Counter", v: 9, data: { name: "a", n: 2 }, own });
  assert.deepEqual([entry.base, entry.mine, entry.theirs.doc].map((doc) => ({ ...doc })), [1, 3, 2].map((count) => ({ name: "a", count })));
  assert.deepEqual([entry.theirs.className, entry.theirs.v, entry.error.code], ["Counter", 9, "version_conflict"]);
  const none = await refusedFor({ class: "Counter", v: 9, data: null, own: [null, null] });
  assert.deepEqual([none.entry.base, none.entry.mine, none.entry.theirs.doc], [null, null, null], "no document, a deletion, and a deleted one");
});

test("if the application named the version, a refused write has theirs alone; if nobody may read it, nothing", async () => {
  const { entry } = await refusedFor({ class: "Counter", v: 9, data: { name: "a", n: 2 } });
  assert.deepEqual(["base", "mine", "theirs"].map((field) => field in entry), [false, false, true]);
  const unread = await refusedFor(undefined);
  assert.deepEqual(["base", "mine", "theirs"].map((field) => field in unread.entry), [false, false, false]);
});

test("a refused write is shown without documents that fail to migrate, and can be decided", async (t) => {
  const told = t.mock.method(console, "error", () => {});
  const migrate = { Counter: { 2: () => assert.fail("planted") } };
  const brittle = defineSchema({ Counter: { key: ["name"], release: 2 } }, { migrate });
  const { session, core, entry } = await refusedFor({ class: "Counter", v: 9, data: { name: "a" }, own: [null, null] }, brittle);
  assert.deepEqual(["base", "mine", "theirs"].map((field) => field in entry), [false, false, false]);
  assert.equal(told.mock.callCount(), 1);
  entry.retry();
  assert.deepEqual(core.calls.findLast(([name]) => name === "amend").slice(2), [undefined], "unchanged");
  assert.deepEqual(session.refused.value, []);
});
