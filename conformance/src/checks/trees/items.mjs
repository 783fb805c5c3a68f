// Items: documents that exist only while their parent does. `Line`, `Title` and `Scan` of the kit are in `Page`.
import { check } from "../../check.mjs";
import { shaS, uuid } from "../../names.mjs";

const at = "items";
const parts = ["items"];
const rule = "R17";

const page = (number) => ({ book: "b", number });
const line = (of, number, more) => ({ book: "b", page: of, number, ...more });
const pagePk = (number) => shaS(`b/${number}`);
const linePk = (of, number) => shaS(`b/${of}/${number}`);
const thePage = (number) => `Page@${pagePk(number)}`;
const lines = (of) => `Line/in@${pagePk(of)}`;
const theLine = (of, number) => `Line@${linePk(of, number)}`;

const putPage = (number, more) => ["doc.put", { class: "Page", data: { ...page(number), ...more } }];
const putLine = (of, number, more) => ["doc.put", { class: "Line", data: line(of, number, more) }];
const removePage = (number) => ["doc.delete", { class: "Page", key: ["b", number] }];

const livingOf = ({ rows }) => rows.filter(({ deleted }) => !deleted).map(({ pk }) => pk).sort();
const bulk = (kit, size) => Uint8Array.from({ length: size }, () => kit.below(256));

/** Expects that a def has these members and no others, pulled from 0. */
async function holds(kit, session, def, pks, when) {
  const load = await session.load(def);
  kit.equal([livingOf(load), [...load.present].sort()], [[...pks].sort(), [...pks].sort()], `living rows and present of ${def} ${when}`, load.exchange);
  return load;
}

export const items = [
  check("items.defs", {
    at,
    says: "| `Adh` | none: `unknown_def` |".slice(2),
    hint: "An item is in two defs: `Class@<pk>`, and `Class/in@<pk of its parent>`.",
    parts,
  }, async (kit) => {
    const session = kit.session();
    await session.batch(putPage("1"), putLine("1", "1"), ["doc.put", { class: "Title", data: { book: "b", page: "1", text: "t" } }]);
    for (const def of [lines("1"), theLine("1", "1")]) await holds(kit, session, def, [linePk("1", "1")], "after a put");
    // The key of a singleton is that of its parent, and so is its pk.
    await holds(kit, session, `Title/in@${pagePk("1")}`, [pagePk("1")], "after a put");
    await holds(kit, session, lines("2"), [], "of another parent");
    const { reply } = await session.sync({ subs: [["Line", 0], [`Line/out@${pagePk("1")}`, 0], [`Page/in@${pagePk("1")}`, 0]] });
    for (const part of reply.parts) kit.isFault(part.fault, "unknown_def");
  }),
  check("items.parent-first", {
    at,
    says: "A put of an item is `not_found` if its parent is absent or deleted. A batch may create the parent and then its items.",
    hint: "Look the parent up in the transaction of the put: its pk is the `shaS` of the first key properties.",
    rule: "R16",
    parts,
  }, async (kit) => {
    const session = kit.session();
    await session.refused("not_found", ...putLine("1", "1"));
    await session.refused("not_found", "batch", { ops: [putLine("1", "1"), putPage("1")].map(([name, args]) => ({ name, args })) });
    await session.batch(putPage("1"), putLine("1", "1"), putLine("1", "2"));
    await session.does(...removePage("1"));
    await session.refused("not_found", ...putLine("1", "3"));
    await session.refused("not_found", "doc.patch", { class: "Line", key: ["b", "1", "1"], set: { n: 1 } });
    await session.refused("not_found", "doc.delete", { class: "Line", key: ["b", "1", "1"] });
    await session.put("Page", page("2"));
    await session.refused("not_found", ...putLine("1", "1"));
  }),
  check("items.key", {
    at,
    says: "The key properties behind those of the parent have 255 characters at most, together and joined by `/`; a longer key is `bad_key`.",
    hint: "Characters, not bytes.",
    parts,
  }, async (kit) => {
    const session = kit.session();
    await session.put("Page", page("1"));
    const longest = "\u00fc".repeat(255);
    await session.does(...putLine("1", longest));
    await session.refused("bad_key", ...putLine("1", `${longest}x`));
    await holds(kit, session, lines("1"), [linePk("1", longest)], "after two puts");
  }),
  check("items.end-with-parent", {
    at,
    says: "If a write deletes a parent, all items end with it.",
    hint: "Compare the version of each item with the floor of its tree, wherever you read one.",
    rule: "R16",
    parts,
  }, async (kit) => {
    const session = kit.session();
    await session.batch(putPage("1"), putPage("2"), putLine("1", "1"), putLine("1", "2"), putLine("2", "1"));
    await session.does(...removePage("1"));
    await holds(kit, session, lines("1"), [], "after the end of the parent");
    await holds(kit, session, theLine("1", "1"), [], "after the end of the parent");
    await session.does(...putPage("1"));
    await holds(kit, session, lines("1"), [], "after the parent was created again");
    await session.does(...putLine("1", "2", { n: 2 }));
    await holds(kit, session, lines("1"), [linePk("1", "2")], "after one item was put again");
    await holds(kit, session, lines("2"), [linePk("2", "1")], "of another parent");
  }),
  check("items.floor", {
    at,
    says: "Such a part has `floor` if the asked `v` is not above the floor, on each of its pages.",
    hint: "In a pull from 0, too. A tree whose parent was never put has no floor.",
    rule,
    parts,
  }, async (kit) => {
    const session = kit.session();
    const floorOf = async (asked) => (await session.pull(lines("1"), asked)).floor;
    kit.equal(await floorOf(0), undefined, "floor of a parent that never was");
    let { v } = await session.batch(putPage("1"), putLine("1", "1"));
    for (const change of [removePage("1"), putPage("1"), removePage("1")]) {
      kit.equal([await floorOf(0), await floorOf(v - 1), await floorOf(v), await floorOf(v + 1)], [v, v, v, undefined], `floor from 0, from ${v - 1}, ${v} and ${v + 1}`);
      ({ v } = await session.does(...change));
    }
    const data = bulk(kit, 300_000);
    ({ v } = await session.does(...putPage("1")));
    for (let i = 0; i < 5; i++) await session.put("Line", line("1", `${i}`, { data }));
    const { pages } = await session.load(lines("1"), v);
    kit.expect(pages.length > 1, "several pages of 1.5 MB");
    for (const { floor, exchange } of pages) kit.equal(floor, v, "floor of each page", exchange);
  }),
  check("items.counted-from-the-floor", {
    at,
    says: "A part of `Adh/in@<pk>` begins at the floor, or at the cursor if that is later. Its `total` and `present` count from the floor on.",
    hint: "Begin at the floor, not at the asked `v`: no row is below it.",
    rule,
    parts,
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.batch(putPage("1"), putLine("1", "1"), putLine("1", "2"));
    await session.delete("Line", ["b", "1", "2"]);
    await session.does(...removePage("1"));
    const again = await session.does(...putPage("1"));
    await session.does(...putLine("1", "3"));
    for (const asked of [0, v, again.v]) {
      const { rows, total, exchange } = await session.pull(lines("1"), asked);
      kit.equal([rows.map(({ pk }) => pk), total ?? 1], [[linePk("1", "3")], 1], `rows and total from ${asked}`, exchange);
    }
  }),
  check("items.below-the-floor", {
    at,
    says: "A put creates it again, `ifVersion: 0` holds for it, and the `doc` of a `version_conflict` is its deletion, at the floor.",
    hint: "A stored item below the floor is no document: a put of equal data is a new version.",
    rule,
    parts,
  }, async (kit) => {
    const session = kit.session();
    const first = await session.batch(putPage("1"), putLine("1", "1", { n: 1 }), putLine("1", "2"));
    await session.does(...removePage("1"));
    const again = await session.does(...putPage("1"));
    for (const ifVersion of [first.v, { op: first.id }, again.v - 1]) {
      const { fault, exchange } = await session.refused("version_conflict", "doc.put", { class: "Line", data: line("1", "1"), ifVersion });
      kit.equal([fault.doc.pk, fault.doc.v, fault.doc.deleted], [linePk("1", "1"), again.v, true], "pk, v and deleted of the doc of the conflict", exchange);
    }
    await session.refused("not_found", "doc.patch", { class: "Line", key: ["b", "1", "1"], set: { n: 2 } });
    await session.refused("not_found", "doc.delete", { class: "Line", key: ["b", "1", "1"] });
    const back = await session.put("Line", line("1", "1", { n: 1 }), { ifVersion: 0 });
    kit.expect(back.v > again.v, "a version above the floor of an item that was put again with equal data");
    await holds(kit, session, lines("1"), [linePk("1", "1")], "after one item was put again");
  }),
  check("items.at-the-floor", {
    at,
    says: "An item at the version of the floor exists. So if a write puts items and then deletes their parent, it gives these items tombstones.",
    hint: "All of a write has one version, and so has the floor that it raises.",
    rule,
    parts,
  }, async (kit) => {
    const session = kit.session();
    const born = await session.batch(putPage("1"), putLine("1", "1"));
    kit.equal((await holds(kit, session, lines("1"), [linePk("1", "1")], "at the floor")).rows[0].v, born.v, "the version of an item that came with its parent");
    await session.batch(putLine("1", "2"), removePage("1"), putPage("1"), putLine("1", "3"));
    await holds(kit, session, lines("1"), [linePk("1", "3")], "after a batch that ended an item of its own");
    await holds(kit, session, theLine("1", "2"), [], "after a batch that ended an item of its own");
    const { v } = await session.batch(putLine("1", "4"), removePage("1"));
    for (const number of ["3", "4"]) await holds(kit, session, theLine("1", number), [], "after the end of its parent");
    const { rows } = await session.pull(lines("1"), v);
    kit.expect(rows.every(({ deleted }) => deleted), "no living row after a batch that put an item and deleted its parent");
    await session.does(...putPage("1"));
    await holds(kit, session, lines("1"), [], "after the parent was created again");
  }),
  check("items.single-item", {
    at,
    says: "A single item that is asked for and is below the floor is a deletion at the floor. Its own version does not count. It is a row if the floor is at or above the asked `v`.",
    hint: "The floor, not the item's version, is compared with the asked `v`.",
    rule,
    parts,
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.batch(putPage("1"), putLine("1", "1"));
    const expected = async (floor) => {
      for (const [asked, wanted] of [[v, [[floor, true]]], [v + 1, [[floor, true]]], [floor, [[floor, true]]], [floor + 1, []]]) {
        const { rows, exchange } = await session.pull(theLine("1", "1"), asked);
        kit.equal(rows.map((row) => [row.v, row.deleted]), wanted, `version and deleted of a single item, from ${asked}`, exchange);
      }
    };
    await expected((await session.does(...removePage("1"))).v);
    await expected((await session.does(...putPage("1"))).v);
  }),
  check("items.answer-lost", {
    at,
    says: "A reply may be lost with its `floor`: the next request has the same `v`, and the answer has the floor again.",
    hint: "A server remembers nothing of an answer.",
    rule,
    parts,
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.batch(putPage("1"), putLine("1", "1"));
    const ended = await session.does(...removePage("1"));
    await session.ask({ subs: [[lines("1"), v]] }, { dropsAnswer: true });
    kit.equal((await session.pull(lines("1"), v)).floor, ended.v, "floor of the second answer");
  }),
  check("items.neighbours", {
    at,
    says: "If the defs of one tree are next to each other in `subs`, the reply has all of them, or none of them.",
    hint: "If a part of a tree has no room, take back those of the same tree, and end the reply.",
    rule: "R18",
    parts,
  }, async (kit) => {
    const session = kit.session();
    const [large, data] = [bulk(kit, 900_000), bulk(kit, 100_000)];
    await session.put("Note", { id: "large", data: large });
    await session.batch(putPage("1"), ["doc.put", { class: "Title", data: { book: "b", page: "1" } }]);
    for (let i = 0; i < 4; i++) await session.put("Line", line("1", `${i}`, { data }));
    const tree = [thePage("1"), lines("1"), `Title/in@${pagePk("1")}`];
    let open = ["Note", ...tree];
    for (let replies = 0; open.length; replies++) {
      kit.expect(replies < 10, "a load that ends");
      const { reply } = await session.sync({ subs: open.map((def) => [def, 0]) });
      const whole = reply.parts.filter(({ next }) => next === undefined).map(({ def }) => def);
      const count = tree.filter((def) => reply.parts.some((part) => part.def === def)).length;
      kit.expect(count === 0 || (count === 3 && tree.every((def) => whole.includes(def))), `all defs of a tree in one reply, or none, not ${count} of them`);
      kit.expect(whole.length > 0, "a part that is whole");
      open = open.filter((def) => !whole.includes(def));
    }
  }),
  check("items.large-tree", {
    at,
    says: "But if they are the first in the reply, they come page by page.",
    hint: "Otherwise a tree that is larger than a reply never comes.",
    rule: "R18",
    parts,
  }, async (kit) => {
    const session = kit.session();
    const data = bulk(kit, 200_000);
    await session.batch(putPage("1"), ["doc.put", { class: "Title", data: { book: "b", page: "1" } }]);
    for (let i = 0; i < 9; i++) await session.put("Line", line("1", `${i}`, { data }));
    const open = new Map([["Note", undefined], [thePage("1"), undefined], [lines("1"), undefined], [`Title/in@${pagePk("1")}`, undefined]]);
    const seen = [];
    for (let replies = 0; open.size; replies++) {
      kit.expect(replies < 10, "a load that ends");
      const { reply } = await session.sync({ subs: [...open].map(([def, cursor]) => (cursor === undefined ? [def, 0] : [def, 0, cursor])) });
      kit.expect(reply.parts.length > 0, "a part in each reply");
      for (const part of reply.parts) {
        if (part.def === lines("1")) seen.push(...part.rows.map(({ data: { number } }) => number));
        if (part.next === undefined) open.delete(part.def);
        else open.set(part.def, part.next);
      }
    }
    kit.equal(seen, Array.from({ length: 9 }, (_, i) => `${i}`), "the items of all pages");
  }),
  check("items.small-page", {
    at: "pages",
    says: "`page` does not bound the defs of a tree that come first in a reply: they would no longer be one state.",
    hint: "Bound them by the server's own page. A server may ignore `page`.",
    rule: "R18",
    parts,
  }, async (kit) => {
    const session = kit.session();
    const data = bulk(kit, 2_000);
    await session.batch(putPage("1"), ...Array.from({ length: 5 }, (_, i) => putLine("1", `${i}`, { data })), ["doc.put", { class: "Title", data: { book: "b", page: "1" } }]);
    const defs = [thePage("1"), lines("1"), `Title/in@${pagePk("1")}`];
    const { reply } = await session.sync({ subs: [...defs, "Note"].map((def) => [def, 0]), page: 1_000 });
    const whole = reply.parts.filter(({ next }) => next === undefined).map(({ def }) => def);
    kit.equal(whole.filter((def) => defs.includes(def)), defs, "the defs of the tree that are whole in the first reply");
  }),
  check("items.hints", {
    at,
    says: "If a write deletes a parent, the server hints the parent's defs, and `<class>/in@<pk>` for each class of items.",
    hint: "Also for a class in which the parent has no items: the server need not know.",
    rule: "R16",
    parts,
  }, async (kit) => {
    const session = kit.session();
    const born = await session.batch(putPage("1"), putLine("1", "1"));
    const socket = kit.socket();
    const defs = [thePage("1"), lines("1"), `Title/in@${pagePk("1")}`, theLine("1", "1"), lines("2")];
    const { reply } = await socket.subscribe([...defs, "Line"]);
    kit.equal([[...reply.live].sort(), reply.refused?.map(([def]) => def)], [[...defs].sort(), ["Line"]], "live, and the refused defs", socket);
    const put = await session.does(...putLine("1", "1", { n: 1 }));
    for (const def of [lines("1"), theLine("1", "1")]) await socket.hint(def, put.v);
    const later = socket.hintsOf(thePage("1")).filter(([, at]) => at > born.v);
    kit.equal(later, [], "hints of the parent, which a put of an item does not change", socket);
    const { v } = await session.does(...removePage("1"));
    for (const def of defs.slice(0, 3)) await socket.hint(def, v);
    kit.equal(socket.hintsOf(lines("2")), [], "hints of another parent's items", socket);
  }),
  check("items.single-hints", {
    at,
    says: "It also hints each single item that ended with the parent and that a socket has registered.",
    hint: "Without the hint its session shows the item for minutes. Remember the parents of the items that sockets have registered.",
    rule: "R16",
    parts,
  }, async (kit) => {
    const session = kit.session();
    await session.batch(putPage("1"), putLine("1", "1"), putPage("2"), putLine("2", "1"));
    const socket = kit.socket();
    // One item is there, one comes later, and one is of another parent.
    const defs = [theLine("1", "1"), theLine("1", "2"), theLine("2", "1")];
    const { reply } = await socket.subscribe(defs);
    kit.equal([...reply.live].sort(), [...defs].sort(), "live", socket);
    const put = await session.does(...putLine("1", "2"));
    await socket.hint(defs[1], put.v);
    const { v } = await session.does(...removePage("1"));
    for (const def of defs.slice(0, 2)) await socket.hint(def, v);
    kit.equal(socket.hintsOf(defs[2]), [], "hints of another parent's item", socket);
  }),
  check("items.max-life", {
    at,
    says: "A parent has no `maxLife`, but an item may have one.",
    hint: "A parent with an end would have to send all its items again if it got a later one.",
    parts,
  }, async (kit) => {
    const session = kit.session();
    const minute = Math.floor(Date.now() / 60_000);
    await session.refused("bad_value", ...putPage("1", { maxLife: minute + 60 }));
    await session.does(...putPage("1", { maxLife: null }));
    await session.batch(putLine("1", "on", { maxLife: minute + 60 }), putLine("1", "over", { maxLife: minute - 1 }));
    await holds(kit, session, lines("1"), [linePk("1", "on")], "with one whose life has ended");
  }),
  check("items.too-many", {
    at,
    says: "A parent has at most 100,000 items, of all its classes of items together; one more is `too_large`.",
    hint: "Keep the number of living items with the tree; the end of the parent makes it 0.",
    parts,
    limitMs: 600_000,
    isSlow: true,
  }, async (kit) => {
    const session = kit.session();
    await session.put("Page", page("1"));
    const batch = (from) => ({ ops: Array.from({ length: 500 }, (_, i) => ({ name: "doc.put", args: { class: "Line", data: line("1", `${from + i}`) } })) });
    for (let from = 0; from < 100_000; from += 500) await session.does("batch", batch(from));
    await session.refused("too_large", ...putLine("1", "x"));
    await session.does(...putLine("1", "0", { n: 1 }));
    await session.refused("too_large", "doc.put", { class: "Title", data: { book: "b", page: "1" } });
    await session.delete("Line", ["b", "1", "5"]);
    await session.does(...putLine("1", "x"));
    await session.does(...removePage("1"));
    await session.batch(putPage("1"), putLine("1", "y"));
    await holds(kit, session, lines("1"), [linePk("1", "y")], "after the end of 100,000 others");
  }),
  check("items.raw", {
    at,
    says: "An item of a class with `raw` holds its key properties and `raw`, which is bytes. It may hold `release` and `maxLife`; any other property is `bad_value`.",
    hint: "`Scan` of the kit is such a class.",
    parts,
  }, async (kit) => {
    const session = kit.session();
    const scan = (more) => ["doc.put", { class: "Scan", data: { book: "b", page: "1", number: "1", ...more } }];
    const raw = Uint8Array.of(0, 255, 1);
    await session.put("Page", page("1"));
    for (const more of [{}, { raw: "text" }, { raw: null }, { raw, n: 1 }]) await session.refused("bad_value", ...scan(more));
    await session.does(...scan({ raw, maxLife: null }));
    await session.refused("bad_value", "doc.patch", { class: "Scan", key: ["b", "1", "1"], set: { n: 1 } });
    kit.equal((await session.pull(`Scan/in@${pagePk("1")}`)).rows.map(({ data }) => data.raw), [raw], "raw");
  }),
  check("items.purged", {
    at,
    says: "The server may remove items below a floor once that floor is itself below the horizon.",
    hint: "Until then a session learns of the end by `floor`, or by the deletion of a single item; after it by `present`.",
    rule: "R6",
    parts,
    needs: ["purge"],
    isAlone: true,
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.batch(putPage("1"), putPage("2"), putLine("1", "1"), putLine("2", "1"), putLine("2", "2"));
    await session.does(...removePage("1"));
    await session.batch(removePage("2"), putPage("2"), putLine("2", "2"));
    await kit.purge(session);
    for (const [def, living] of [[lines("1"), []], [lines("2"), [linePk("2", "2")]], [theLine("1", "1"), []], [theLine("2", "1"), []]]) {
      const load = await session.load(def, v);
      const isTold = load.present !== undefined || load.pages[0].floor > v || load.rows.some(({ deleted }) => deleted);
      kit.expect(isTold, `present, floor or a deletion of ${def} from before the end of its parent`, load.exchange);
      kit.equal(livingOf(load), living, `living rows of ${def} from before the purge`, load.exchange);
      await holds(kit, session, def, living, "after the purge");
    }
    await session.batch(putPage("1"), putLine("1", "2"));
    await holds(kit, session, lines("1"), [linePk("1", "2")], "of a parent that was created again after the purge");
    const op = { id: uuid(), seq: (session.seq += 1), name: "doc.patch", args: { class: "Line", key: ["b", "1", "1"], set: {} }, at: 1 };
    kit.isFault((await session.sync({ ops: [op] })).reply.results[0].fault, "not_found");
  }),
];
