// Promises that show only if something happens to the server: a restart, a purge, a restored backup, a second instance.
import { check } from "../check.mjs";
import { fresh, inBox, note, shaS, uuid } from "../names.mjs";

const put = (id, more) => ["doc.put", { class: "Note", data: { id, ...more } }];

/** Writes until the answer has a later time than `v`: the writes before are then below a new horizon. */
async function pass(kit, session, ms) {
  const { reply } = await session.sync({});
  await kit.wait(ms);
  return reply.now;
}

export const hooks = [
  check("restart.keeps-everything", {
    at: "once",
    says: "Two things are kept for ever. One is a session's last `seq`. The other is each operation's id, with its `v` and whether it was refused.",
    hint: "They are in the database, not in the memory of a process.",
    rule: "R11",
    needs: ["restart"],
    isAlone: true,
  }, async (kit) => {
    const session = kit.session();
    const first = await session.put("Note", { id: "a", box: "in" });
    const refused = await session.refused("not_found", "doc.delete", { class: "Note", key: ["no"] });
    const before = await session.pull("Note");
    await kit.hooks.restart();
    const { reply } = await session.sync({ epoch: before.reply.epoch, ops: [first.op, refused.op], subs: [["Note", 0]] });
    kit.equal(reply.results.map(({ ok, fault }) => ok?.v ?? fault.code), [first.v, "not_found"], "the kept results");
    kit.equal([reply.seq, reply.epoch], [2, before.reply.epoch], "seq and the epoch");
    kit.expect(reply.now > before.reply.now - before.reply.delta, "a now that does not go back");
    const { v } = await session.put("Note", { id: "b" });
    kit.expect(v >= before.reply.now - 1000 - kit.options.skew, "a version not below the now before the restart");
  }),
  check("restart.cursors", {
    at: "pages",
    says: "Cursors do not expire, and survive a restart of the server.",
    hint: "The key that signs cursors is in the database.",
    needs: ["restart"],
    isAlone: true,
  }, async (kit) => {
    const session = kit.session();
    const data = new Uint8Array(200_000);
    for (let i = 0; i < 10; i++) await session.put("Note", { id: `${i}`, data });
    const first = await session.pull("Note");
    kit.expect(first.next !== undefined, "next after 1 MiB");
    await kit.hooks.restart();
    const { rows, present } = await session.pull("Note", 0, first.next);
    kit.equal([first.rows.length + rows.length, present.length], [10, 10], "the numbers of rows and of members");
  }),
  check("restart.closes-sockets", {
    at: "socket",
    says: "the server stops",
    hint: "Close with 1012: the session opens the socket again at once.",
    needs: ["restart"],
    isAlone: true,
  }, async (kit) => {
    const socket = kit.socket();
    await socket.subscribe(["Note"]);
    await kit.hooks.restart();
    const { code } = await socket.closes(5000);
    kit.equal(code, 1012, "the code of the close", socket);
    const again = kit.socket();
    await again.subscribe(["Note"]);
    const { v } = await kit.session().put("Note", { id: "a" });
    await again.hint("Note", v);
  }),
  check("horizon.present", {
    at: "the-horizon",
    says: "A pull from before the horizon ends with `present`: the pks of all living members, those in `rows` included.",
    hint: "Store the horizon in the transaction that removes a tombstone; a pull from below it ends with present.",
    rule: "R6",
    needs: ["purge"],
    isAlone: true,
  }, async (kit) => {
    const session = kit.session();
    const { v } = await session.put("Note", { id: "stays", box: "in" });
    await session.put("Note", { id: "goes", box: "in" });
    await session.put("Note", { id: "leaves", box: "in" });
    await session.delete("Note", ["goes"]);
    await session.patch("Note", ["leaves"], { box: "out" });
    await pass(kit, session, 20);
    await kit.hooks.purge();
    const living = { Note: ["stays", "leaves"], [inBox("in")]: ["stays"], [note("goes")]: [] };
    for (const [def, ids] of Object.entries(living)) {
      const load = await session.load(def, v);
      const gone = [...load.rows.filter(({ deleted }) => deleted).map(({ pk }) => pk), ...load.left.map(([pk]) => pk)];
      const lost = def === note("goes") ? ["goes"] : def === "Note" ? ["goes"] : ["goes", "leaves"];
      const isTold = lost.every((id) => gone.includes(shaS(id)));
      kit.expect(load.present !== undefined || isTold, `present of ${def} from before the horizon, or each removal`, load.exchange);
      if (load.present) kit.equal([...load.present].sort(), ids.map(shaS).sort(), `present of ${def}`, load.exchange);
    }
    const { reply } = await session.sync({});
    const late = await session.load("Note", reply.now + 1);
    kit.equal(late.rows, [], "rows from above the horizon", late.exchange);
    kit.isFault((await session.refused("not_found", "doc.delete", { class: "Note", key: ["goes"] })).fault, "not_found");
  }),
  check("epoch.renewed", {
    at: "the-epoch",
    says: "If a database is restored from a backup, each org gets a new epoch, which is always later than its last one.",
    hint: "Later by the number, then by the text.",
    rule: "R8",
    needs: ["renew"],
    isAlone: true,
  }, async (kit) => {
    const session = kit.session();
    const data = new Uint8Array(300_000);
    for (let i = 0; i < 6; i++) await session.put("Note", { id: `${i}`, data });
    const { op } = await session.put("Note", { id: "known" });
    const before = await session.pull("Note");
    const empty = (await kit.session({ org: kit.otherOrg }).sync({})).reply.epoch;
    await kit.hooks.renew();
    const { reply } = await session.sync({ epoch: before.reply.epoch, ops: [op, session.make(...put("late"))], subs: [["Note", 0, before.next]] });
    const isLater = ([ms, text], [msBefore, textBefore]) => ms > msBefore || (ms === msBefore && text > textBefore);
    kit.expect(isLater(reply.epoch, before.reply.epoch), `an epoch later than ${JSON.stringify(before.reply.epoch)}`);
    kit.isFault(reply.parts[0].fault, "bad_cursor");
    kit.expect(reply.results[0].ok, "the result of a known operation, in a foreign epoch");
    kit.isFault(reply.results[1]?.fault, "contention");
    const other = await kit.session({ org: kit.otherOrg }).sync({});
    kit.expect(isLater(other.reply.epoch, empty), "a later epoch of an org in which nothing was written");
  }),
  check("epoch.restored", {
    at: "once",
    says: "A database restored from a backup may know less than the session. Then the operation is `order_gap`, and the reply's `seq` says after which operation to begin again.",
    hint: "The restored database has an epoch of its own, later than the one that was lost.",
    rule: "R8",
    needs: ["backup", "restore"],
    isAlone: true,
  }, async (kit) => {
    const session = kit.session();
    const kept = await session.put("Note", { id: "kept" });
    await kit.hooks.backup();
    await session.put("Note", { id: "lost" });
    const before = await session.pull("Note");
    await kit.hooks.restore();
    const op = session.make(...put("late"));
    const foreign = await session.sync({ epoch: before.reply.epoch, ops: [op] });
    kit.isFault(foreign.reply.results[0].fault, "contention");
    const { reply } = await session.sync({ epoch: foreign.reply.epoch, ops: [op], subs: [["Note", 0]] });
    const [ms, text] = reply.epoch;
    const [msBefore, textBefore] = before.reply.epoch;
    kit.expect(ms > msBefore || (ms === msBefore && text > textBefore), `an epoch later than ${JSON.stringify(before.reply.epoch)}`);
    kit.isFault(reply.results[0].fault, "order_gap");
    kit.equal([reply.seq, reply.parts[0].rows.map(({ v }) => v)], [1, [kept.v]], "seq and the versions of the rows");
    const again = await session.sync({ ops: [{ ...op, seq: 2 }] });
    kit.expect(again.reply.results[0].ok, "the operation after the last one that the database knows");
  }),
  check("instances.one-database", {
    at: "socket",
    says: "It hints at every commit of any instance or process, within a second.",
    hint: "The instances tell each other of commits, or look at the database several times in a second.",
    needs: ["secondUrl"],
  }, async (kit) => {
    const [here, there] = [kit.session(), { base: kit.options.secondUrl }];
    const socket = kit.socket();
    await socket.subscribe(["Note"]);
    const op = here.make(...put("a"));
    const { reply, ended } = await here.sync({ ops: [op], subs: [["Note", 0]] }, there);
    const { v } = reply.results[0].ok;
    const { at: came } = await socket.hint("Note", v, { ms: 3000 });
    kit.expect(came - ended <= 1000 + kit.options.slack, `a hint within a second, not after ${came - ended} ms`, socket);
    const again = await here.sync({ ops: [op], epoch: reply.epoch, subs: [["Note", 0]] });
    kit.equal([again.reply.results[0].ok?.v, again.reply.parts[0].present.length], [v, 1], "the result and the document at the other instance");
  }),
  check("instances.once", {
    at: "once",
    says: "An operation has its effect once, however often it arrives.",
    hint: "The number and the id are looked up in the transaction of the effect, not before it.",
    rule: "R11",
    needs: ["secondUrl"],
  }, async (kit) => {
    const session = kit.session();
    let { v } = await session.put("Note", { id: "counter", n: 0 });
    for (let n = 1; n <= 8; n++) {
      const op = { id: uuid(), seq: n + 1, name: "doc.patch", args: { class: "Note", key: ["counter"], set: { n, text: fresh() }, ifVersion: v }, at: 1 };
      const bases = [undefined, kit.options.secondUrl, undefined, kit.options.secondUrl];
      const answers = await Promise.all(bases.map((base) => session.sync({ ops: [op] }, { base })));
      const found = answers.map(({ reply }) => reply.results[0]).filter(({ fault }) => fault?.code !== "contention");
      for (const result of found) kit.equal(result, found[0], "the result of a copy");
      kit.expect(found[0]?.ok, "an accepted operation");
      v = found[0].ok.v;
    }
    kit.equal((await session.pull(note("counter"))).rows[0].data.n, 8, "the counter");
  }),
];
