// Epochs, and orgs in which nothing was ever written.
import { check } from "../check.mjs";
import { fresh, inBox, shaS, uuid } from "../names.mjs";

const at = "an-org-in-which-nothing-was-ever-written";

export const orgs = [
  check("empty-org.pull", {
    at,
    says: "The server answers it like any other org: 200, the epoch, the results of the operations, parts without rows and with `present: []`.",
    hint: "No 404: a session can be the first one in an org.",
  }, async (kit) => {
    const session = kit.session();
    const probe = await session.sync({});
    const { reply } = await session.sync({ subs: [["Note", 0], [inBox("in"), 0], [`Note@${shaS("a")}`, 0], ["Nope", 0]] });
    for (const part of reply.parts.slice(0, 3)) kit.equal([part.rows ?? [], part.left ?? [], part.present], [[], [], []], `rows, left and present of ${part.def}`);
    kit.isFault(reply.parts[3].fault, "unknown_def");
    kit.equal(reply.epoch, probe.reply.epoch, "the epoch of a second request");
    kit.equal(reply.seq ?? 0, 0, "seq");
  }),
  check("empty-org.epoch-stays", {
    at: "the-epoch",
    says: "An epoch begins with the database.",
    hint: "The first write of an org must not change the epoch that sessions have heard.",
    rule: "R8",
  }, async (kit) => {
    const session = kit.session();
    const { reply } = await session.sync({});
    const first = await session.sync({ epoch: reply.epoch, ops: [session.make("doc.put", { class: "Note", data: { id: "a" } })] });
    kit.expect(first.reply.results[0].ok, "the first write, in the epoch that the probe had");
    kit.equal(first.reply.epoch, reply.epoch, "the epoch after the first write");
    kit.equal((await session.sync({})).reply.epoch, reply.epoch, "the epoch of a later reply");
  }),
  check("empty-org.refused-first-operation", {
    at,
    says: "All this also holds if operations were refused or not executed.",
    hint: "A refused operation has a result, is kept, and uses its number, also in an org without documents.",
  }, async (kit) => {
    const session = kit.session();
    const { op, exchange } = await session.refused("not_found", "doc.delete", { class: "Note", key: ["a"] });
    kit.equal(exchange.reply.seq, 1, "seq");
    const again = await session.sync({ ops: [op], subs: [["Note", 0]] });
    kit.isFault(again.reply.results[0].fault, "not_found");
    kit.equal(again.reply.parts[0].present, [], "present");
  }),
  check("empty-org.not-executed", {
    at,
    says: "All this also holds if operations were refused or not executed.",
    hint: "The reply with the fault carries the epoch and the parts.",
  }, async (kit) => {
    const session = kit.session();
    const op = { id: uuid(), seq: 5, name: "doc.put", args: { class: "Note", data: { id: "a" } }, at: 1 };
    const { reply } = await session.sync({ ops: [op], subs: [["Note", 0]] });
    kit.isFault(reply.results[0].fault, "order_gap");
    kit.equal([reply.seq ?? 0, reply.parts[0].present], [0, []], "seq and present");
    const foreign = await session.sync({ epoch: [1, "kit"], ops: [{ ...op, seq: 1 }], subs: [["Note", 0]] });
    kit.isFault(foreign.reply.results[0].fault, "contention");
    kit.equal(foreign.reply.parts[0].present, [], "present");
  }),
  check("empty-org.socket", {
    at,
    says: "The socket takes subscriptions for it, and hints at its first write.",
    hint: "Listen by the name of the org, whether it has data or not.",
  }, async (kit) => {
    const socket = kit.socket();
    const { reply } = await socket.subscribe(["Note"]);
    kit.equal(reply.live, ["Note"], "live", socket);
    const { v } = await kit.session().put("Note", { id: "a" });
    await socket.hint("Note", v);
  }),
  check("empty-org.names-leave-nothing", {
    at,
    says: "A request that executes nothing stores nothing about the org, so strangers can name as many orgs as they like.",
    hint: "Only a stored write or a stored result makes an org.",
  }, async (kit) => {
    if (kit.options.token !== undefined) return;
    const seen = new Set();
    for (let i = 0; i < 20; i++) {
      const { reply } = await kit.session({ org: fresh(`${kit.org}-`) }).sync({ subs: [["Note", 0]] });
      kit.equal(reply.parts[0].present, [], "present of an org that nobody wrote in");
      seen.add(JSON.stringify(reply.epoch));
    }
    kit.expect(seen.size >= 1, "an epoch");
  }),
];
