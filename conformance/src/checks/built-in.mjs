// The built-in operations and their faults.
import { check } from "../check.mjs";
import { fresh, inBox, ofKind, shaS, tagged } from "../names.mjs";

const at = "built-in-operations";
const put = (id, more) => ["doc.put", { class: "Note", data: { id, ...more } }];
const patch = (id, set, more) => ["doc.patch", { class: "Note", key: [id], set, ...more }];
const remove = (id) => ["doc.delete", { class: "Note", key: [id] }];

export const builtIn = [
  check("built-in.put-replaces", {
    at,
    says: "creates or replaces; on a tombstone, creates again. `data` holds the key properties",
    hint: "A put replaces the whole document: a property that it does not name is gone.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a", n: 1, m: 1 });
    await session.put("Note", { id: "a", n: 2 });
    kit.equal((await session.pull("Note")).rows[0].data, { id: "a", n: 2, release: 3 }, "data");
    const gone = await session.delete("Note", ["a"]);
    const again = await session.put("Note", { id: "a", n: 3 });
    kit.expect(again.v > gone.v, "a version above that of the tombstone");
    kit.equal((await session.pull("Note", gone.v)).rows.map(({ v, deleted }) => [v, deleted ?? false]), [[again.v, false]], "the rows after a new creation");
  }),
  check("built-in.patch", {
    at,
    says: "Both concern whole properties of the document: `set` does not go into nested maps. A property in both is set.",
    hint: "First take away unset, then put set.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a", map: { x: 1, y: 2 }, gone: 1, both: 1 });
    await session.patch("Note", ["a"], { map: { x: 3 }, both: 2, none: null }, { unset: ["gone", "both", "nothing"] });
    kit.equal((await session.pull("Note")).rows[0].data, { id: "a", map: { x: 3 }, both: 2, none: null, release: 3 }, "data");
  }),
  check("built-in.patch-of-the-key", {
    at,
    says: "`set` may name a key property with the value that it has. Another value, or a key property in `unset`, is `key_mismatch`.",
    hint: "A patch never changes the key.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a" });
    await session.does(...patch("a", { id: "a", n: 1 }));
    await session.refused("key_mismatch", ...patch("a", { id: "b" }));
    await session.refused("key_mismatch", ...patch("a", { n: 2 }, { unset: ["id"] }));
    kit.equal((await session.pull("Note")).rows[0].data.n, 1, "n");
  }),
  check("built-in.not-found", {
    at,
    says: "no such class; no such document, or it is deleted",
    hint: "A patch or a delete never creates a document.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "gone" });
    await session.delete("Note", ["gone"]);
    for (const id of ["gone", "never"]) {
      await session.refused("not_found", ...patch(id, { n: 1 }));
      await session.refused("not_found", ...remove(id));
    }
    for (const name of ["doc.put", "doc.patch", "doc.delete"]) {
      await session.refused("unknown_class", name, { class: "Nope", key: ["a"], data: { id: "a" }, set: {} });
    }
    kit.equal((await session.pull("Note")).present, [], "present");
  }),
  check("built-in.unknown-operation", {
    at,
    says: "neither built in nor registered",
    hint: "It is a result: the number is used.",
  }, async (kit) => {
    const { exchange } = await kit.session().refused("unknown_operation", "kit.nothing", { x: 1 });
    kit.equal(exchange.reply.seq, 1, "seq");
  }),
  check("built-in.bad-arguments", {
    at,
    says: "arguments that cannot be used",
    hint: "Each is the fault of its operation, never a refused request or a 500.",
  }, async (kit) => {
    const session = kit.session();
    const notes = { class: "Note" };
    const bad = [
      ["doc.put", {}], ["doc.put", notes], ["doc.put", { ...notes, data: [] }], ["doc.put", { class: 5, data: {} }],
      ["doc.patch", { ...notes, key: ["a"] }], ["doc.patch", { ...notes, key: ["a"], set: 5 }], ["doc.patch", { ...notes, key: ["a"], set: {}, unset: "n" }],
      ["doc.patch", { ...notes, key: ["a"], set: {}, unset: [5] }], ["batch", { ops: 5 }], ["batch", { ops: [5] }], ["batch", { ops: [{ name: "doc.put" }] }],
    ];
    for (const [name, args] of bad) await session.refused("bad_value", name, args);
    const keys = [["doc.delete", { ...notes, key: [] }], ["doc.delete", { ...notes, key: ["a", "b"] }], ["doc.delete", { ...notes, key: [5] }], ["doc.put", { ...notes, data: {} }], ["doc.put", { ...notes, data: { id: 5 } }]];
    for (const [name, args] of keys) {
      const { result, exchange } = await session.run(name, args);
      kit.expect(["bad_key", "bad_value"].includes(result.fault?.code), "bad_key or bad_value", exchange);
    }
    await session.refused("bad_key", "doc.put", { class: "Page", data: { book: "a/b", number: "1" } });
    await session.put("Page", { book: "a", number: "b/1" });
  }),
  check("built-in.collection-values", {
    at,
    says: "`bad_value`, `bad_key`, `too_large`",
    hint: "The properties of a collection hold strings, those of a list strings in a list (docs/schema.md).",
  }, async (kit) => {
    const session = kit.session();
    for (const data of [{ box: 5 }, { tags: "red" }, { tags: [5] }, { country: "a/b", city: "c" }, { country: 5, city: "c" }]) {
      await session.refused("bad_key", ...put("a", data));
    }
    await session.put("Note", { id: "a", box: null, country: null, city: 5 });
    kit.equal((await session.pull("Note")).present, [shaS("a")], "present");
  }),
  check("built-in.indexes", {
    at,
    says: "Then it checks the document that the write would leave: its size, its properties (`bad_value`, `bad_key`), `immutable_key`, `not_unique`.",
    hint: "A property of an index is of its type, absent or null (docs/schema.md).",
  }, async (kit) => {
    const session = kit.session();
    for (const data of [{ n: 1.5 }, { n: "1" }, { rate: "1" }, { title: 5 }, { words: "a" }, { words: [1] }, { email: 5 }]) {
      await session.refused("bad_value", ...put("a", data));
    }
    await session.put("Note", { id: "a", n: null, rate: 1, title: "t", words: [] });
  }),
  check("built-in.release", {
    at,
    says: "`data` may hold `release`, from 1 to the class's own; any other value is `bad_value`. A document without a `release` gets the class's.",
    hint: "The kit's class Note has release 3.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a", release: 1 });
    await session.put("Note", { id: "b" });
    const { rows } = await session.pull("Note");
    kit.equal(rows.map(({ data }) => data.release), [1, 3], "release");
    for (const release of [0, 4, -1, 1.5, "1"]) await session.refused("bad_value", ...put("c", { release }));
  }),
  check("built-in.underscore", {
    at,
    says: "A property of the document whose name begins with `_` is `bad_value`. A name inside of a nested map may begin so.",
    hint: "A server takes every other name.",
  }, async (kit) => {
    const session = kit.session();
    await session.refused("bad_value", ...put("a", { _x: 1 }));
    const odd = { id: "a", nested: { _x: 1 }, "a b": 1, "": 2, "\u00fc": 3, [`x${"y".repeat(100)}`]: 4 };
    await session.put("Note", odd);
    await session.refused("bad_value", ...patch("a", { _y: 1 }));
    kit.equal((await session.pull("Note")).rows[0].data, { ...odd, release: 3 }, "data");
  }),
  check("built-in.size", {
    at,
    says: "The 1 MiB of `data` counts its shortest msgpack, `release` included. A number that is no integer counts as a double, 9 bytes.",
    hint: "Count the bytes that you send in a row, in their shortest form. A list may have a hundred thousand elements.",
  }, async (kit) => {
    const session = kit.session();
    // {id: "big", data: bin32, release: 3} has 27 bytes without the content of data.
    const room = (1 << 20) - 27;
    await session.put("Note", { id: "big", data: new Uint8Array(room) });
    kit.equal((await session.pull("Note")).rows[0].data.data.length, room, "the length of data");
    await session.refused("too_large", ...put("big", { data: new Uint8Array(room + 1) }));
    await session.refused("too_large", ...patch("big", { n: 1 }));
    await session.refused("too_large", ...put("list", { list: Array(117_000).fill(0.5) }));
    await session.put("Note", { id: "list", list: Array(116_000).fill(0.5) });
  }),
  check("built-in.class-without-sync", {
    at,
    says: "Operations can write a class without `sync` like any other. Only a subscription to it is `unknown_def`. A deletion in it leaves nothing.",
    hint: "Without a tombstone the document never was: a later conflict has v 0.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Log", { id: "a" }, { ifVersion: 0 });
    await session.patch("Log", ["a"], { n: 1 });
    await session.refused("version_conflict", "doc.put", { class: "Log", data: { id: "a" }, ifVersion: 0 });
    await session.delete("Log", ["a"]);
    const { fault } = await session.refused("version_conflict", "doc.delete", { class: "Log", key: ["a"], ifVersion: 5 });
    kit.equal([fault.doc.v, fault.doc.deleted], [0, true], "v and deleted of the doc of the conflict");
  }),
  check("built-in.batch-is-whole", {
    at,
    says: "all or none, at most 500",
    hint: "One transaction; a refused operation undoes all of the batch.",
  }, async (kit) => {
    const session = kit.session();
    const ops = [...Array.from({ length: 5 }, (_, i) => put(`${i}`, { box: "in" })), remove("none")].map(([name, args]) => ({ name, args }));
    const { fault } = await session.refused("not_found", "batch", { ops });
    kit.expect(/^operation 5 of the batch/.test(fault.message ?? ""), "a message that begins with the index: operation 5 of the batch");
    await session.refused("unknown_operation", "batch", { ops: [...ops.slice(0, 5), { name: "kit.nothing", args: null }] });
    await session.refused("bad_value", "batch", { ops: [...ops.slice(0, 5), { name: "batch", args: { ops: [] } }] });
    for (const def of ["Note", inBox("in")]) kit.equal((await session.pull(def)).present, [], `present of ${def}`);
  }),
  check("built-in.batch-size", {
    at,
    says: "A `batch` of more than 500 operations is `too_large`.",
    hint: "It is a result; 500 are accepted.",
  }, async (kit) => {
    const session = kit.session();
    const ops = (count) => Array.from({ length: count }, (_, i) => ({ name: "doc.put", args: { class: "Page", data: { book: "b", number: `${i}` } } }));
    await session.refused("too_large", "batch", { ops: ops(501) });
    await session.does("batch", { ops: ops(500) });
    kit.equal((await session.pull("Page")).present.length, 500, "the number of documents");
  }),
  check("built-in.order-of-faults", {
    at,
    says: "So a patch of a deleted document with a wrong `ifVersion` is `version_conflict`. With the right `ifVersion`, or without one, it is `not_found`.",
    hint: "Look at ifVersion before you look for the document: sessions depend on this order.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a", email: fresh() });
    const { v } = await session.delete("Note", ["a"]);
    for (const name of ["doc.patch", "doc.delete"]) {
      const args = { class: "Note", key: ["a"], ...(name === "doc.patch" && { set: { n: 1 } }) };
      await session.refused("version_conflict", name, { ...args, ifVersion: v + 1 });
      await session.refused("not_found", name, { ...args, ifVersion: v });
      await session.refused("not_found", name, args);
    }
    const taken = fresh();
    await session.put("Note", { id: "b", email: taken });
    await session.refused("version_conflict", "doc.put", { class: "Note", data: { id: "c", email: taken, _x: 1 }, ifVersion: 5 });
  }),
  check("built-in.immutable-key", {
    at,
    says: "For `immutable_key`, the memberships before and after are compared. To enter or leave a collection counts; another order of a list does not.",
    hint: "`kind` of the kit's class Note is not mutable.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a", kind: "x" });
    await session.put("Note", { id: "b" });
    await session.refused("immutable_key", ...patch("a", { kind: "y" }));
    await session.refused("immutable_key", ...patch("a", {}, { unset: ["kind"] }));
    await session.refused("immutable_key", ...patch("b", { kind: "x" }));
    await session.does(...patch("a", { kind: "x", n: 1 }));
    await session.does(...put("c", { tags: ["r", "s"] }));
    await session.does(...patch("c", { tags: ["s", "r"] }));
    kit.equal([(await session.pull(ofKind("x"))).present, (await session.pull(tagged("r"))).present], [[shaS("a")], [shaS("c")]], "the members");
  }),
  check("built-in.not-unique", {
    at,
    says: "another document holds the value of a unique index",
    hint: "A deleted document holds no value; a put of the document itself is no conflict.",
  }, async (kit) => {
    const session = kit.session();
    const email = fresh();
    await session.put("Note", { id: "a", email });
    await session.put("Note", { id: "a", email, n: 2 });
    await session.refused("not_unique", ...put("b", { email }));
    await session.put("Note", { id: "b", email: null });
    await session.refused("not_unique", ...patch("b", { email }));
    await kit.session({ org: kit.otherOrg }).put("Note", { id: "b", email });
    await session.delete("Note", ["a"]);
    await session.does(...patch("b", { email }));
    await session.refused("not_unique", "batch", { ops: [{ name: "doc.put", args: { class: "Note", data: { id: "c", email: "same" } } }, { name: "doc.put", args: { class: "Note", data: { id: "d", email: "same" } } }] });
    const number = fresh();
    await session.put("Serial", { id: "a", number });
    const { exchange, result } = await kit.session({ org: kit.otherOrg }).run("doc.put", { class: "Serial", data: { id: "b", number } });
    kit.isFault(result.fault, "not_unique", exchange);
  }),
];
