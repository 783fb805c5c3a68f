// The end of a life: `maxLife`.
import { check } from "../check.mjs";
import { fresh, inBox, note, shaS } from "../names.mjs";

const at = "the-end-of-a-life";
const minutes = () => Math.floor(Date.now() / 60_000);

export const life = [
  check("life.ended", {
    at,
    says: "From then on the server neither sends it as a living row nor lists it in `present`.",
    hint: "Compare `maxLife * 60000 <= now` with the reply's now, for rows and for present.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "over", box: "in", maxLife: minutes() - 1 });
    // The minute itself belongs to the time after the end. It is the server's minute.
    const { reply } = await session.sync({});
    await session.put("Note", { id: "now", box: "in", maxLife: Math.floor(reply.now / 60_000) });
    await session.put("Note", { id: "on", box: "in", maxLife: minutes() + 60 });
    for (const def of ["Note", inBox("in"), note("over")]) {
      const { rows, present } = await session.pull(def);
      const living = def === note("over") ? [] : [shaS("on")];
      kit.equal(rows.filter(({ deleted }) => !deleted).map(({ pk }) => pk), living, `living rows of ${def}`);
      kit.equal(present, living, `present of ${def}`);
    }
  }),
  check("life.not-counted", {
    at: "pull",
    says: "`total` counts documents and deletions that the answer will list. It does not count departures.",
    hint: "A pull from 0 need not list what ended long ago. What it does not list, `total` does not count.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "over", box: "in", maxLife: minutes() - 1 });
    await session.put("Note", { id: "moved", box: "in" });
    await session.put("Note", { id: "moved", box: "out" });
    const { v } = await session.put("Note", { id: "on", box: "in" });
    for (const [def, from] of [["Note", 0], [inBox("in"), 0], [note("over"), 0], ["Note", v]]) {
      const { rows, total, exchange } = await session.pull(def, from);
      kit.equal(total ?? rows.length, rows.length, `total of ${def} from ${from}`, exchange);
    }
  }),
  check("life.deleted-row", {
    at,
    says: "A pull from a `v` above 0 has a row with `deleted` in its place, at the document's own version.",
    hint: "Otherwise a session keeps an earlier version, one without an end, for ever.",
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.put("Note", { id: "a", box: "in" });
    const ended = await session.put("Note", { id: "a", box: "in", maxLife: minutes() - 1 });
    for (const def of ["Note", inBox("in"), note("a")]) {
      const { rows } = await session.pull(def, v);
      kit.equal(rows.map((row) => [row.v, row.deleted]), [[ended.v, true]], `versions and deleted of ${def}`);
    }
  }),
  check("life.writes-ignore-it", {
    at,
    says: "Until the server removes it, a document past its life can be patched, deleted, and given a later end.",
    hint: "The outcome of an operation depends on no clock.",
  }, async (kit) => {
    const session = kit.session();
    const over = { id: "a", maxLife: minutes() - 5, email: fresh() };
    const { v } = await session.put("Note", over);
    const conflict = await session.refused("version_conflict", "doc.put", { class: "Note", data: { id: "a" }, ifVersion: 0 });
    kit.equal([conflict.fault.doc.v, conflict.fault.doc.data?.email], [v, over.email], "the doc of the conflict", conflict.exchange);
    await session.refused("not_unique", "doc.put", { class: "Note", data: { id: "b", email: over.email } });
    const back = await session.patch("Note", ["a"], { maxLife: minutes() + 60 }, { ifVersion: v });
    kit.equal((await session.pull("Note")).rows.map((row) => row.v), [back.v], "the version of the document with a later end");
    await session.patch("Note", ["a"], { maxLife: minutes() - 5 });
    await session.delete("Note", ["a"]);
    await session.refused("not_found", "doc.patch", { class: "Note", key: ["a"], set: { n: 1 } });
  }),
  check("life.no-end", {
    at: "built-in-operations",
    says: "`maxLife` is an integer of minutes since 1970 from 0 to 150,119,987,579, or `null`; any other value is `bad_value`.",
    hint: "A higher number makes sessions refuse the whole reply.",
  }, async (kit) => {
    const session = kit.session();
    for (const maxLife of [null, 150_119_987_579]) {
      await session.put("Note", { id: "a", maxLife });
      kit.equal((await session.pull("Note")).present, [shaS("a")], `present with maxLife ${maxLife}`);
    }
    await session.put("Note", { id: "a", maxLife: 0 });
    kit.equal((await session.pull("Note")).present, [], "present with maxLife 0");
    for (const maxLife of [-1, 1.5, "5", true, 150_119_987_580, [1]]) {
      await session.refused("bad_value", "doc.put", { class: "Note", data: { id: "b", maxLife } });
    }
  }),
];
