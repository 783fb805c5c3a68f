// The clock `sequence`: each tree counts its own versions. `Account` of the kit has it, with `Entry` and `Owner` in it, and
// `Meter`, in which no class is.
import { check } from "../../check.mjs";
import { fresh, shaS } from "../../names.mjs";

const at = "numbers";
const parts = ["items", "numbers"];
const counts = "R20";
const exact = "R21";

const account = (id) => `Account@${shaS(id)}`;
const entries = (id) => `Entry/in@${shaS(id)}`;
const owner = (id) => `Owner/in@${shaS(id)}`;
const putAccount = (id, more) => ["doc.put", { class: "Account", data: { id, ...more } }];
const putEntry = (of, number, more) => ["doc.put", { class: "Entry", data: { account: of, number, ...more } }];
const putNote = (id, more) => ["doc.put", { class: "Note", data: { id, ...more } }];
const removeAccount = (id) => ["doc.delete", { class: "Account", key: [id] }];
const removeEntry = (of, number) => ["doc.delete", { class: "Entry", key: [of, number] }];
const putMeter = (id, more) => ["doc.put", { class: "Meter", data: { id, ...more } }];

/** Runs operations as one write, and returns the number that it took in the tree of an account. */
async function takes(kit, session, id, ...ops) {
  const { exchange } = await (ops.length > 1 ? session.batch(...ops) : session.does(...ops[0]));
  const { trees } = exchange.reply.results[0].ok;
  kit.equal(trees?.map(([name, pk]) => [name, pk]), [["Account", shaS(id)]], "the trees of the result", exchange);
  return trees[0][2];
}

const versionsOf = ({ rows }) => rows.map(({ v }) => v);
const bulk = (kit, size) => Uint8Array.from({ length: size }, () => kit.below(256));

export const numbers = [
  check("numbers.defs", {
    at,
    says: "`Acc@<pk>`, `Entry/in@<pk of the parent>` | as for other classes |",
    hint: "`Class` and a single item are `unknown_def`: a session subscribes to such a class by document.",
    rule: counts,
    parts,
  }, async (kit) => {
    const session = kit.session();
    await session.batch(putAccount("a"), putEntry("a", "1"), putMeter("m"));
    const defs = [account("a"), entries("a"), `Meter@${shaS("m")}`];
    const refused = ["Account", "Entry", `Entry@${shaS("a/1")}`, "Meter"];
    const { reply } = await session.sync({ subs: [...defs, ...refused].map((def) => [def, 0]) });
    for (const part of reply.parts.slice(0, 3)) kit.equal(part.rows.length, 1, `the number of rows of ${part.def}`);
    for (const part of reply.parts.slice(3)) kit.isFault(part.fault, "unknown_def");
    if (kit.options.noSocket) return;
    const socket = kit.socket();
    const answer = await socket.subscribe([...defs, ...refused]);
    kit.equal([[...answer.reply.live].sort(), answer.reply.refused?.map(([def]) => def).sort()], [[...defs].sort(), [...refused].sort()], "live, and the refused defs", socket);
  }),
  check("numbers.contiguous", {
    at,
    says: "A write that changes anything in the tree raises it by 1, once. The new number is the `v` of everything that this write puts or deletes there, and of the tree's floor.",
    hint: "1, 2, 3 and so on: count the writes of the tree, not its documents.",
    rule: counts,
    parts,
  }, async (kit) => {
    const session = kit.session();
    const taken = [
      await takes(kit, session, "a", putAccount("a")),
      await takes(kit, session, "a", putEntry("a", "1"), putEntry("a", "2"), ["doc.put", { class: "Owner", data: { account: "a" } }]),
      await takes(kit, session, "a", removeEntry("a", "1")),
      await takes(kit, session, "a", putAccount("a", { n: 1 }), putAccount("a", { n: 2 }), putEntry("a", "3")),
    ];
    kit.equal(taken, [1, 2, 3, 4], "the numbers of four writes");
    kit.equal(versionsOf(await session.pull(account("a"))), [4], "version of the parent");
    const all = await session.pull(entries("a"), 1);
    kit.equal(all.rows.map((row) => [row.pk, row.v, row.deleted ?? false]), [[shaS("a/2"), 2, false], [shaS("a/1"), 3, true], [shaS("a/3"), 4, false]], "pk, version and deleted of the items");
    kit.equal(versionsOf(await session.pull(owner("a"))), [2], "version of the singleton");
    kit.equal(await takes(kit, session, "a", removeAccount("a")), 5, "the number of a deletion");
    const { floor, rows } = await session.pull(entries("a"), 4);
    kit.equal([floor, rows], [5, []], "floor and rows after the end of the parent");
    kit.equal(await takes(kit, session, "a", putAccount("a"), putEntry("a", "1")), 6, "the number of a new creation");
    kit.equal([(await session.pull(entries("a"), 4)).floor, versionsOf(await session.pull(entries("a"), 4))], [6, [6]], "floor and versions after a new creation");
  }),
  check("numbers.own-tree", {
    at,
    says: "A document whose class has no items is a tree of its own.",
    hint: "Each document of such a class counts for itself.",
    rule: counts,
    parts: ["numbers"],
  }, async (kit) => {
    const session = kit.session();
    for (const [id, wanted] of [["m", 1], ["m", 2], ["k", 1], ["m", 3]]) {
      const { exchange } = await session.does(...putMeter(id, { n: fresh() }));
      kit.equal(exchange.reply.results[0].ok.trees, [["Meter", shaS(id), wanted]], "trees", exchange);
    }
    await session.does("doc.delete", { class: "Meter", key: ["m"] });
    const { rows, n } = await session.pull(`Meter@${shaS("m")}`, 1);
    kit.equal([rows.map((row) => [row.v, row.deleted]), n], [[[4, true]], 4], "version and deleted of the row, and n");
    await session.refused("bad_value", ...putMeter("k", { maxLife: 60_000_000 }));
  }),
  check("numbers.no-change", {
    at,
    says: "A write that changes nothing, or is refused, takes no number.",
    hint: "Take the number when the write first changes something, and give it back with the transaction.",
    rule: counts,
    parts,
  }, async (kit) => {
    const session = kit.session();
    await takes(kit, session, "a", putAccount("a", { n: 1 }));
    await takes(kit, session, "a", putAccount("a", { n: 1 }));
    await session.refused("not_found", "batch", { ops: [putEntry("a", "1"), removeEntry("a", "none")].map(([name, args]) => ({ name, args })) });
    await session.refused("version_conflict", "doc.put", { class: "Account", data: { id: "a" }, ifVersion: 7 });
    kit.equal((await session.pull(account("a"))).n, 1, "n after writes that changed nothing");
    kit.equal(await takes(kit, session, "a", putEntry("a", "1")), 2, "the number of the next write");
  }),
  check("numbers.two-trees", {
    at,
    says: "A write in two trees takes a number in each. Documents of other classes in the same write have its time as `v`.",
    hint: "Without other documents, `ok.v` is the time of the write; with them, their version.",
    rule: counts,
    parts,
  }, async (kit) => {
    const session = kit.session();
    await takes(kit, session, "a", putAccount("a"));
    const { v, exchange } = await session.batch(putEntry("a", "1"), putAccount("b"), putNote("n"), putEntry("b", "1"), putMeter("m"));
    const trees = new Map(exchange.reply.results[0].ok.trees?.map(([name, pk, n]) => [`${name}@${pk}`, n]));
    kit.equal([...trees].sort(), [[account("a"), 2], [account("b"), 1], [`Meter@${shaS("m")}`, 1]].sort(), "trees", exchange);
    kit.equal(versionsOf(await session.pull("Note")), [v], "the version of a document of another class");
    kit.expect(v > 1e12, `a time as v of the result, not ${v}`, exchange);
  }),
  check("numbers.result-alone", {
    at,
    says: "If the operation changed any document, of either clock, it is the time of the write.",
    hint: "`ok.v` of a write in numbered trees alone is a time, not 0 and not a number of a tree.",
    rule: counts,
    parts,
  }, async (kit) => {
    const session = kit.session();
    const before = (await session.put("Note", { id: "before" })).v;
    for (const op of [putAccount("a"), putEntry("a", "1"), removeEntry("a", "1"), removeAccount("a")]) {
      const { v, exchange } = await session.does(...op);
      kit.expect(v > before, `a time above ${before} as v of ${op[0]}, not ${v}`, exchange);
    }
  }),
  check("numbers.go-on", {
    at,
    says: "Numbers never go back, also if the parent and all items are long purged: the server keeps the tree's record for ever.",
    hint: "A purge keeps the number of each tree.",
    rule: counts,
    parts,
    needs: ["purge"],
    isAlone: true,
  }, async (kit) => {
    const session = kit.session();
    await takes(kit, session, "a", putAccount("a"), putEntry("a", "1"));
    await takes(kit, session, "a", putEntry("a", "2"));
    await takes(kit, session, "a", removeAccount("a"));
    await kit.purge(session);
    kit.equal((await session.pull(account("a"))).n, 3, "n after the purge");
    kit.equal(await takes(kit, session, "a", putAccount("a")), 4, "the number of a write after the purge");
  }),
  check("numbers.n", {
    at,
    says: "Each part of such a def has `n`, the number of the tree in the reply's snapshot. If nothing was ever written in the tree, `n` is 0.",
    hint: "It is the number of the tree, also if nothing of this def has it.",
    rule: exact,
    parts,
  }, async (kit) => {
    const session = kit.session();
    const { reply } = await session.sync({ subs: [[account("a"), 0], [entries("a"), 0], [owner("a"), 5]] });
    kit.equal(reply.parts.map(({ n }) => n), [0, 0, 0], "n of a tree in which nothing was written");
    await takes(kit, session, "a", putAccount("a"), putEntry("a", "1"));
    await takes(kit, session, "a", putEntry("a", "1", { n: 1 }));
    const later = await session.sync({ subs: [[account("a"), 0], [entries("a"), 2], [owner("a"), 0]] });
    kit.equal(later.reply.parts.map(({ n }) => n), [2, 2, 2], "n of all defs of the tree");
  }),
  check("numbers.above", {
    at,
    says: "The answer has the changes *above* the asked `v`. A pull from 0 may leave out deletions up to `first`.",
    hint: "Above, not at or above: a number is exact, and a time is not.",
    rule: exact,
    parts,
  }, async (kit) => {
    const session = kit.session();
    await takes(kit, session, "a", putAccount("a"), putEntry("a", "1"));
    await takes(kit, session, "a", putEntry("a", "2"), putEntry("a", "3"));
    await takes(kit, session, "a", putEntry("a", "4"));
    for (const [v, wanted] of [[0, [1, 2, 2, 3]], [1, [2, 2, 3]], [2, [3]], [3, []]]) {
      const { rows, total, exchange } = await session.pull(entries("a"), v);
      kit.equal([versionsOf({ rows }), total ?? wanted.length], [wanted, wanted.length], `versions and total above ${v}`, exchange);
    }
    kit.equal((await session.pull(account("a"), 1)).rows, [], "rows of the parent above its version");
  }),
  check("numbers.first", {
    at,
    says: "The collection's new `v` is `first`. `now` and `delta` do not count for it.",
    hint: "Each page has the number of its own snapshot. The session goes on from that of the first page.",
    rule: exact,
    parts,
  }, async (kit) => {
    const session = kit.session();
    const data = bulk(kit, 200_000);
    await takes(kit, session, "a", putAccount("a"));
    for (let i = 0; i < 9; i++) await takes(kit, session, "a", putEntry("a", `${i}`, { data }));
    const writer = kit.session();
    const load = await session.load(entries("a"), 0, async (page) => {
      if (page !== 1) return;
      await takes(kit, writer, "a", removeEntry("a", "0"));
      await takes(kit, writer, "a", putEntry("a", "1", { n: 1 }), putEntry("a", "new"));
    });
    kit.expect(load.pages.length > 1, "several pages of 1.8 MB");
    kit.equal([load.pages[0].n, load.pages.at(-1).n], [10, 12], "n of the first and of the last page", load.exchange);
    const after = await session.pull(entries("a"), load.v);
    const told = [...load.rows, ...after.rows];
    kit.expect(told.some((row) => row.pk === shaS("a/0") && row.deleted), "a deletion between two pages, in the load or in the pull from the `n` of its first page", after.exchange);
    for (const [id, v] of [["1", 12], ["new", 12]]) kit.equal(told.filter(({ pk }) => pk === shaS(`a/${id}`)).at(-1)?.v, v, `the version of the item ${id}`, after.exchange);
    kit.expect(!load.present.includes(shaS("a/0")), "present as of the last page", load.exchange);
  }),
  check("numbers.results", {
    at,
    says: "If it changed nothing of a tree, `n` is the highest version there of the documents that it asked to write. If there is none, the tree is left out.",
    hint: "`trees` has the trees that the operation wrote in, or was asked to; `v` is about the other documents.",
    rule: exact,
    parts,
  }, async (kit) => {
    const session = kit.session();
    await takes(kit, session, "a", putAccount("a", { n: 1 }));
    await takes(kit, session, "a", putEntry("a", "1"));
    await takes(kit, session, "a", putEntry("a", "2"));
    kit.equal(await takes(kit, session, "a", putAccount("a", { n: 1 }), putEntry("a", "1")), 2, "the number of a batch that changed nothing");
    const { v } = await session.does(...putNote("n"));
    const mixed = await session.batch(putNote("n"), putAccount("a", { n: 1 }));
    const { ok } = mixed.exchange.reply.results[0];
    kit.equal([ok.v, ok.trees], [v, [["Account", shaS("a"), 1]]], "v and trees of a batch that changed nothing", mixed.exchange);
    const other = await session.does(...putNote("n", { n: 2 }));
    kit.equal(other.exchange.reply.results[0].ok.trees ?? [], [], "trees of a write elsewhere", other.exchange);
  }),
  check("numbers.kept-result", {
    at,
    says: "`trees` is kept with the result.",
    hint: "A session that lost the answer needs the number as well.",
    rule: "R11",
    parts,
  }, async (kit) => {
    const session = kit.session();
    const { op } = await session.batch(putAccount("a"), putEntry("a", "1"));
    await takes(kit, kit.session(), "a", putEntry("a", "2"));
    const { reply } = await session.sync({ ops: [op] });
    kit.equal(reply.results[0].ok?.trees, [["Account", shaS("a"), 1]], "trees of the kept result");
  }),
  check("numbers.if-version", {
    at,
    says: "`ifVersion` with a number compares the document's `v`. `{ \"op\": id }` holds if the document's version is at most the number that the named operation has in `trees` for the document's tree.",
    hint: "The operation's own `v` is a time; its number in the tree is in its kept result.",
    rule: exact,
    parts,
  }, async (kit) => {
    const session = kit.session();
    const first = await session.batch(putAccount("a"), putEntry("a", "1"));
    await session.put("Entry", { account: "a", number: "1", n: 1 }, { ifVersion: 1 });
    const { fault, exchange } = await session.refused("version_conflict", "doc.put", { class: "Entry", data: { account: "a", number: "1" }, ifVersion: 1 });
    kit.equal(fault.doc.v, 2, "v of the doc of the conflict", exchange);
    await session.patch("Account", ["a"], { n: 1 }, { ifVersion: { op: first.id } });
    await session.refused("version_conflict", "doc.patch", { class: "Account", key: ["a"], set: { n: 2 }, ifVersion: { op: first.id } });
    const second = await session.does(...putEntry("a", "2"));
    await session.patch("Account", ["a"], { n: 3 }, { ifVersion: { op: second.id } });
    const elsewhere = await session.batch(putAccount("b"), putNote("n"));
    await session.refused("version_conflict", "doc.patch", { class: "Account", key: ["a"], set: { n: 4 }, ifVersion: { op: elsewhere.id } });
    await session.patch("Account", ["b"], { n: 4 }, { ifVersion: { op: elsewhere.id } });
  }),
  check("numbers.if-version-forgotten", {
    at,
    says: "If it has none there, the write is `version_conflict`, because nothing shows who wrote last. If the server has purged the result, it is `order_held`.",
    hint: "The id alone keeps a time, and no numbers.",
    rule: exact,
    parts: ["numbers"],
    needs: ["forget"],
    isAlone: true,
  }, async (kit) => {
    const session = kit.session();
    const { id } = await session.does(...putMeter("m"));
    await kit.wait(20);
    await kit.hooks.forget();
    await session.refused("order_held", "doc.patch", { class: "Meter", key: ["m"], set: { n: 1 }, ifVersion: { op: id } });
    await session.does("doc.patch", { class: "Meter", key: ["m"], set: { n: 1 }, ifVersion: 1 });
  }),
  check("numbers.parallel", {
    at,
    says: "No number is compared with a time. Rules 1 to 3 of [Versions and time](#versions-and-time) are about other classes; here the lock of the write orders numbers.",
    hint: "Read and raise the number in the transaction of the write, under its lock.",
    rule: counts,
    parts,
  }, async (kit) => {
    await takes(kit, kit.session(), "a", putAccount("a"));
    const all = await Promise.all(Array.from({ length: 6 }, async (_, i) => {
      const session = kit.session();
      const found = [];
      for (let n = 0; n < 8; n++) found.push(await takes(kit, session, "a", putEntry("a", `${i}`, { n })));
      return found;
    }));
    kit.equal(all.flat().sort((a, b) => a - b), Array.from({ length: 48 }, (_, i) => i + 2), "the numbers of 48 writes at once");
    for (const found of all) kit.equal(found, [...found].sort((a, b) => a - b), "the numbers of one session, which rise");
  }),
  check("numbers.one-state", {
    at,
    says: "Each part of such a def has `n`, the number of the tree in the reply's snapshot.",
    hint: "All parts of a tree are of one snapshot, and so is `n`.",
    rule: "R18",
    parts,
  }, async (kit) => {
    const writer = kit.session();
    const write = (n) => takes(kit, writer, "a", putAccount("a", { n }), putEntry("a", "1", { n }));
    await write(0);
    let isOver = false;
    const writes = async () => {
      for (let n = 1; n <= 20; n++) await write(n);
      isOver = true;
    };
    const reads = async () => {
      const reader = kit.session();
      while (!isOver) {
        const exchange = await reader.sync({ subs: [[account("a"), 0], [entries("a"), 0]] });
        const [one, other] = exchange.reply.parts;
        kit.expect(one.n === other.n && one.rows[0].v === one.n && other.rows[0].v === one.n, `one number in both parts and in their rows, not ${one.n}, ${other.n}, ${one.rows[0].v} and ${other.rows[0].v}`, exchange);
      }
    };
    await Promise.all([writes(), reads(), reads()]);
  }),
  check("numbers.hints", {
    at,
    says: "**Hints** have the number as their version.",
    hint: "A session ignores a hint that is not above its `v`: a time would always be above.",
    rule: exact,
    parts,
  }, async (kit) => {
    const session = kit.session();
    await session.batch(putAccount("a"), putEntry("a", "1"));
    const socket = kit.socket();
    await socket.subscribe([account("a"), entries("a"), owner("a"), "Note"]);
    const { v } = await session.batch(putEntry("a", "1", { n: 1 }), putNote("n"));
    await socket.hint(entries("a"), 2);
    await socket.hint("Note", v);
    await session.does(...removeAccount("a"));
    for (const def of [account("a"), entries("a"), owner("a")]) await socket.hint(def, 3);
    for (const def of [account("a"), entries("a"), owner("a")]) kit.expect(socket.hintsOf(def).every(([, at]) => at <= 3), `hints of ${def} with its numbers`, socket);
  }),
  check("numbers.end-of-a-life", {
    at,
    says: "Documents of such a class have no `maxLife` (`bad_value`). Items may have one.",
    hint: "An item whose life has ended is a deletion at its own number.",
    parts,
  }, async (kit) => {
    const session = kit.session();
    const minute = Math.floor(Date.now() / 60_000);
    await session.refused("bad_value", ...putAccount("a", { maxLife: minute + 60 }));
    await takes(kit, session, "a", putAccount("a"), putEntry("a", "1"));
    await takes(kit, session, "a", putEntry("a", "1", { maxLife: minute - 1 }));
    const { rows } = await session.pull(entries("a"), 1);
    kit.equal(rows.map((row) => [row.v, row.deleted]), [[2, true]], "version and deleted of an item whose life has ended");
    kit.equal((await session.pull(entries("a"))).present, [], "present");
  }),
  check("numbers.purge", {
    at,
    says: "If the server removes a tombstone, or a document past its life, the tree's horizon becomes at least its `v` + 1. A pull from `v` ends with `present` if `v` + 1 is below the tree's horizon.",
    hint: "The org's horizon is a time: it says nothing of a tree.",
    rule: "R6",
    parts,
    needs: ["purge"],
    isAlone: true,
  }, async (kit) => {
    const session = kit.session();
    await takes(kit, session, "a", putAccount("a"), putEntry("a", "1"), putEntry("a", "2"));
    await takes(kit, session, "a", putEntry("a", "3"));
    await takes(kit, session, "a", removeEntry("a", "1"));
    await takes(kit, session, "a", putEntry("a", "4"));
    await kit.purge(session);
    const living = ["2", "3", "4"].map((number) => shaS(`a/${number}`)).sort();
    for (const v of [1, 2]) {
      const load = await session.load(entries("a"), v);
      const isTold = load.present !== undefined || load.rows.some((row) => row.pk === shaS("a/1") && row.deleted);
      kit.expect(isTold, `present above ${v}, or the deletion 3`, load.exchange);
      if (load.present) kit.equal([...load.present].sort(), living, "present", load.exchange);
    }
    const { rows, exchange } = await session.load(entries("a"), 3);
    kit.equal(versionsOf({ rows }), [4], "versions above 3", exchange);
  }),
];
