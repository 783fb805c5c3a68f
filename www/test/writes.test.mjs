// Goal: each write expects the version that its editor saw, is described in a visitor's words, and can be undone.
// Method: the page's writes on a session that only records its calls.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { loader } from "./load.mjs";

const load = await loader(after);
const { Writes, describe } = await load("/src/writes.ts");

const DOC = { name: "0ad", section: "games", summary: "A game" };

/** A session whose operations are answered by hand. */
function sessionOf(meta) {
  const calls = [];
  const answers = [];
  const issue = (...call) => {
    calls.push(call);
    const accepted = new Promise((accept, refuse) => answers.push({ accept, refuse }));
    return { id: `op${calls.length}`, saved: Promise.resolve("device"), accepted };
  };
  const session = {
    status: { phase: "live" },
    refused: { value: [] },
    meta: () => meta,
    patch: (...args) => issue("patch", ...args.slice(1)),
    delete: (...args) => issue("delete", ...args.slice(1)),
    put: (...args) => issue("put", ...args.slice(1)),
  };
  return { session, calls, answers, meta };
}

test("an edit sends what differs, on the version that its editor saw", () => {
  const { session, calls, meta } = sessionOf({ v: 5, pending: false });
  const writes = new Writes(session);
  const basis = writes.basis(DOC);
  Object.assign(meta, { v: 6 });
  assert.equal(writes.edit(basis, { summary: "A game", section: "games" }), false);
  assert.equal(writes.edit(basis, { summary: "Another", section: "games" }), true);
  assert.deepEqual(calls, [["patch", ["0ad"], { summary: "Another" }, { ifVersion: 5 }]]);
});

test("a write on a pending document expects what the one before it gives", () => {
  const { session, calls, meta } = sessionOf({ v: 5, pending: false });
  const writes = new Writes(session);
  writes.edit(writes.basis(DOC), { summary: "One" });
  Object.assign(meta, { pending: true });
  writes.remove(DOC);
  assert.equal(calls[1][2].ifVersion.id, "op1");
  const later = new Writes(session);
  later.remove(DOC);
  assert.deepEqual(calls[2][2], {}, "written at an earlier opening: nothing is known of it");
});

test("what left the lists by a write of this page can be brought back", () => {
  const { session, calls } = sessionOf({ v: 5, pending: false });
  const writes = new Writes(session);
  writes.edit(writes.basis(DOC), { section: "editors" });
  assert.equal(writes.takenAway("0ad").section, "editors");
  writes.remove(DOC);
  assert.deepEqual(writes.takenAway("0ad"), { doc: DOC, section: undefined });
  writes.restore(DOC);
  assert.equal(writes.takenAway("0ad"), undefined);
  const [name, doc, { ifVersion }] = calls.at(-1);
  assert.deepEqual([name, doc, ifVersion.id], ["put", DOC, "op2"], "on the version that the deletion gave");
});

test("a write that came to nothing took nothing away", async () => {
  const { session, answers } = sessionOf({ v: 5, pending: false });
  const writes = new Writes(session);
  writes.remove(DOC);
  const told = new Promise((resolve) => writes.onChange(() => writes.answered.length === 1 && resolve()));
  answers[0].refuse(new Error("discarded"));
  await told;
  assert.equal(writes.takenAway("0ad"), undefined);
});

test("an empty summary is none", () => {
  const { session, calls } = sessionOf({ v: 5, pending: false });
  const writes = new Writes(session);
  assert.equal(writes.edit(writes.basis(DOC), { summary: "", section: "games" }), false);
  assert.deepEqual(calls, []);
});

/** The first write of a session, refused: its entry calls the session back with other writes. */
async function refuse({ session, answers }, args) {
  const again = (next) => session.patch("Package", args.key, next.set, { ifVersion: next.ifVersion });
  const entry = { id: "op1", name: "doc.patch", args, theirs: { v: 8, doc: null }, amend: again, retry: () => again(args), discard() {} };
  session.refused.value = [entry];
  answers[0].refuse(new Error("refused"));
  await new Promise((resolve) => setImmediate(resolve));
  return entry;
}

const ARGS = { class: "Package", key: ["0ad"], set: { summary: "One" }, ifVersion: 5 };

test("a refused write has not ended: amended, it goes on the version of theirs, and is told in its new words", async () => {
  const made = sessionOf({ v: 5, pending: true });
  const writes = new Writes(made.session);
  writes.edit(writes.basis(DOC), { summary: "One" });
  const entry = await refuse(made, ARGS);
  assert.deepEqual(writes.answered, []);
  writes.amend(entry, { ...ARGS, set: { summary: "Two" } });
  assert.deepEqual(made.calls.at(-1), ["patch", ["0ad"], { summary: "Two" }, { ifVersion: 8 }]);
  writes.remove(DOC);
  assert.equal(made.calls.at(-1)[2].ifVersion.id, "op2", "the next write builds on the amended one");
  const told = new Promise((resolve) => writes.onChange(() => writes.answered.length === 1 && resolve()));
  made.answers[1].accept({ v: 9 });
  await told;
  assert.deepEqual(writes.answered.map(({ detail, v }) => [detail, v]), [['"Two"', 9]]);
});

test("a refused write is sent again as it is, or dropped, and came to nothing then", async () => {
  for (const [decision, answered] of [["retry", []], ["discard", [["op1", '"One"', undefined]]]]) {
    const made = sessionOf({ v: 5, pending: false });
    const writes = new Writes(made.session);
    writes.edit(writes.basis(DOC), { summary: "One" });
    writes[decision](await refuse(made, ARGS));
    assert.deepEqual(writes.answered.map(({ id, detail, v }) => [id, detail, v]), answered);
    assert.equal(made.calls.length, decision === "retry" ? 2 : 1);
  }
});

test("answers are listed, the newest first", async () => {
  const { session, answers } = sessionOf({ v: 5, pending: false });
  const writes = new Writes(session);
  writes.edit(writes.basis(DOC), { summary: "One" });
  writes.remove(DOC);
  const told = new Promise((resolve) => writes.onChange(() => writes.answered.length === 2 && resolve()));
  answers[0].accept({ v: 9 });
  answers[1].refuse(new Error("discarded"));
  await told;
  assert.deepEqual(writes.answered.map(({ id, verb, v }) => [id, verb, v]), [["op2", "Delete", undefined], ["op1", "Edit", 9]]);
});

test("writes are told in a visitor's words", () => {
  const told = (name, args) => Object.values(describe(name, args)).join(" | ");
  assert.equal(told("doc.patch", { key: ["0ad"], set: { summary: "x" } }), '0ad | Edit | "x"');
  assert.equal(told("doc.patch", { key: ["0ad"], set: { section: "editors" } }), "0ad | Move | to editors");
  assert.equal(told("doc.patch", { key: ["0ad"], set: { section: "e", summary: "x" } }), '0ad | Edit | to e, "x"');
  assert.equal(told("doc.delete", { key: ["0ad"] }), "0ad | Delete | ");
  assert.equal(told("doc.put", { data: { name: "0ad" } }), "0ad | Put back | the whole package");
});

test("notes are described in a visitor's words, and wait for no write of their package", () => {
  const { session, calls } = sessionOf({ v: 5, pending: false });
  const writes = new Writes(session);
  writes.edit(writes.basis(DOC), { summary: "Another" });
  writes.addNote("0ad", "A note");
  const { id, at, ...rest } = calls[1][1];
  assert.deepEqual([rest, calls[1].length], [{ package: "0ad", text: "A note" }, 2], "no version is expected");
  assert.ok(/^[0-9a-f]{32}$/.test(id) && at > 0);
  writes.removeNote({ package: "0ad", id, text: "A note", at });
  assert.deepEqual(calls[2], ["delete", ["0ad", id]]);
  assert.deepEqual(describe("doc.put", { class: "Note", data: { package: "0ad", text: "A note" } }), {
    package: "0ad",
    verb: "Add a note to",
    detail: '"A note"',
  });
  assert.equal(describe("doc.delete", { class: "Note", key: ["0ad", id] }).package, "0ad");
});
