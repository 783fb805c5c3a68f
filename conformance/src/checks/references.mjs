// References: rows without data, which refer to an earlier part of the same reply. A server need not send any.
import { check } from "../check.mjs";
import { inBox, note, tagged } from "../names.mjs";

const at = "references";

/** Three documents of overlapping defs, and the defs. */
async function overlapping(session) {
  await session.put("Note", { id: "a", box: "in", tags: ["red", "blue"], text: "x".repeat(500) });
  await session.put("Note", { id: "b", box: "in", tags: ["red"], maxLife: 60_000_000 });
  await session.put("Note", { id: "c", box: "out" });
  await session.delete("Note", ["c"]);
  return ["Note", inBox("in"), tagged("red"), note("a")];
}

/** The rows of each part with their data; a text that names the first reference that leads nowhere. */
function resolve(parts) {
  const sent = new Map();
  const resolved = [];
  for (const { def, rows } of parts) {
    const [className] = def.split(/[/@]/);
    const name = ({ pk, v }) => `${className} ${pk} ${v}`;
    const whole = [];
    for (const row of rows) {
      const isReference = !row.deleted && row.data === undefined;
      if (isReference && !sent.has(name(row))) return `${def}: ${row.pk} refers to no earlier row`;
      whole.push(isReference ? { ...row, data: sent.get(name(row)) } : row);
    }
    for (const row of whole) if (!row.deleted) sent.set(name(row), row.data);
    resolved.push(whole);
  }
  return resolved;
}

export const references = [
  check("references.only-if-asked", {
    at,
    says: "If the request says `\"refs\": true`, a living row may omit its `data`.",
    hint: "Without `refs` in the request, every living row has `data`.",
    rule: "R90",
  }, async (kit) => {
    const session = kit.session();
    const defs = await overlapping(session);
    for (const refs of [undefined, false]) {
      const { reply } = await session.sync({ subs: defs.map((def) => [def, 0]), refs });
      const without = reply.parts.flatMap(({ rows }) => rows.filter(({ deleted, data }) => !deleted && data === undefined));
      kit.equal(without, [], `living rows without data if refs is ${refs}`);
    }
  }),
  check("references.lead-back", {
    at,
    says: "No reference leads to a deletion, into the same part, or into a later one.",
    hint: "Note the rows of a part once it is finished, and only those with data.",
    rule: "R90",
  }, async (kit) => {
    const session = kit.session();
    const defs = await overlapping(session);
    for (const order of [defs, [...defs].reverse(), ["Nope", ...defs, ...defs]]) {
      const subs = order.map((def) => [def, 0]);
      const plain = await session.sync({ subs });
      const { reply } = await session.sync({ subs, refs: true });
      const resolved = resolve(reply.parts);
      kit.expect(Array.isArray(resolved), `references that lead back: ${resolved}`);
      // A pull from 0 may leave a deletion out, and the second one comes later.
      const living = (parts) => parts.map((rows) => rows.filter(({ deleted }) => !deleted));
      kit.equal(living(resolved), living(plain.reply.parts.map(({ rows }) => rows)), "the living rows of all parts, with the data that they refer to");
    }
  }),
  check("references.pages", {
    at,
    says: "No reference leads into another reply, so a reply that is lost or repeated changes nothing, and a server remembers nothing.",
    hint: "Begin with no rows in each reply.",
    rule: "R90",
  }, async (kit) => {
    const session = kit.session();
    for (let i = 0; i < 6; i++) await session.put("Note", { id: `p${i}`, box: "in", text: "x".repeat(400) });
    let subs = [["Note", 0], [inBox("in"), 0]];
    const seen = new Map(subs.map(([def]) => [def, []]));
    for (let replies = 0; subs.length > 0; replies++) {
      kit.expect(replies < 40, "a load that ends");
      const { reply } = await session.sync({ subs, refs: true, page: 1_000 });
      const resolved = resolve(reply.parts);
      kit.expect(Array.isArray(resolved), `references within the reply: ${resolved}`);
      kit.expect(reply.parts.length > 0, "a part in each reply");
      reply.parts.forEach(({ def }, i) => seen.get(def).push(...resolved[i].map(({ data }) => data.id)));
      const open = new Map(reply.parts.map(({ def, next }) => [def, next]));
      subs = subs.filter(([def]) => !open.has(def) || open.get(def) !== undefined);
      subs = subs.map(([def, v, cursor]) => [def, v, ...(open.get(def) ?? cursor ? [open.get(def) ?? cursor] : [])]);
    }
    const all = Array.from({ length: 6 }, (_, i) => `p${i}`);
    for (const [def, ids] of seen) kit.equal([...new Set(ids)], all, `the documents of ${def}`);
  }),
];
