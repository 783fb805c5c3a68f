// Names: orgs, pks, defs, versions.
import { Skip, check } from "../check.mjs";
import { fresh, shaS } from "../names.mjs";

const at = "names";

export const names = [
  check("names.orgs-apart", {
    at,
    says: "Everything belongs to one org, and nothing crosses from one to another.",
    hint: "Each table has the org in its key, those of sessions and operations included.",
  }, async (kit) => {
    const session = kit.session();
    const { op, v } = await session.put("Note", { id: "a", box: "in" });
    const { reply } = await session.sync({ subs: [["Note", 0], [`Note@${shaS("a")}`, 0], [`Note/box@${shaS("in")}`, 0]] }, { org: kit.otherOrg });
    for (const part of reply.parts) kit.equal(part.present, [], `present of ${part.def} in another org`);
    kit.equal(reply.seq ?? 0, 0, "seq of the session's name in another org");
    const again = await session.sync({ ops: [op] }, { org: kit.otherOrg });
    kit.expect(again.reply.results[0].ok?.v > 0 && again.reply.results[0].ok.v !== v, "the operation is executed in the other org, too");
  }),
  check("names.org-in-path", {
    at,
    says: "In the path it is percent-encoded, and the server decodes it.",
    hint: "A colon may come as %3A. Both paths are one org.",
  }, async (kit) => {
    const session = kit.session({ org: kit.org });
    await session.put("Note", { id: "a" });
    const encoded = [...kit.org].map((letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`).join("");
    const url = `${kit.options.url}/${encoded}/sync`;
    const { reply, status } = await kit.exchange({ url, message: { p: 1, session: "s", subs: [["Note", 0]] } });
    kit.expect(status === 200 && reply.parts[0].present.length === 1, "the org with the document");
  }),
  check("names.no-org", {
    at,
    says: "Any other name is 404 `unknown_org`.",
    hint: "Check the decoded name: 1 to 1,024 letters, digits and `- _ . :`.",
  }, async (kit) => {
    for (const name of ["a%20b", "a%2Fb", "%C3%A9", "a%00", "a%2B", "x".repeat(1025)]) {
      const url = `${kit.options.url}/${name}/sync`;
      const answer = await kit.exchange({ url, message: { p: 1, session: "s", subs: [] } });
      if (kit.options.token === undefined) kit.isRefused(answer, 404, "unknown_org");
      else kit.expect([403, 404].includes(answer.status), "status 404 or 403");
    }
  }),
  check("names.longest-org", {
    at,
    says: "1 to 1,024 letters, digits and `- _ . :`.",
    hint: "A database column or a router may be too short for it.",
  }, async (kit) => {
    if (kit.options.token !== undefined) throw new Skip("the token opens the orgs of the kit only");
    const org = `${fresh("Aa0-_.:")}${"z".repeat(1024)}`.slice(0, 1024);
    const session = kit.session({ org });
    await session.put("Note", { id: "a" });
    kit.equal((await session.pull("Note")).present, [shaS("a")], "present");
  }),
  check("names.key-of-several", {
    at,
    says: "A key of several properties is joined before it is hashed:",
    hint: "Join the values by `/` in the order of the schema's `key`, not of the document.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Page", { number: "7821", text: "x", book: "Nature" });
    const { rows } = await session.pull("Page");
    kit.equal(rows[0].pk, "x9cXGQjwXfWRuqojrXWaqg", "the pk of Nature/7821");
    const { present } = await session.pull("Page@x9cXGQjwXfWRuqojrXWaqg");
    kit.equal(present, ["x9cXGQjwXfWRuqojrXWaqg"], "present of the document's own def");
  }),
  check("names.collection-of-several", {
    at,
    says: "A collection's value of two properties is joined in the same way.",
    hint: "A document without one of the properties is no member.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a", country: "France", city: "Lyon" });
    await session.put("Note", { id: "b", country: "France" });
    const { present } = await session.pull(`Note/place@${shaS("France/Lyon")}`);
    kit.equal(present, [shaS("a")], "present");
  }),
  check("names.list-collection", {
    at,
    says: "the documents whose collection key holds that value (of a `list`: contains it)",
    hint: "One membership for each element, each element once.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a", tags: ["red", "blue", "red"] });
    await session.put("Note", { id: "b", tags: [] });
    await session.put("Note", { id: "c", tags: null });
    for (const tag of ["red", "blue"]) kit.equal((await session.pull(`Note/tags@${shaS(tag)}`)).present, [shaS("a")], `present of ${tag}`);
  }),
  check("names.def-invalid", {
    at,
    says: "Any other def is invalid.",
    hint: "An invalid def refuses the request: 400 `malformed`. A valid one that the schema lacks is a fault of its part.",
  }, async (kit) => {
    const session = kit.session();
    for (const def of ["", "9Note", "Note@", "Note/box", "Note/box@short", `Note/box@${"x".repeat(23)}`, "Note@a/b", `Note@${"x".repeat(1025)}`, "N".repeat(65), "Note Page"]) {
      kit.isRefused(await session.ask({ subs: [[def, 0]] }), 400, "malformed");
    }
    for (const sub of [["Note"], ["Note", -1], ["Note", 2 ** 53], ["Note", "0"], "Note", ["Note", 0, 5], [5, 0]]) {
      kit.isRefused(await session.ask({ subs: [sub] }), 400, "malformed");
    }
  }),
  check("names.one-version-of-a-write", {
    at,
    says: "Every document of one write has the same `v`.",
    hint: "Read the clock once for each write, and give this version to all its documents.",
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.batch(...["a", "b", "c"].map((id) => ["doc.put", { class: "Note", data: { id } }]));
    const { rows } = await session.pull("Note");
    kit.equal(rows.map((row) => row.v), [v, v, v], "the versions of the rows");
  }),
  check("names.org-documents", {
    at,
    says: "If the key of `Org` is one property, its pk is the value of that property: the org's code. A value that breaks the rule for names of orgs is `bad_key`.",
    hint: "A schema without the class Org needs none of this.",
  }, async (kit) => {
    const session = kit.session();
    await session.put("Org", { code: "acme:1" });
    kit.equal((await session.pull("Org")).present, ["acme:1"], "present");
    kit.equal((await session.pull("Org@acme:1")).rows[0]?.data.code, "acme:1", "the code");
    await session.refused("bad_key", "doc.put", { class: "Org", data: { code: "a b" } });
    await session.refused("bad_key", "doc.put", { class: "Org", data: { code: "" } });
  }),
  check("names.hdr", {
    at,
    says: "The singleton `Hdr` of the org `ROOT` has the pk `1`; a put of `Hdr` in another org is `bad_key`.",
    hint: "A schema without the class Hdr needs none of this.",
  }, async (kit) => {
    await kit.session().refused("bad_key", "doc.put", { class: "Hdr", data: { id: "kit" } });
    const root = kit.session({ org: "ROOT" });
    if ((await root.ask({})).status === 403) throw new Skip("the token does not open the org ROOT");
    await root.put("Hdr", { id: "kit", n: fresh() });
    kit.equal((await root.pull("Hdr")).present, ["1"], "present");
  }),
];
