// Exactly once, and operations that are not executed: R11.
import { check } from "../check.mjs";
import { note, uuid } from "../names.mjs";

const at = "once";
const rule = "R11";
const put = (id, more) => ["doc.put", { class: "Note", data: { id, ...more } }];

/** An operation under a number of the caller's choice. */
const numbered = (seq, [name, args], more) => ({ id: uuid(), seq, name, args, at: 1, ...more });

export const once = [
  check("once.again", {
    at,
    says: "An operation has its effect once, however often it arrives.",
    hint: "Look the id up before anything is executed, and answer with the stored result.",
    rule,
  }, async (kit) => {
    const session = kit.session();
    const ops = [session.make(...put("a")), session.make("doc.delete", { class: "Note", key: ["no"] }), session.make("doc.delete", { class: "Note", key: ["a"] }), session.make(...put("a", { n: 2 }))];
    const first = await session.sync({ ops, subs: [["Note", 0]] });
    for (let i = 0; i < 3; i++) {
      const { reply } = await session.sync({ ops, subs: [["Note", 0]] });
      kit.equal(reply.results, first.reply.results, "the results of the repeated request");
      kit.equal(reply.parts[0].rows.map(({ pk, v }) => [pk, v]), first.reply.parts[0].rows.map(({ pk, v }) => [pk, v]), "the rows");
      kit.equal(reply.seq, 4, "seq");
    }
  }),
  check("once.lost-answer", {
    at,
    says: "The id, the `seq` and the result are committed in one transaction with the effect.",
    hint: "A session that lost an answer sends the same operation again.",
    rule,
  }, async (kit) => {
    const session = kit.session();
    let v = (await session.put("Note", { id: "counter", n: 0 })).v;
    for (let n = 1; n <= 10; n++) {
      const op = session.make("doc.patch", { class: "Note", key: ["counter"], set: { n }, ifVersion: v });
      await session.sync({ ops: [op] }, { dropsAnswer: true });
      const { reply } = await session.sync({ ops: [op] });
      kit.expect(reply.results[0].ok, `the result of increment ${n}, which was executed although its answer was lost`);
      v = reply.results[0].ok.v;
    }
    const { rows } = await session.pull(note("counter"));
    kit.equal([rows[0].data.n, rows[0].v], [10, v], "the counter and its version");
  }),
  check("once.parallel-copies", {
    at,
    says: "An operation has its effect once, however often it arrives.",
    hint: "Two copies of a request at one time: the second one waits, or gets contention, but never an effect of its own.",
    rule,
  }, async (kit) => {
    const session = kit.session();
    let { v } = await session.put("Note", { id: "counter", n: 0 });
    for (let n = 1; n <= 6; n++) {
      const op = session.make("doc.patch", { class: "Note", key: ["counter"], set: { n }, ifVersion: v });
      const answers = await Promise.all(Array.from({ length: 6 }, () => session.sync({ ops: [op] })));
      const found = answers.map(({ reply }) => reply.results[0]).filter(({ fault }) => fault?.code !== "contention");
      for (const result of found) kit.equal(result, found[0], "the result of a copy");
      kit.expect(found[0]?.ok, "an accepted operation, not a conflict with its own effect");
      v = found[0].ok.v;
    }
    kit.equal((await session.pull(note("counter"))).rows[0].data.n, 6, "the counter");
  }),
  check("once.lower-number", {
    at,
    says: "`session_reused`: the number belongs to another id",
    hint: "A new id under an old number is never executed; seq says where the session stands.",
    rule,
  }, async (kit) => {
    const session = kit.session();
    for (const id of ["a", "b", "c"]) await session.put("Note", { id });
    for (const seq of [1, 3]) {
      const { reply } = await session.sync({ ops: [numbered(seq, put("d")), numbered(4, put("e"))], subs: [["Note", 0]] });
      kit.isFault(reply.results[0].fault, "session_reused");
      kit.equal([reply.results.length, reply.seq, reply.parts[0].present.length], [1, 3, 3], "the number of results, seq and the number of documents");
    }
  }),
  check("once.gap", {
    at,
    says: "`order_gap`",
    hint: "A higher number than last + 1 is not executed, nor is anything after it.",
    rule,
  }, async (kit) => {
    const session = kit.session();
    await session.put("Note", { id: "a" });
    const { reply } = await session.sync({ ops: [numbered(3, put("b")), numbered(2, put("c"))], subs: [["Note", 0]] });
    kit.isFault(reply.results[0].fault, "order_gap");
    kit.equal([reply.results.length, reply.seq, reply.parts[0].present.length], [1, 1, 1], "the number of results, seq and the number of documents");
  }),
  check("once.known-under-any-number", {
    at,
    says: "its result; the number is used now (the session took a new name)",
    hint: "A known id is answered under any number; under last + 1 it uses it.",
    rule,
  }, async (kit) => {
    const session = kit.session();
    const first = await session.put("Note", { id: "a" });
    const { op } = await session.put("Note", { id: "b" });
    for (const seq of [1, 2, 9]) {
      const { reply } = await session.sync({ ops: [{ ...first.op, seq }] });
      kit.equal([reply.results[0].ok?.v, reply.seq], [first.v, 2], `the version and seq under the number ${seq}`);
    }
    const renamed = kit.session();
    const { reply } = await renamed.sync({ ops: [{ ...first.op, seq: 1 }, { ...op, seq: 2 }, numbered(3, put("c"))], subs: [["Note", 0]] });
    kit.equal([reply.results.map(({ ok }) => ok !== undefined), reply.seq], [[true, true, true], 3], "the results and seq of the new name");
    kit.equal([reply.results[0].ok.v, reply.parts[0].present.length], [first.v, 3], "the kept version, and the number of documents");
    const far = await kit.session().sync({ ops: [{ ...first.op, seq: 5 }] });
    kit.equal([far.reply.results[0].ok?.v, far.reply.seq ?? 0], [first.v, 0], "the version and seq under a number far ahead");
  }),
  check("once.another-name-of-operation", {
    at,
    says: "If an id is known under another operation name, the answer is `bad_value`, as long as the server keeps that name. The operation is not executed and uses no number, and the kept result is not in the reply.",
    hint: "Keep the name with the result.",
    rule,
  }, async (kit) => {
    const session = kit.session();
    const { op } = await session.put("Note", { id: "a" });
    const { reply } = await session.sync({ ops: [{ ...op, seq: 2, name: "doc.delete", args: { class: "Note", key: ["a"] } }, numbered(3, put("b"))], subs: [["Note", 0]] });
    kit.isFault(reply.results[0].fault, "bad_value");
    kit.equal([reply.results.length, reply.seq, reply.parts[0].present.length], [1, 1, 1], "the number of results, seq and the number of documents");
  }),
  check("once.account", {
    at,
    says: "A session's name belongs to the account that used it first. If another account uses the name, each of its operations is `session_reused`, and `seq` is 0.",
    hint: "Not forbidden: a stranger who takes a name first must not shut out its owner.",
    rule,
    needs: ["token", "tokenOther"],
  }, async (kit) => {
    const session = kit.session();
    const { op } = await session.put("Note", { id: "a" });
    const stranger = kit.session({ name: session.name, token: kit.options.tokenOther });
    const { reply } = await stranger.sync({ ops: [numbered(1, put("b"))], subs: [["Note", 0]] });
    kit.isFault(reply.results[0].fault, "session_reused");
    kit.equal([reply.seq ?? 0, reply.parts[0].present.length], [0, 1], "seq and the number of documents");
    const own = kit.session({ token: kit.options.tokenOther });
    const again = await own.sync({ ops: [{ ...op, seq: 1 }] });
    kit.expect(again.reply.results[0].ok, "an id of another account is an id like any other");
  }),
  check("once.forgotten", {
    at,
    says: "If the result of a known operation is gone, the answer is `forgotten` if it was accepted, and `internal` if it was refused.",
    hint: "The id, the version and whether it was refused are kept for ever.",
    rule,
    needs: ["forget"],
    isAlone: true,
  }, async (kit) => {
    const session = kit.session();
    const accepted = await session.put("Note", { id: "a" });
    const refused = await session.refused("not_found", "doc.delete", { class: "Note", key: ["no"] });
    await kit.hooks.forget();
    const { reply } = await session.sync({ ops: [accepted.op, refused.op], subs: [["Note", 0]] });
    kit.isFault(reply.results[0].fault, "forgotten");
    kit.isFault(reply.results[1].fault, "internal");
    kit.equal([reply.seq, reply.parts[0].rows.map(({ v }) => v)], [2, [accepted.v]], "seq and the versions");
    await session.patch("Note", ["a"], { n: 1 }, { ifVersion: { op: accepted.id } });
  }),
  check("once.foreign-epoch", {
    at: "the-epoch-of-a-request",
    says: "In another epoch, the results end with `contention` at the first operation that is not known. It answers `subs` all the same, from the database as it is now.",
    hint: "Compare the epoch within the transaction of each operation, before the id is looked up.",
    rule,
  }, async (kit) => {
    const session = kit.session();
    const { op, v } = await session.put("Note", { id: "a" });
    const next = numbered(2, put("b"));
    for (const epoch of [[1, "old"], [Date.now() + 1e9, "later"]]) {
      const { reply } = await session.sync({ epoch, ops: [op, next], subs: [["Note", 0]] });
      kit.equal(reply.results[0].ok?.v, v, "the version of the known operation");
      kit.isFault(reply.results[1]?.fault, "contention");
      kit.equal([reply.seq, reply.parts[0].present.length], [1, 1], "seq and the number of documents");
      const renamed = await kit.session().sync({ epoch, ops: [{ ...op, seq: 1 }] });
      kit.equal([renamed.reply.results[0].ok?.v, renamed.reply.seq ?? 0], [v, 0], "in a foreign epoch a known operation is answered, and its number is not used");
    }
    const { reply } = await session.sync({ epoch: (await session.sync({})).reply.epoch, ops: [next] });
    kit.expect(reply.results[0].ok, "the operation in the right epoch is executed");
  }),
  check("once.epoch-form", {
    at: "names",
    says: "`[milliseconds of its making, random text]`, one life of an org's data.",
    hint: "Anything else in `epoch` refuses the request.",
  }, async (kit) => {
    const session = kit.session();
    for (const epoch of [5, [], [1], ["1", "a"], [1, 2], [1, "a", 3], [-1, "a"], [1, "x".repeat(1025)]]) {
      kit.isRefused(await session.ask({ epoch }), 400, "malformed");
    }
  }),
];

export const unexecuted = [
  check("unexecuted.leaves-nothing", {
    at: "operations-that-are-not-executed",
    says: "An operation that is not executed leaves nothing and uses no number. The server does not execute the operations after it in the request either.",
    hint: "Stop at the first one, and do not go on with the next.",
    rule: "R12",
  }, async (kit) => {
    const session = kit.session();
    const held = numbered(2, put("b"), { after: uuid() });
    const { reply } = await session.sync({ ops: [numbered(1, put("a")), held, numbered(3, put("c"))], subs: [["Note", 0]] });
    kit.equal(reply.results.map(({ fault }) => fault?.code ?? "ok"), ["ok", "order_held"], "the results");
    kit.equal([reply.seq, reply.parts[0].present.length], [1, 1], "seq and the number of documents");
    const free = await session.sync({ ops: [numbered(2, put("d"))] });
    kit.expect(free.reply.results[0].ok, "the number is free for another operation");
  }),
  check("unexecuted.completed", {
    at: "operations-that-are-not-executed",
    says: "It looks for the id of each operation, from the one that was not executed to the last one.",
    hint: "A known operation always gets its answer, after any fault.",
    rule,
  }, async (kit) => {
    const session = kit.session();
    const a = await session.put("Note", { id: "a" });
    const b = await session.refused("not_found", "doc.delete", { class: "Note", key: ["no"] });
    const unknown = [numbered(9, put("x")), numbered(10, put("y"))];
    const { reply } = await session.sync({ ops: [unknown[0], a.op, unknown[1], b.op], subs: [["Note", 0]] });
    kit.equal(reply.results.map(({ id }) => id), [unknown[0].id, a.id, b.op.id], "the ids of the results: the fault, and each known operation");
    kit.isFault(reply.results[0].fault, "order_gap");
    kit.equal([reply.results[1].ok?.v, reply.results[2].fault?.code], [a.v, "not_found"], "the kept results");
    kit.equal(reply.parts[0].present.length, 1, "the number of documents");
  }),
  check("unexecuted.results-fit", {
    at: "operations-that-are-not-executed",
    says: "Results take 4 MiB at most as msgpack, so a server begins no operation if its result might not fit.",
    hint: "A version_conflict brings the whole document. End the results early: the session sends the rest again.",
    rule,
  }, async (kit) => {
    const session = kit.session({ form: "msgpack" });
    await session.put("Note", { id: "a", data: new Uint8Array(900_000) });
    let open = Array.from({ length: 12 }, () => session.make("doc.put", { class: "Note", data: { id: "a" }, ifVersion: 1 }));
    while (open.length) {
      const { reply, bytes } = await session.sync({ ops: open });
      kit.expect(bytes.length <= (4 << 20) + 1000, `results of 4 MiB at most, not a reply of ${bytes.length} bytes`);
      kit.expect(reply.results.length > 0, "at least one result");
      for (const { fault } of reply.results) kit.isFault(fault, "version_conflict");
      kit.equal(reply.seq, open[reply.results.length - 1].seq, "seq: that of the last result");
      open = open.slice(reply.results.length);
    }
  }),
  check("unexecuted.known-of-another-name", {
    at: "operations-that-are-not-executed",
    says: "a result may have no room in the reply, or a known id may have another name. The results then end before it, and the fault is left out.",
    hint: "The fault speaks for all operations without a result; here it would speak for a known one.",
    rule,
  }, async (kit) => {
    const session = kit.session();
    const { op } = await session.put("Note", { id: "a" });
    const { reply } = await kit.session().sync({ ops: [numbered(5, put("x")), { ...op, name: "doc.delete" }, numbered(6, put("y"))], subs: [["Note", 0]] });
    kit.equal(reply.results ?? [], [], "the results");
    kit.equal(reply.parts[0].present.length, 1, "the number of documents");
  }),
];
