// Pages: loads of several replies, and their cursors.
import { check } from "../check.mjs";
import { inBox, note, shaS, uuid } from "../names.mjs";

const at = "pages";
const MIB = 1 << 20;
/** Random bytes, so that no compression makes a page of it all. */
const bulk = (kit, size) => Uint8Array.from({ length: size }, () => kit.below(256));

/** Writes documents of 100 KB, which take several pages. */
async function fill(kit, session, count = 24, more = {}) {
  const data = bulk(kit, 100_000);
  for (let i = 0; i < count; i += 8) {
    const ids = Array.from({ length: Math.min(8, count - i) }, (_, n) => `p${String(i + n).padStart(3, "0")}`);
    await session.sync({ ops: ids.map((id) => session.make("doc.put", { class: "Note", data: { id, data, ...more } })) });
  }
}

const idsOf = (rows) => rows.map(({ data }) => data.id);

export const pages = [
  check("pages.load", {
    at,
    says: "`next` is opaque to the session, at most 1,024 bytes, and names the last (v, pk) sent. The next page begins after it.",
    hint: "A row that did not change comes once in a load. The cursor is no offset.",
  }, async (kit) => {
    const session = kit.session();
    await fill(kit, session, 24, { box: "in" });
    const all = Array.from({ length: 24 }, (_, i) => `p${String(i).padStart(3, "0")}`);
    for (const def of ["Note", inBox("in")]) {
      const load = await session.load(def);
      kit.expect(load.pages.length > 1, `several pages of 2.4 MB of ${def}`);
      kit.equal(idsOf(load.rows), all, `the ids of all pages of ${def}`);
      kit.equal([...load.present].sort(), all.map(shaS).sort(), `present of ${def}`);
      for (const page of load.pages) kit.expect(page.rows.length > 0, "at least one row on each page", page.exchange);
      const totals = new Set(load.pages.map(({ total }) => total));
      kit.expect([...totals].every((total) => total === undefined || total === 24) && totals.size === 1, `total 24 on all pages, not ${[...totals]}`);
    }
  }),
  check("pages.one-mebibyte", {
    at,
    says: "A reply stops once its rows weigh 1 MiB, or `page` bytes if the request says so and that is less. The first def that has changes advances by at least one row.",
    hint: "The bound is that of a reply, not of a part.",
  }, async (kit) => {
    const session = kit.session();
    await fill(kit, session, 16, { box: "in" });
    const { reply, bytes } = await session.sync({ subs: [["Note", 0], [inBox("in"), 0], ["Page", 0]] }, { form: "msgpack" });
    kit.expect(bytes.length < 1.3 * MIB, `a reply of about 1 MiB, not of ${bytes.length} bytes`);
    kit.expect(reply.parts[0].next !== undefined, "next in the first part");
    const wholes = reply.parts.filter((part) => part.def === inBox("in") && part.next === undefined);
    kit.equal(wholes, [], "parts that are whole although the reply is full");
  }),
  check("pages.large-document", {
    at: "limits",
    says: "1 MiB, or one row",
    hint: "A document that is larger than a page has a page for itself.",
  }, async (kit) => {
    const session = kit.session({ form: "msgpack" });
    const ids = ["x", "y", "z"];
    for (const id of ids) await session.put("Note", { id, data: bulk(kit, MIB - 60) });
    const load = await session.load("Note");
    kit.equal(idsOf(load.rows), ids, "the ids of all pages");
    for (const id of ids) kit.equal((await session.load(note(id))).rows.length, 1, `rows of ${note(id)}`);
  }),
  check("pages.live-data", {
    at,
    says: "Each page reads live data. A row that changes between two pages moves to the end, and is sent again.",
    hint: "Do not keep a snapshot for a load; the cursor is a place in the order of (v, pk).",
  }, async (kit) => {
    const session = kit.session();
    await fill(kit, session);
    const writer = kit.session();
    let changed;
    const load = await session.load("Note", 0, async (page) => {
      if (page !== 1) return;
      changed = await writer.patch("Note", ["p000"], { n: 5 });
      await writer.patch("Note", ["p023"], { n: 6 });
      await writer.put("Note", { id: "new" });
    });
    const last = (id) => load.rows.filter(({ data }) => data?.id === id).at(-1);
    kit.equal(last("p000").v, changed.v, "the version of the row that was sent and changed then");
    kit.equal([last("p023").data.n, last("new") !== undefined], [6, true], "a row that changed before its page, and a new one");
    kit.expect(load.present.includes(shaS("new")), "the new document in present");
  }),
  check("pages.gone-between-pages", {
    at: "the-horizon",
    says: "A pull from 0 always ends with `present`, because documents can leave between its pages.",
    hint: "`present` is read with the last page, not with the first.",
    rule: "R6",
  }, async (kit) => {
    const session = kit.session();
    await fill(kit, session, 24, { box: "in" });
    for (const [def, id] of [["Note", "p001"], [inBox("in"), "p002"]]) {
      const load = await session.load(def, 0, async (page) => {
        if (page !== 1) return;
        if (def === "Note") await kit.session().delete("Note", [id]);
        else await kit.session().patch("Note", [id], { box: "out" });
      });
      kit.expect(!load.present.includes(shaS(id)), `present of ${def} without a document that went after the first page`, load.exchange);
    }
  }),
  check("pages.first-now", {
    at,
    says: "At the end of the load, the session computes the def's `v` from the *first* page's `now`.",
    hint: "A tombstone that is newer than the first page's `now - delta` has to be sent, or be seen by the pull after the load.",
  }, async (kit) => {
    const session = kit.session();
    await fill(kit, session);
    const writer = kit.session();
    const load = await session.load("Note", 0, (page) => page === 1 && writer.delete("Note", ["p003"]));
    const after = await session.load("Note", load.v);
    const isTold = [...load.rows, ...after.rows].some((row) => row.pk === shaS("p003") && row.deleted);
    kit.expect(isTold, "the deletion in the load, or in the pull after it", after.exchange);
  }),
  check("pages.forged-cursor", {
    at,
    says: "The server must detect a forged cursor; the reference server signs them. A cursor that it refuses is the fault `bad_cursor`.",
    hint: "Sign the place together with org, def, asked v and epoch, and compare the whole signature.",
  }, async (kit) => {
    const session = kit.session();
    await fill(kit, session);
    const { next } = await session.pull("Note");
    const flip = (i) => `${next.slice(0, i)}${next[i] === "A" ? "B" : "A"}${next.slice(i + 1)}`;
    const places = [0, 1, Math.floor(next.length / 3), Math.floor(next.length / 2), next.length - 6];
    const forged = [...places.map(flip), `${next}A`, next.slice(0, -4), "x", "AAAA.BBBB", Buffer.from(JSON.stringify([0, "", 0])).toString("base64url")];
    for (const cursor of forged) {
      const { reply } = await session.sync({ subs: [["Note", 0, cursor]] });
      kit.isFault(reply.parts[0]?.fault, "bad_cursor");
      kit.equal(Object.keys(reply.parts[0]).sort(), ["def", "fault"], "the fields of the part");
    }
  }),
  check("pages.cursor-of-another", {
    at,
    says: "A cursor is valid for its org, def, asked `v` and epoch only.",
    hint: "All four belong into the signature.",
  }, async (kit) => {
    const session = kit.session();
    await fill(kit, session, 24, { box: "in" });
    await kit.session({ org: kit.otherOrg }).put("Note", { id: "other" });
    const { next } = await session.pull("Note");
    const asks = [
      ["another def", [inBox("in"), 0, next], kit.org],
      ["another v", ["Note", 1, next], kit.org],
      ["another org", ["Note", 0, next], kit.otherOrg],
    ];
    for (const [name, sub, org] of asks) {
      const { reply } = await session.sync({ subs: [sub] }, { org });
      kit.expect(reply.parts[0].fault !== undefined, `bad_cursor for ${name}`);
      kit.isFault(reply.parts[0].fault, "bad_cursor");
    }
    kit.expect((await session.pull("Note", 0, next)).rows.length > 0, "rows for the cursor's own answer");
  }),
  check("pages.cursor-length", {
    at: "limits",
    says: "a session's name, an id, a cursor, an operation's name",
    hint: "A longer cursor is a mistake outside of the arguments: 400 `malformed`.",
  }, async (kit) => {
    const session = kit.session();
    const { reply } = await session.sync({ subs: [["Note", 0, "x".repeat(1024)]] });
    kit.isFault(reply.parts[0].fault, "bad_cursor");
    kit.isRefused(await session.ask({ subs: [["Note", 0, "x".repeat(1025)]] }), 400, "malformed");
    kit.isRefused(await session.ask({ subs: [["Note", 0, ""]] }), 400, "malformed");
  }),
  check("pages.long-pk", {
    at,
    says: "A cursor has to hold the longest pk.",
    hint: "The cursor with its signature has 1,024 bytes at most.",
  }, async (kit) => {
    const session = kit.session();
    const data = bulk(kit, 300_000);
    for (let i = 0; i < 5; i++) await session.put("Org", { code: `${i}${"o".repeat(590)}`, data });
    const load = await session.load("Org");
    kit.expect(load.pages.length > 1, "several pages");
    kit.equal(load.rows.length, 5, "the number of rows");
  }),
  check("pages.from-a-version", {
    at,
    says: "`next` is opaque to the session, at most 1,024 bytes, and names the last (v, pk) sent.",
    hint: "One write may have more rows than a page has room for: all are of one version.",
  }, async (kit) => {
    const session = kit.session();
    const data = bulk(kit, 100_000);
    const before = await session.put("Note", { id: "before" });
    const ids = Array.from({ length: 20 }, (_, i) => `w${i}`);
    await session.batch(...ids.map((id) => ["doc.put", { class: "Note", data: { id, data } }]));
    const load = await session.load("Note", before.v);
    kit.expect(load.pages.length > 1, "several pages of one write");
    kit.equal(idsOf(load.rows).sort(), ["before", ...ids].sort(), "the ids of all pages");
  }),
  check("pages.full-reply-goes-on", {
    at: "pull",
    says: "A def for which the reply had no room has none; the session asks for it again",
    hint: "Parts are left out from the end, so that the session asks for the others alone.",
  }, async (kit) => {
    const session = kit.session();
    await fill(kit, session, 16, { box: "in" });
    await session.put("Page", { book: "b", number: "1" });
    const wanted = [["Note", 0], [inBox("in"), 0], ["Page", 0]];
    const done = new Map();
    const op = session.make("doc.put", { class: "Serial", data: { id: uuid() } });
    await session.sync({ ops: [op], subs: wanted });
    for (let i = 0; i < 40 && done.size < 3; i++) {
      const open = wanted.filter(([def]) => !done.has(def));
      const { reply } = await session.sync({ subs: open });
      for (const part of reply.parts) {
        const [, v, cursor] = [part.def, 0, part.next];
        if (cursor === undefined) done.set(part.def, part.present.length);
        else wanted.find(([def]) => def === part.def).splice(1, 2, v, cursor);
      }
    }
    kit.equal([...done.values()].sort((a, b) => a - b), [1, 16, 16], "the numbers of members");
  }),
];
