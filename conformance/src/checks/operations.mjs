// Operations: the envelope, their order, and the versions that they give.
import { check } from "../check.mjs";
import { shaS, uuid } from "../names.mjs";

const at = "operations";
const put = (id, more) => ["doc.put", { class: "Note", data: { id, ...more } }];

export const operations = [
  check("operations.in-order", {
    at,
    says: "The server executes them in order, before the reply's snapshot, each as one transaction.",
    hint: "The parts of a reply show the effects of the operations of its request.",
    rule: "R12",
  }, async (kit) => {
    const session = kit.session();
    const ops = [session.make(...put("a", { n: 1 })), session.make("doc.patch", { class: "Note", key: ["a"], set: { n: 2 } }), session.make(...put("b")), session.make("doc.delete", { class: "Note", key: ["b"] })];
    const { reply } = await session.sync({ ops, subs: [["Note", 0]] });
    kit.equal(reply.results.map(({ id }) => id), ops.map(({ id }) => id), "the ids of the results");
    const versions = reply.results.map(({ ok }) => ok?.v);
    kit.expect(versions.every((v, i) => i === 0 || v > versions[i - 1]), `rising versions, not ${versions}`);
    kit.equal(reply.seq, 4, "seq");
    const living = reply.parts[0].rows.filter(({ deleted }) => !deleted);
    kit.equal(living.map(({ v, data }) => [v, data.n]), [[versions[1], 2]], "the living rows of the reply");
  }),
  check("operations.refused-goes-on", {
    at,
    says: "This fault is the operation's result, and the server goes on with the next operation.",
    hint: "A refusal undoes its own operation only.",
    rule: "R12",
  }, async (kit) => {
    const session = kit.session();
    const ops = [session.make(...put("a")), session.make("doc.delete", { class: "Note", key: ["no"] }), session.make("nope", null), session.make("doc.put", 5), session.make(...put("b"))];
    const { reply } = await session.sync({ ops, subs: [["Note", 0]] });
    kit.equal(reply.results.map(({ fault }) => fault?.code ?? "ok"), ["ok", "not_found", "unknown_operation", "bad_value", "ok"], "the results");
    kit.equal([reply.seq, reply.parts[0].present.length], [5, 2], "seq and the number of documents");
  }),
  check("operations.malformed", {
    at,
    says: "The server refuses the whole request as 400 `malformed`, its other operations included.",
    hint: "Check the envelope of all operations before the first one is executed.",
  }, async (kit) => {
    const session = kit.session();
    const good = { id: uuid(), seq: 1, name: "doc.put", args: { class: "Note", data: { id: "a" } }, at: 1 };
    const bad = (more) => ({ ...good, id: uuid(), seq: 2, ...more });
    const without = (name) => {
      const op = bad({});
      delete op[name];
      return op;
    };
    const wrong = [
      ...["id", "seq", "name", "args", "at"].map(without),
      bad({ seq: 0 }), bad({ seq: -1 }), bad({ seq: "2" }), bad({ id: "" }), bad({ id: 5 }), bad({ id: "x".repeat(1025) }),
      bad({ name: "" }), bad({ name: "x".repeat(1025) }), bad({ at: -1 }), bad({ at: "now" }), bad({ after: "" }), bad({ after: 5 }), 5, null,
    ];
    for (const op of wrong) kit.isRefused(await session.ask({ ops: [good, op] }), 400, "malformed");
    const { reply } = await session.sync({ subs: [["Note", 0]] });
    kit.equal([reply.seq ?? 0, reply.parts[0].present], [0, []], "seq and present, after refused requests only");
  }),
  check("operations.null-arguments", {
    at,
    says: "one value; `null` if there are none",
    hint: "`args: null` is there; a missing `args` is malformed.",
  }, async (kit) => {
    const session = kit.session();
    await session.refused("unknown_operation", "kit.none", null);
    await session.refused("bad_value", "doc.put", null);
    await session.refused("bad_value", "batch", null);
    await session.refused("bad_value", "batch", {});
  }),
  check("operations.any-id", {
    at,
    says: "a UUID v7 as text; an operation keeps it for ever. A server takes any text of 1 to 1,024 bytes",
    hint: "Do not parse the id.",
  }, async (kit) => {
    const session = kit.session();
    for (const id of ["x", "\u00e9 \u0000 '\"", "y".repeat(1024), uuid()]) {
      const { v } = await session.does(...put(shaS(id)), { id });
      const op = { id, seq: 99, name: "doc.put", args: null, at: 0 };
      const { reply } = await session.sync({ ops: [op] });
      kit.equal(reply.results[0].ok?.v, v, "the version that the known operation gave");
    }
  }),
  check("operations.seq-in-snapshot", {
    at,
    says: "The parts contain the effects of all operations up to it.",
    hint: "Read the number in the same snapshot as the rows: a session hides its own effect once seq counts it.",
    rule: "R12",
  }, async (kit) => {
    const session = kit.session();
    let isOver = false;
    const writes = async () => {
      for (let n = 1; n <= 25; n++) await session.put("Note", { id: "a", n });
      isOver = true;
    };
    const reads = async () => {
      while (!isOver) {
        const { reply } = await session.sync({ subs: [["Note", 0]] });
        const n = reply.parts[0].rows[0]?.data.n ?? 0;
        kit.expect(n === (reply.seq ?? 0), `the effect of operation ${reply.seq} and no later one, not of ${n}`);
      }
    };
    await Promise.all([writes(), reads(), reads()]);
  }),
  check("operations.parallel-requests", {
    at: "order",
    says: "The server executes the operations of one session in the order of their `seq`, also over parallel requests.",
    hint: "Only last + 1 is executed: a higher number is order_gap.",
    rule: "R12",
  }, async (kit) => {
    const session = kit.session();
    let open = Array.from({ length: 8 }, (_, n) => session.make(...put("a", { n })));
    const versions = new Map();
    for (let round = 0; round < 60 && open.length; round++) {
      const answers = await Promise.all([...open].reverse().map((op) => session.sync({ ops: [op] })));
      for (const { reply } of answers) {
        const [{ id, ok, fault }] = reply.results;
        if (ok) versions.set(id, ok.v);
        else kit.expect(["order_gap", "contention"].includes(fault.code), `order_gap or contention, not ${fault.code}`);
      }
      open = open.filter(({ id }) => !versions.has(id));
    }
    const all = [...versions].sort(([, a], [, b]) => a - b);
    kit.equal(all.length, 8, "the number of accepted operations");
    const { rows } = await session.pull("Note");
    kit.equal([rows[0].data.n, rows[0].v], [7, all.at(-1)[1]], "n and v: the last operation came last");
  }),
  check("operations.after", {
    at: "order",
    says: "If `after` names an operation that was refused, or is not known, this operation is `order_held` (C).",
    hint: "It is not executed, and its number stays free.",
    rule: "R12",
  }, async (kit) => {
    const session = kit.session();
    const refused = await session.refused("not_found", "doc.delete", { class: "Note", key: ["no"] });
    const first = await session.put("Note", { id: "a" });
    for (const after of [refused.op.id, uuid()]) {
      const { exchange } = await session.refused("order_held", ...put("b"), { after });
      kit.equal(exchange.reply.seq, 2, "seq");
    }
    await session.does(...put("b"), { after: first.id });
    kit.equal((await session.pull("Note")).present.length, 2, "the number of documents");
  }),
];

export const versions = [
  check("versions.unchanged", {
    at: "the-version-that-an-operation-gives",
    says: "A put or patch that changes nothing leaves the document at its version, and that version counts.",
    hint: "Answer with the document's version, not with 0: the next write may expect the version of this one.",
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.put("Note", { id: "a", n: 1, box: "in", tags: ["x"] });
    kit.equal((await session.put("Note", { tags: ["x"], box: "in", n: 1, id: "a" })).v, v, "v of a put of the same values in another order");
    kit.equal((await session.put("Note", { id: "a", n: 1, box: "in", tags: ["x"], release: 3 })).v, v, "v of a put of the same values and release");
    kit.equal((await session.patch("Note", ["a"], { n: 1, id: "a" })).v, v, "v of a patch that changes nothing");
    kit.equal((await session.patch("Note", ["a"], {}, { unset: ["nothing"] })).v, v, "v of a patch that takes nothing away");
    kit.equal((await session.pull("Note")).rows[0].v, v, "v of the row");
  }),
  check("versions.highest-of-a-batch", {
    at: "the-version-that-an-operation-gives",
    says: "The `v` of an accepted operation is the highest version, after the operation, of the documents that it wrote or asked to write.",
    hint: "Unchanged documents count, too.",
  }, async (kit) => {
    const session = kit.session();
    const low = await session.put("Note", { id: "low" });
    const high = await session.put("Note", { id: "high" });
    const kept = await session.batch(put("high"), put("low"));
    kit.equal(kept.v, high.v, "v of a batch that changes nothing");
    const mixed = await session.batch(put("low"), put("new"));
    kit.expect(mixed.v > high.v, "a new version, because one document changed");
    const { rows } = await session.pull("Note");
    kit.equal(rows.map((row) => row.v), [low.v, high.v, mixed.v], "the versions of the rows");
  }),
  check("versions.no-document", {
    at: "the-version-that-an-operation-gives",
    says: "`v` is 0 only if the operation changed nothing, and named no document of the clock `time`.",
    hint: "An empty batch is accepted.",
  }, async (kit) => {
    const session = kit.session();
    const empty = await session.batch();
    kit.equal(empty.v, 0, "v of an empty batch");
    const ifVersion = { op: empty.id };
    await session.put("Note", { id: "a" }, { ifVersion });
    await session.refused("version_conflict", "doc.put", { class: "Note", data: { id: "a", n: 1 }, ifVersion });
  }),
  check("versions.if-version", {
    at: "the-version-that-an-operation-gives",
    says: "the document, or its tombstone, is of exactly this version",
    hint: "The version of a tombstone may be expected like any other.",
  }, async (kit) => {
    const session = kit.session();
    const first = await session.put("Note", { id: "a", n: 1 });
    const second = await session.put("Note", { id: "a", n: 2 }, { ifVersion: first.v });
    for (const ifVersion of [first.v, second.v + 1, second.v - 1]) {
      const { fault, exchange } = await session.refused("version_conflict", "doc.put", { class: "Note", data: { id: "a", n: 3 }, ifVersion });
      kit.equal([fault.doc.pk, fault.doc.v, fault.doc.data?.n], [shaS("a"), second.v, 2], "the doc of the conflict", exchange);
    }
    const gone = await session.delete("Note", ["a"], second.v);
    const { fault } = await session.refused("version_conflict", "doc.put", { class: "Note", data: { id: "a" }, ifVersion: second.v });
    kit.equal([fault.doc.v, fault.doc.deleted], [gone.v, true], "v and deleted of the doc of the conflict");
    await session.put("Note", { id: "a", n: 4 }, { ifVersion: gone.v });
    await session.put("Note", { id: "a", n: 5 }, { ifVersion: null });
  }),
  check("versions.if-none", {
    at: "the-version-that-an-operation-gives",
    says: "there is no living document",
    hint: "ifVersion 0 holds over nothing and over a tombstone.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a" }, { ifVersion: 0 });
    await session.refused("version_conflict", "doc.put", { class: "Note", data: { id: "a", n: 1 }, ifVersion: 0 });
    await session.delete("Note", ["a"]);
    await session.put("Note", { id: "a" }, { ifVersion: 0 });
    const { fault } = await session.refused("version_conflict", "doc.patch", { class: "Note", key: ["none"], set: {}, ifVersion: 5 });
    kit.equal([fault.doc.pk, fault.doc.v, fault.doc.deleted], [shaS("none"), 0, true], "the doc of a conflict where there never was a document");
  }),
  check("versions.if-operation", {
    at: "the-version-that-an-operation-gives",
    says: "nobody has written since that earlier operation: the version of the document, or of its tombstone, is at most that operation's `v`.",
    hint: "At most, not equal: the operation may have left this document unchanged.",
  }, async (kit) => {
    const [mine, theirs] = [kit.session(), kit.session()];
    const first = await mine.put("Note", { id: "a", n: 1 });
    const same = await mine.patch("Note", ["a"], { n: 1 });
    await mine.put("Note", { id: "a", n: 2 }, { ifVersion: { op: same.id } });
    await mine.refused("version_conflict", "doc.put", { class: "Note", data: { id: "a", n: 3 }, ifVersion: { op: first.id } });
    const both = await mine.batch(put("b"), put("a", { n: 2 }));
    await mine.patch("Note", ["a"], { n: 4 }, { ifVersion: { op: both.id } });
    await mine.patch("Note", ["b"], { n: 4 }, { ifVersion: { op: both.id } });
    const last = await mine.put("Note", { id: "c" });
    await theirs.patch("Note", ["c"], { n: 9 });
    await mine.refused("version_conflict", "doc.patch", { class: "Note", key: ["c"], set: { n: 1 }, ifVersion: { op: last.id } });
    const gone = await mine.delete("Note", ["c"]);
    await mine.put("Note", { id: "c" }, { ifVersion: { op: gone.id } });
    await mine.refused("version_conflict", "doc.put", { class: "Note", data: { id: "never" }, ifVersion: { op: gone.id } });
  }),
  check("versions.if-operation-held", {
    at: "the-version-that-an-operation-gives",
    says: "If `op` names an operation that was refused, or is not known, the write is `order_held`. An `op` that is no text is `bad_value`, and so is any other value of `ifVersion`.",
    hint: "order_held is not executed; bad_value is a result.",
  }, async (kit) => {
    const session = kit.session();
    const refused = await session.refused("not_found", "doc.delete", { class: "Note", key: ["no"] });
    for (const op of [refused.op.id, uuid()]) await session.refused("order_held", "doc.put", { class: "Note", data: { id: "a" }, ifVersion: { op } });
    for (const ifVersion of [{ op: 5 }, {}, "5", -1, 1.5, [1], true]) {
      await session.refused("bad_value", "doc.put", { class: "Note", data: { id: "a" }, ifVersion });
    }
  }),
  check("versions.twice-in-a-batch", {
    at: "the-version-that-an-operation-gives",
    says: "A batch may write one document twice. The second write finds the document as the first one left it, at the version of the batch.",
    hint: "A write that starts again because of a version of its own never ends.",
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.batch(put("a", { n: 1 }), ["doc.patch", { class: "Note", key: ["a"], set: { m: 2 } }], ["doc.delete", { class: "Note", key: ["a"] }], put("a", { n: 3 }));
    const { rows } = await session.pull("Note");
    kit.equal([rows[0].v, rows[0].data.n, rows[0].data.m ?? null], [v, 3, null], "v, n and m");
    await session.batch(["doc.patch", { class: "Note", key: ["a"], set: { n: 4 }, ifVersion: v }], ["doc.patch", { class: "Note", key: ["a"], set: { m: 5 } }]);
    const late = await session.run("batch", { ops: [{ name: "doc.patch", args: { class: "Note", key: ["a"], set: { n: 6 } } }, { name: "doc.patch", args: { class: "Note", key: ["a"], set: { n: 7 }, ifVersion: v } }] });
    kit.isFault(late.result.fault, "version_conflict");
    kit.equal((await session.pull("Note")).rows[0].data.n, 4, "n, after a batch that was refused");
  }),
];
