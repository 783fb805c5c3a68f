// Limits, and requests that are refused whole.
import { check } from "../check.mjs";
import { Raw } from "../forms/values.mjs";
import { fresh, uuid } from "../names.mjs";

const at = "limits";
const nested = (depth) => {
  let value = [];
  for (let i = 1; i < depth; i++) value = [value];
  return value;
};
/** Lists in lists as bytes: thousands of levels would be too much for the kit's own writer. */
const deep = (depth) => new Raw({ msgpack: [...new Uint8Array(depth - 1).fill(0x91), 0x90], json: "[".repeat(depth) + "]".repeat(depth) });
const op = (seq, args = { class: "Note", data: { id: `${seq}` } }) => ({ id: uuid(), seq, name: "doc.put", args, at: 1 });

export const limits = [
  check("limits.body", {
    at,
    says: "a request's body",
    hint: "4 MiB: 413 `too_large`, before anything is executed.",
  }, async (kit) => {
    const session = kit.session({ form: "json" });
    const large = { ops: [op(1)], padding: "x".repeat(4 << 20) };
    kit.isRefused(await session.ask(large, { headersFirst: true }), 413, "too_large");
    const fits = { ops: [op(1)], padding: "x".repeat((4 << 20) - 1000) };
    kit.expect((await session.sync(fits)).reply.results[0].ok, "a body of just below 4 MiB is answered");
  }),
  check("limits.lists", {
    at,
    says: "subscriptions of a request, of a socket's message",
    hint: "Only a body or a list over its limit is 413; nothing of the request is executed.",
  }, async (kit) => {
    const session = kit.session();
    kit.isRefused(await session.ask({ ops: Array.from({ length: 501 }, (_, i) => op(i + 1)) }), 413, "too_large");
    kit.isRefused(await session.ask({ ops: [op(1)], subs: Array.from({ length: 1001 }, (_, i) => [`Note@${i}`, 0]) }), 413, "too_large");
    const { reply } = await session.sync({ subs: Array.from({ length: 1000 }, (_, i) => [`Note@${i}`, 0]) });
    kit.equal([reply.parts.length, reply.seq ?? 0], [1000, 0], "the number of parts, and seq after refused requests");
  }),
  check("limits.operations-of-a-request", {
    at,
    says: "operations of a request, parts of a batch",
    hint: "The server may end the results early; the session sends the rest again.",
  }, async (kit) => {
    const session = kit.session();
    let open = Array.from({ length: 500 }, (_, i) => op(i + 1, { class: "Page", data: { book: "b", number: `${i}` } }));
    for (let i = 0; i < 60 && open.length; i++) {
      const { reply } = await session.sync({ ops: open });
      const done = new Set(reply.results.filter(({ ok }) => ok).map(({ id }) => id));
      open = open.filter(({ id }) => !done.has(id));
    }
    kit.equal(open.length, 0, "the number of operations without a result");
    kit.equal((await session.pull("Page")).present.length, 500, "the number of documents");
  }),
  check("limits.names", {
    at,
    says: "a session's name, an id, a cursor, an operation's name",
    hint: "1,024 bytes, not characters.",
  }, async (kit) => {
    const longest = `${fresh()}${"\u00e9".repeat(600)}`;
    const name = (bytes) => Buffer.from(longest).subarray(0, bytes).toString("latin1").replace(/[^ -~]/g, "x");
    kit.expect((await kit.session({ name: name(1024) }).ask({})).status === 200, "status 200 for a name of 1,024 bytes");
    kit.isRefused(await kit.session({ name: name(1024) + "x" }).ask({}), 400, "malformed");
    kit.isRefused(await kit.session({ name: "\u00e9".repeat(513) }).ask({}), 400, "malformed");
    kit.isRefused(await kit.exchange({ message: { p: 1, session: "" } }), 400, "malformed");
  }),
  check("limits.depth", {
    at,
    says: "depth of an operation's arguments",
    hint: "32 levels, the outermost included; a document's value has 30 of them. A deeper request is 400 `too_deep`.",
  }, async (kit) => {
    const session = kit.session();
    const good = op(1, { class: "Note", data: { id: "deep", deep: nested(30) } });
    kit.expect((await session.sync({ ops: [good] })).reply.results[0].ok, "a value of 30 levels is accepted");
    kit.equal((await session.pull("Note")).rows[0].data.deep, nested(30), "the value");
    kit.isRefused(await session.ask({ ops: [op(2, { class: "Note", data: { id: "deep", deep: nested(31) } })] }), 400, "too_deep");
    const deepest = { class: "Note", key: ["deep"], set: { deeper: nested(30) } };
    kit.expect((await session.run("doc.patch", deepest, { seq: 2 })).result.ok, "a patch of 30 levels is accepted");
  }),
  check("limits.depth-of-a-message", {
    at,
    says: "depth of a message",
    hint: "A reader that calls itself for each level needs a bound of its own: 5,000 levels must not end the server.",
  }, async (kit) => {
    for (const form of ["json", "msgpack"]) {
      const session = kit.session({ form });
      for (const depth of [60, 5000]) {
        const skipped = await session.ask({ later: deep(depth) });
        kit.expect([200, 400].includes(skipped.status), `status 400, or 200 for a field that the server skips, not ${skipped.status}`);
        const used = await session.ask({ ops: [op(1, deep(depth))] });
        kit.expect(used.status === 400 && ["too_deep", "malformed"].includes(used.reply?.code), `status 400, not ${used.status}`);
      }
      kit.expect((await session.ask({})).status === 200, "an answer to the next request");
    }
  }),
  check("limits.versions", {
    at,
    says: "below 2^53",
    hint: "A version at or above 2^53 refuses the request.",
  }, async (kit) => {
    const session = kit.session();
    kit.expect((await session.ask({ subs: [["Note", 2 ** 53 - 1]] })).status === 200, "status 200 for the highest version");
    kit.isRefused(await session.ask({ subs: [["Note", 2 ** 53]] }), 400, "malformed");
    kit.isRefused(await session.ask({ subs: [["Note", -1]] }), 400, "malformed");
  }),
  check("limits.refused-executes-nothing", {
    at: "a-request-that-is-refused-whole",
    says: "A server answers 400, 401, 403, 404, 408, 413 and 429 before it executes anything.",
    hint: "Check everything first, also the last subscription.",
    rule: "R11",
  }, async (kit) => {
    const session = kit.session();
    const bad = [{ subs: [["Note/", 0]] }, { subs: [["Note", "x"]] }, { epoch: 5 }, { p: 2 }];
    for (const more of bad) {
      const answer = await session.ask({ ops: [op(1)], ...more });
      kit.expect(answer.status === 400, `status 400, not ${answer.status}`);
    }
    const { reply } = await session.sync({ subs: [["Note", 0]] });
    kit.equal([reply.seq ?? 0, reply.parts[0].present], [0, []], "seq and present");
  }),
  check("limits.probe-of-a-large-operation", {
    at: "faults",
    says: "So the session finds out: it sends the same id with empty arguments. If the operation was executed, the answer is its result. If not, the answer is `bad_value`, and the id is used.",
    hint: "The arguments of a known id are not compared.",
    rule: "R11",
  }, async (kit) => {
    const session = kit.session();
    const { op: known, v } = await session.put("Note", { id: "a" });
    const { reply } = await session.sync({ ops: [{ ...known, args: {} }] });
    kit.equal(reply.results[0].ok?.v, v, "the version of the known operation");
    const { op: used } = await session.refused("bad_value", "doc.put", {});
    const again = await session.sync({ ops: [{ ...used, args: { class: "Note", data: { id: "b" } } }], subs: [["Note", 0]] });
    kit.isFault(again.reply.results[0].fault, "bad_value");
    kit.equal(again.reply.parts[0].present.length, 1, "the number of documents");
  }),
];
