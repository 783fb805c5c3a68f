// Pull: parts, rows, departures.
import { check } from "../check.mjs";
import { inBox, note, ofKind, shaS, tagged } from "../names.mjs";

const at = "pull";
const departures = "rows-and-departures";

export const pull = [
  check("pull.asked-version-included", {
    at: departures,
    says: "The server sends every change at or after the asked `v`.",
    hint: "At or after, not after: `v >= asked`.",
    rule: "R4",
  }, async (kit) => {
    const session = kit.session();
    const first = await session.put("Note", { id: "a", box: "in" });
    const second = await session.put("Note", { id: "b", box: "in" });
    for (const def of ["Note", inBox("in")]) {
      kit.equal((await session.pull(def, first.v)).rows.map(({ v }) => v), [first.v, second.v], `versions of ${def} from ${first.v}`);
      kit.equal((await session.pull(def, first.v + 1)).rows.map(({ v }) => v), [second.v], `versions of ${def} from ${first.v + 1}`);
      kit.equal((await session.pull(def, second.v + 1)).rows, [], `rows of ${def} from above its highest version`);
    }
    kit.equal((await session.pull(note("a"), first.v)).rows.length, 1, "the number of rows of one document");
  }),
  check("pull.same-def-twice", {
    at,
    says: "If a request names a def several times, the first one counts, and the reply has one part for it.",
    hint: "Leave out a def that is named again: a thousand times one def would cost as much as a thousand defs.",
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.put("Note", { id: "a", box: "in" });
    const subs = [["Note", 0], ["Note", v + 1], [inBox("in"), v + 1], ["Note", 0], [inBox("in"), 0]];
    const { reply } = await session.sync({ subs });
    const answered = reply.parts.map((part) => [part.def, part.rows?.length ?? 0]);
    kit.equal(answered, [["Note", 1], [inBox("in"), 0]], "the defs of the parts, with their numbers of rows");
  }),
  check("pull.unknown-def", {
    at: "faults",
    says: "no such class or collection, or a class without `sync`",
    hint: "The fault stands in the part; the other parts are answered.",
  }, async (kit) => {
    const session = kit.session();
    const subs = ["Nope", "Nope@x", `Note/nope@${shaS("x")}`, "Log", "Log@x"].map((def) => [def, 0]);
    const { reply } = await session.sync({ subs: [...subs, ["Note", 0]] });
    for (const part of reply.parts.slice(0, -1)) {
      kit.isFault(part.fault, "unknown_def");
      kit.equal(Object.keys(part).sort(), ["def", "fault"], `the fields of the part of ${part.def}`);
    }
    kit.equal(reply.parts.at(-1).present, [], "present of the def that exists");
  }),
  check("pull.total", {
    at,
    says: "`total` counts documents and deletions that the answer will list. It does not count departures.",
    hint: "It may be left out of a part.",
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.put("Note", { id: "a", box: "in" });
    await session.put("Note", { id: "b", box: "in" });
    await session.put("Note", { id: "c", box: "in" });
    await session.patch("Note", ["a"], { box: "out" });
    await session.delete("Note", ["b"]);
    const part = await session.pull(inBox("in"), v);
    if (part.total !== undefined) kit.equal(part.total, 2, "total");
  }),
  check("pull.departure", {
    at,
    says: "documents that left the collection at `v` and live on elsewhere.",
    hint: "Keep a membership after the document left, with the version at which it did.",
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.put("Note", { id: "a", box: "in", tags: ["red", "blue"] });
    const moved = await session.patch("Note", ["a"], { box: "out", tags: ["blue", "green"] });
    for (const def of [inBox("in"), tagged("red")]) {
      const part = await session.pull(def, v);
      kit.equal([part.left, part.rows], [[[shaS("a"), moved.v]], []], `left and rows of ${def}`);
    }
    for (const def of [inBox("out"), tagged("green"), tagged("blue")]) {
      const part = await session.pull(def, v);
      kit.equal([part.left, part.rows.map((row) => row.v)], [[], [moved.v]], `left and versions of ${def}`);
    }
    kit.equal((await session.pull(inBox("in"))).present, [], "present of the collection that it left");
  }),
  check("pull.departure-in-a-load", {
    at: "the-horizon",
    says: "In a pull from 0, the server may leave out tombstones and departures below the first page's `now - delta`.",
    hint: "Only those: a session spares its younger links from present, so it would keep the document for ever.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a", box: "in" });
    await session.put("Note", { id: "b", box: "in" });
    const ops = [session.make("doc.patch", { class: "Note", key: ["a"], set: { box: "out" } }), session.make("doc.delete", { class: "Note", key: ["b"] })];
    const exchange = await session.sync({ ops, subs: [[inBox("in"), 0]] });
    const { now, delta, results, parts: [{ left, rows }] } = exchange.reply;
    const [moved, gone] = results.map(({ ok }) => ok.v);
    const told = [...left.map(([pk, v]) => [pk, v, "left"]), ...rows.map(({ pk, v, deleted }) => [pk, v, deleted ? "deleted" : "alive"])];
    for (const one of [[shaS("a"), moved, "left"], [shaS("b"), gone, "deleted"]]) {
      kit.expect(one[1] < now - delta || told.some((other) => `${other}` === `${one}`), `${one.join(" ")}, at or above now - delta`, exchange);
    }
    kit.equal(told.length, told.filter(([, , state]) => state !== "alive").length, "documents that are still there");
  }),
  check("pull.departure-by-unset", {
    at,
    says: "documents that left the collection at `v` and live on elsewhere.",
    hint: "A document whose property is gone, or null, is no member.",
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.put("Note", { id: "a", box: "in", tags: ["red"] });
    const gone = await session.patch("Note", ["a"], { tags: null }, { unset: ["box"] });
    for (const def of [inBox("in"), tagged("red")]) kit.equal((await session.pull(def, v)).left, [[shaS("a"), gone.v]], `left of ${def}`);
  }),
  check("pull.return", {
    at: departures,
    says: "A document that leaves a collection and comes back is a row, and no longer a departure.",
    hint: "One membership for each document and collection: its newest state counts.",
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.put("Note", { id: "a", box: "in" });
    await session.patch("Note", ["a"], { box: "out" });
    const back = await session.patch("Note", ["a"], { box: "in" });
    const part = await session.pull(inBox("in"), v);
    kit.equal([part.left, part.rows.map((row) => row.v)], [[], [back.v]], "left and versions");
  }),
  check("pull.deletion-everywhere", {
    at: departures,
    says: "A deletion is a row in every def that held the document.",
    hint: "A tombstone keeps the memberships of the document.",
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.put("Note", { id: "a", box: "in", tags: ["red"], kind: "x" });
    const gone = await session.delete("Note", ["a"]);
    for (const def of ["Note", note("a"), inBox("in"), tagged("red"), ofKind("x")]) {
      const { rows, left } = await session.pull(def, v);
      kit.equal(rows.map(({ pk, v: at, deleted }) => ({ pk, v: at, deleted })), [{ pk: shaS("a"), v: gone.v, deleted: true }], `rows of ${def}`);
      kit.equal(left, [], `left of ${def}`);
      kit.equal((await session.pull(def)).present, [], `present of ${def}`);
    }
  }),
  check("pull.created-again-elsewhere", {
    at: departures,
    says: "If a deleted document is created again with another value of a collection's key, it is a departure from its old collection. That is so even if the collection is not mutable.",
    hint: "Compare with the memberships of the tombstone, too.",
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.put("Note", { id: "a", box: "in", kind: "x" });
    await session.delete("Note", ["a"]);
    const again = await session.put("Note", { id: "a", box: "out", kind: "y" });
    for (const [before, after] of [[inBox("in"), inBox("out")], [ofKind("x"), ofKind("y")]]) {
      const old = await session.pull(before, v);
      kit.equal([old.left, old.rows], [[[shaS("a"), again.v]], []], `left and rows of ${before}`);
      kit.equal((await session.pull(after, v)).rows.map((row) => row.v), [again.v], `versions of ${after}`);
    }
  }),
  check("pull.row-in-all-defs", {
    at: "names",
    says: "the name of something that a session can subscribe to.",
    hint: "A change of a property that no collection holds is a row in every collection, too.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a", box: "in", tags: ["red"], kind: "x", n: 1 });
    const { v } = await session.patch("Note", ["a"], { n: 2 });
    for (const def of ["Note", note("a"), inBox("in"), tagged("red"), ofKind("x")]) {
      const { rows } = await session.pull(def, v);
      kit.equal(rows.map((row) => [row.v, row.data?.n]), [[v, 2]], `rows of ${def}`);
    }
  }),
  check("pull.one-snapshot", {
    at: "versions-and-time",
    says: "For a reply, the server executes the operations, reads `now`, opens **one** snapshot, and answers all parts from it.",
    hint: "One transaction for all parts of a reply; a write between two parts shows half of itself.",
    rule: "R4",
  }, async (kit) => {
    const writer = kit.session();
    await writer.batch(["doc.put", { class: "Note", data: { id: "a", n: 0 } }], ["doc.put", { class: "Page", data: { book: "b", number: "1", n: 0 } }]);
    let isOver = false;
    const writes = async () => {
      for (let n = 1; n <= 25; n++) {
        await writer.batch(["doc.patch", { class: "Note", key: ["a"], set: { n } }], ["doc.patch", { class: "Page", key: ["b", "1"], set: { n } }]);
      }
      isOver = true;
    };
    const reads = async () => {
      const reader = kit.session();
      while (!isOver) {
        const exchange = await reader.sync({ subs: [["Note", 0], ["Page", 0], [note("a"), 0]] });
        const [a, b, c] = exchange.reply.parts.map((part) => part.rows[0].data.n);
        kit.expect(a === b && b === c, `one state of the batch in all parts, not ${a}, ${b} and ${c}`, exchange);
      }
    };
    await Promise.all([writes(), reads(), reads()]);
  }),
];
