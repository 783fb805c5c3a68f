// `escale/testing` in Node: each sentence of docs/testing-your-app.md, with the finished package.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { mock, test } from "node:test";

import { defineOperations, defineSchema, EscaleError } from "escale";
import { refusal, testing } from "escale/testing";

const schema = defineSchema({
  Note: {
    key: ["id"],
    collections: { box: { key: ["box"], mutable: true }, tags: { key: ["tags"], list: true, mutable: true }, kind: { key: ["kind"] } },
    indexes: { n: "integer", code: { type: "hash", unique: true } },
    properties: { text: "string", raw: "bytes", maxLife: "number" },
  },
});
const A = { id: "a", text: "x", box: "in", n: 1 };
const B = { id: "b", text: "y", box: "in", n: 2 };

async function worldOf(t, options = {}) {
  const world = await testing({ schema, documents: { Note: [A] }, ...options });
  t.after(() => world.close());
  return world;
}

const texts = (collection) => collection.docs.map(({ id, text }) => `${id} ${text}`);

test("a write offline is shown and saved at once, and reaches the server when the network is back", async (t) => {
  const world = await worldOf(t);
  const session = await world.open();
  const notes = session.collection("Note", {}, { keep: "forever" });
  await world.settled();
  world.offline();
  assert.equal(await session.put("Note", B).saved, "device");
  assert.deepEqual(texts(notes), ["a x", "b y"]);
  assert.deepEqual(world.docs("Note"), [A]);
  world.online();
  await world.settled();
  assert.deepEqual(world.docs("Note"), [A, B]);
  assert.equal(session.status.value.phase, "live");
});

test("two users: a change of one reaches the other, and a patch by the test reaches both", async (t) => {
  const world = await worldOf(t);
  const sessions = [await world.open({ device: "phone" }), await world.open({ device: "desk" }), await world.open({ mode: "incognito" })];
  const lists = sessions.map((session) => session.collection("Note", { box: "in" }, { keep: "forever" }));
  await world.settled();
  sessions[0].patch("Note", ["a"], { text: "z" });
  await world.settled();
  assert.deepEqual(lists.map(texts), [["a z"], ["a z"], ["a z"]]);
  world.patch("Note", ["a"], { box: "out" });
  await world.settled();
  assert.deepEqual(lists.map(texts), [[], [], []]);
});

test("a device keeps its data across openings, in `avion` as well", async (t) => {
  const world = await worldOf(t);
  const first = await world.open();
  first.collection("Note", {}, { keep: "forever" });
  await world.settled();
  await first.close();
  const again = await world.open({ mode: "avion" });
  assert.deepEqual(await again.get("Note", ["a"]), A);
  assert.deepEqual(again.subscriptions(), ["Note"]);
});

test("a wipe deletes the data of the device, and a later session begins without it", async (t) => {
  const world = await worldOf(t);
  const first = await world.open();
  first.collection("Note", {}, { keep: "forever" });
  await world.settled();
  await first.wipe();
  await assert.rejects(world.open({ mode: "avion" }), { code: "no_store" });
  assert.deepEqual((await world.open()).subscriptions(), []);
});

test("a killed page loses what it had not saved, keeps what it had, and its request never arrives", async (t) => {
  const world = await worldOf(t);
  const session = await world.open();
  session.collection("Note", {}, { keep: "forever" });
  await world.settled();
  const resume = world.slow();
  await session.put("Note", B).saved;
  session.put("Note", { id: "lost", text: "", box: "in" });
  await world.kill(session);
  resume();
  const again = await world.open();
  const notes = again.collection("Note", {}, { keep: "forever" });
  await world.settled();
  assert.deepEqual(texts(notes), ["a x", "b y"]);
  assert.deepEqual(world.docs("Note"), [A, B]);
});

test("a lost answer: the operation runs once", async (t) => {
  const operations = defineOperations(schema, { "note.add": { optimistic: (tx, { id }) => tx.patch("Note", [id], { n: 100 }) } });
  let ran = 0;
  const server = {
    "note.add": (documents, { id }) => {
      ran += 1;
      const { n } = documents.get("Note", [id]);
      documents.patch("Note", [id], { n: n + 1 });
      return n + 1;
    },
  };
  const world = await worldOf(t, { operations, server });
  const session = await world.open();
  const notes = session.collection("Note", {}, { keep: "forever" });
  await world.settled();
  world.loseAnswer(session);
  const { value } = await session.run("note.add", { id: "a" }).accepted;
  await world.settled();
  assert.deepEqual([value, ran, notes.docs[0].n, world.docs("Note")[0].n], [2, 1, 2, 2]);
});

test("a refused operation waits for a decision, with the code and the message of the test", async (t) => {
  const server = { "note.buy": () => { throw refusal({ code: "credit_limit", message: "no credit" }); } };
  const world = await worldOf(t, { server });
  const session = await world.open();
  session.collection("Note", {}, { keep: "forever" });
  world.refuse({ code: "too_late", message: "the list is closed" });
  session.put("Note", B);
  session.run("note.buy", {});
  await world.settled();
  assert.deepEqual(session.refused.value.map(({ error }) => error.message), ["the list is closed", "no credit"]);
  const [put, buy] = session.refused.value;
  put.retry();
  buy.discard();
  await world.settled();
  assert.deepEqual(session.refused.value, []);
  assert.deepEqual(world.docs("Note"), [A, B]);
});

test("a conflict: another user's write comes in between, and the policy of the class resolves it", async (t) => {
  const conflicts = { Note: (base, mine, theirs) => ({ ...theirs, text: `${mine.text} and ${theirs.text}` }) };
  const world = await worldOf(t, { conflicts });
  const session = await world.open();
  const notes = session.collection("Note", {}, { keep: "forever" });
  await world.settled();
  world.conflict((other) => other.patch("Note", ["a"], { text: "theirs" }));
  session.patch("Note", ["a"], { text: "mine" });
  await world.settled();
  assert.deepEqual(texts(notes), ["a mine and theirs"]);
  assert.equal(world.docs("Note")[0].text, "mine and theirs");
});

test("by `ask` the application sees base, mine and theirs, and its answer replaces only the document that was shown", async (t) => {
  const world = await worldOf(t, { conflicts: { Note: "ask" } });
  const session = await world.open();
  session.collection("Note", {}, { keep: "forever" });
  await world.settled();
  world.conflict((other) => other.patch("Note", ["a"], { text: "theirs" }));
  session.put("Note", { ...A, text: "mine" });
  session.patch("Note", ["a"], { n: 2 });
  await world.settled();
  const asked = () => session.refused.value.map(({ base, mine, theirs }) => [base, mine, theirs.doc].map(({ text, n }) => `${text} ${n}`));
  assert.deepEqual(asked(), [["x 1", "mine 1", "theirs 1"]]);
  assert.deepEqual(session.pending().map(({ state }) => state), ["held"], "the later write waits");
  // Somebody else writes while the user thinks.
  world.patch("Note", ["a"], { text: "theirs again" });
  session.refused.value[0].retry();
  await world.settled();
  assert.deepEqual(asked(), [["theirs 1", "mine 1", "theirs again 1"]]);
  assert.equal(world.docs("Note")[0].text, "theirs again");
  session.refused.value[0].retry();
  await world.settled();
  assert.deepEqual(asked(), []);
  assert.deepEqual(world.docs("Note"), [{ ...A, text: "mine", n: 2 }], "the later write stands on it");
});

test("`advance` moves the server's clock: a document ends at its `maxLife`", async (t) => {
  const now = 1_700_000_000_000;
  const world = await worldOf(t, { now, documents: { Note: [{ ...A, maxLife: Math.ceil(now / 60_000) + 1 }] } });
  assert.equal(world.docs("Note").length, 1);
  world.advance(120_000);
  assert.deepEqual(world.docs("Note"), []);
  const session = await world.open();
  assert.deepEqual(await session.collection("Note", {}).whenReady(), []);
  assert.throws(() => world.advance(-1), { code: "bad_option" });
});

/** A world in the fake timers of Node. They are put back before the world ends: its end must not wait for them. */
async function fakeTimed(t, options = {}) {
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1_800_000_000_000 });
  t.after(() => mock.timers.reset());
  return await worldOf(t, { clock: (ms) => mock.timers.tick(ms), ...options });
}

test("with a clock, `settled` and `advance` move the waits of sessions, and nobody waits", async (t) => {
  let runs;
  const ran = new Promise((resolve) => (runs = resolve));
  const world = await fakeTimed(t, { server: { "note.run": () => runs() } });
  const session = await world.open();
  session.collection("Note", {}, { keep: "forever" });
  await world.settled();
  world.loseAnswer();
  const { accepted } = session.run("note.run", {});
  await ran;
  const before = Date.now();
  await world.settled();
  await accepted;
  assert.ok(Date.now() > before, "it has waited before it asked again");
  world.offline();
  session.put("Note", B);
  await world.advance(3_600_000);
  world.online();
  await world.settled();
  assert.equal(world.docs("Note").length, 2);
});

test("with a clock, the server's clock and `Date` move together, by the time that was asked for", async (t) => {
  const world = await fakeTimed(t);
  const [server, date, steady] = [world.now, Date.now(), performance.now()];
  await world.advance(12_345);
  assert.deepEqual([world.now - server, Date.now() - date, performance.now() - steady], [12_345, 12_345, 12_345]);
  const still = await worldOf(t, { clock: () => {} });
  const before = still.now;
  await still.advance(500);
  assert.equal(still.now - before, 500, "a clock that does not move `Date`");
});

test("with a clock, a held subscription ends at its time", async (t) => {
  const world = await fakeTimed(t);
  const session = await world.open();
  session.collection("Note", { box: "in" }, { keep: 60_000 }).subscribe(() => {})();
  await world.settled();
  await world.advance(59_000);
  assert.equal(session.subscriptions().length, 1);
  await world.advance(2_000);
  await world.settled();
  assert.deepEqual(session.subscriptions(), []);
});

test("a subscription that nobody held for its time ends at a later opening, once holders had a minute to come", async (t) => {
  const DAY = 86_400_000;
  const world = await fakeTimed(t);
  const boxes = (session) => session.subscriptions().length;
  const hold = (session, box) => session.collection("Note", { box }, { keep: 30 * DAY }).subscribe(() => {});
  /** Opens the device on that day, lets a minute pass, and closes it. */
  const visit = async (day, act = () => {}) => {
    mock.timers.setTime(1_800_000_000_000 + day * DAY);
    const session = await world.open();
    act(session);
    await world.settled();
    const before = boxes(session);
    await world.advance(61_000);
    await world.settled();
    const counts = [before, boxes(session)];
    await session.close();
    return counts;
  };
  await visit(0, (session) => {
    session.live("Note", { box: "listed" }, () => {}, { keep: "forever" });
    for (const box of ["gone", "back"]) hold(session, box);
  });
  assert.deepEqual(await visit(20, (session) => hold(session, "back")), [3, 3]);
  assert.deepEqual(await visit(29), [3, 3]);
  assert.deepEqual(await visit(32, (session) => hold(session, "back")), [3, 2], "held on day 0 for the last time");
  assert.deepEqual(await visit(64, (session) => session.live("Note", { box: "back" }, () => {}, { keep: "forever" })), [2, 2], "it is kept for ever from now on");
  assert.deepEqual(await visit(999), [2, 2]);
});

test("`settled` fails with `timeout`, and names the session that does not settle", async (t) => {
  const world = await worldOf(t);
  const session = await world.open({ device: "phone" });
  world.slow();
  session.put("Note", B);
  await assert.rejects(world.settled({ within: 1 }), (error) => error instanceof EscaleError && error.code === "timeout" && error.retryable && /phone still has 1 operations to send/.test(error.message));
});

test("bytes, pages of the server and a slow network change nothing", async (t) => {
  const raw = Uint8Array.of(1, 2, 255);
  const documents = Array.from({ length: 50 }, (_, n) => ({ id: `${n}`.padStart(2, "0"), text: "t", box: "in", raw }));
  const world = await worldOf(t, { documents: { Note: documents }, pageRows: 7 });
  const session = await world.open();
  const resume = world.slow(session);
  const notes = session.collection("Note", {}, { keep: "forever" });
  assert.deepEqual(notes.docs, []);
  resume();
  await world.settled();
  assert.deepEqual(notes.docs, documents);
  assert.deepEqual(world.docs("Note")[3].raw, raw);
});

test("the server checks what docs/protocol.md says", async (t) => {
  const world = await worldOf(t);
  const refused = [
    [() => world.put("Note", { ...B, n: 1.5 }), "bad_value"],
    [() => world.put("Note", { ...B, tags: "x" }), "bad_key"],
    [() => world.patch("Note", ["none"], { n: 1 }), "not_found"],
    [() => world.delete("Note", ["none"]), "not_found"],
    [() => world.patch("Note", ["a"], { id: "b" }), "key_mismatch"],
  ];
  world.delete("Note", ["a"]);
  world.put("Note", { ...A, code: "1", kind: "k" });
  refused.push([() => world.put("Note", { ...B, code: "1" }), "not_unique"], [() => world.patch("Note", ["a"], { kind: "l" }), "immutable_key"]);
  for (const [write, code] of refused) assert.throws(write, { code });
  assert.equal(world.docs("Note").length, 1, "a refused write leaves nothing");
});

test("a misuse is an error that names it", async (t) => {
  await assert.rejects(testing({}), /testing takes \{ schema \}/);
  await assert.rejects(testing({ schema, documents: { Nota: [] } }), /no class Nota/);
  await assert.rejects(testing({ schema, clock: 5 }), /clock: takes a function/);
  const world = await worldOf(t);
  const session = await world.open();
  await assert.rejects(world.open(), /device: device has an open session; close or kill it, or name another device/);
  await assert.rejects(world.open({ device: "b", org: "x" }), /org: the world gives it/);
  session.run("note.none", {});
  session.collection("Note", {}, { keep: "forever" });
  await world.settled();
  assert.match(session.refused.value[0].error.message, /no operation is called note\.none: give its server part/);
  await session.close();
  assert.throws(() => world.offline(session), /closed, or of another world/);
  await world.close();
  assert.throws(() => world.docs("Note") && world.put("Note", B), (error) => error instanceof EscaleError && error.code === "closed");
  await world.close();
});

test("nothing of a world is left behind", async () => {
  const { now } = performance;
  await (await testing({ schema, clock: () => {} })).close();
  assert.equal(performance.now, now);
  const names = ["IDBKeyRange", "addEventListener", "dispatchEvent", "navigator"];
  const before = names.map((name) => globalThis[name]);
  const worlds = [await testing({ schema }), await testing({ schema })];
  await worlds[0].open();
  await worlds[1].open();
  await worlds[0].close();
  assert.ok(globalThis.IDBKeyRange, "the other world still needs it");
  await worlds[1].close();
  assert.deepEqual(names.map((name) => globalThis[name]), before);
});

test("names are hashed as the vectors say", async (t) => {
  const { hashes } = JSON.parse(await readFile(new URL("../vectors/hash.json", import.meta.url), "utf8"));
  const world = await testing({ schema: defineSchema({ Doc: { key: ["id"] } }) });
  t.after(() => world.close());
  const session = await world.open({ mode: "incognito" });
  const found = hashes.map(({ s }) => s).filter((text) => typeof text === "string" && text !== "");
  // Lengths around those of one block and of two.
  const keys = [...new Set([...found, ...Array.from({ length: 80 }, (_, at) => "x".repeat(at + 50))])];
  for (const id of keys) world.put("Doc", { id });
  // The session compares each pk with its document, and reports one that does not fit.
  const docs = await session.collection("Doc", {}).whenReady();
  assert.equal(docs.length, keys.length);
  assert.equal(session.status.value.error, null);
});

test("items: a put needs the parent, a deletion of the parent ends them, and a composite shows both", async (t) => {
  const tree = defineSchema({
    Asso: { key: ["id"], properties: { name: "string" } },
    Adh: { in: "Asso", key: ["asso", "num"], properties: { name: "string" }, indexes: { isActive: "boolean" } },
  });
  const world = await testing({
    schema: tree,
    // Items may stand before their parents.
    documents: { Adh: [{ asso: "a", num: "1", name: "Ada", isActive: true }], Asso: [{ id: "a", name: "Chess" }] },
    pageRows: 2,
  });
  t.after(() => world.close());
  const session = await world.open();
  const chess = session.document("Asso", ["a"], { items: ["Adh"] });
  const { doc, items } = await chess.whenReady();
  assert.deepEqual([doc, items.Adh.map(({ name }) => name)], [{ id: "a", name: "Chess" }, ["Ada"]]);
  session.put("Adh", { asso: "a", num: "2", name: "Grace", isActive: false });
  await world.settled();
  assert.deepEqual(world.docs("Adh").map(({ num }) => num), ["1", "2"]);
  assert.throws(() => world.put("Adh", { asso: "b", num: "1", name: "Nobody", isActive: true }), { code: "not_found" });
  assert.throws(() => world.put("Asso", { id: "c", name: "Short", maxLife: 90_000_000 }), { code: "bad_value" });
  world.delete("Asso", ["a"]);
  await world.settled();
  assert.deepEqual([chess.now.doc, chess.now.items.Adh, world.docs("Adh")], [undefined, [], []]);
});

test("offline, a document that a list holds is shown with the items that are held, although it was never opened with them", async (t) => {
  const tree = defineSchema({
    Asso: { key: ["id"], properties: { name: "string" } },
    Adh: { in: "Asso", key: ["asso", "num"], properties: { name: "string" } },
  });
  const adh = (asso) => ({ asso, num: "1", name: "Ada" });
  const world = await testing({ schema: tree, documents: { Asso: [{ id: "a", name: "Chess" }, { id: "b", name: "Go" }], Adh: [adh("a"), adh("b")] } });
  t.after(() => world.close());
  const session = await world.open();
  const list = session.collection("Asso", {}, { keep: "forever" });
  session.collection("Adh", { asso: "a" }, { keep: "forever" });
  await world.settled();
  world.offline();
  const [chess, go] = ["a", "b"].map((id) => session.document("Asso", [id], { items: ["Adh"] }));
  const stops = [chess, go].map((one) => one.subscribe(() => {}));
  await world.settled();
  const shown = ({ now, ready }) => [now.doc?.name, now.items.Adh.map(({ name }) => name), ready];
  assert.deepEqual([chess, go].map(shown), [["Chess", ["Ada"], false], ["Go", [], false]]);
  session.patch("Asso", ["b"], { name: "Weiqi" });
  session.delete("Asso", ["a"]);
  await world.settled();
  assert.deepEqual([chess, go].map(shown), [[undefined, [], false], ["Weiqi", [], false]]);
  assert.equal(go.now.doc, list.docs[0], "the same object");
  world.online();
  await world.settled();
  assert.deepEqual([chess, go].map(shown), [[undefined, [], true], ["Weiqi", ["Ada"], true]]);
  stops.forEach((stop) => stop());
});

test("the clock sequence: a tree counts its own versions, and is followed by document", async (t) => {
  const ledgers = defineSchema({
    Ledger: { key: ["id"], clock: "sequence", properties: { name: "string" } },
    Entry: { in: "Ledger", key: ["ledger", "num"], properties: { name: "string" } },
  });
  const world = await testing({ schema: ledgers, documents: { Ledger: [{ id: "a", name: "Cash" }] }, conflicts: { Entry: "client" } });
  t.after(() => world.close());
  const session = await world.open();
  const ledger = session.document("Ledger", ["a"], { items: ["Entry"] });
  const empty = session.document("Ledger", ["b"], { items: ["Entry"] });
  await Promise.all([ledger.whenReady(), empty.whenReady()]);
  await session.put("Entry", { ledger: "a", num: "1", name: "Ink" }).accepted;
  await session.batch((tx) => {
    tx.patch("Ledger", ["a"], { name: "Till" });
    tx.patch("Entry", ["a", "1"], { name: "Paper" });
  }).accepted;
  await world.settled();
  const { doc, items } = ledger.now;
  assert.deepEqual([doc.name, items.Entry.map(({ name }) => name)], ["Till", ["Paper"]]);
  assert.deepEqual([session.meta(doc).v, session.meta(items.Entry[0]).v], [3, 3], "put, put, and one batch");
  world.put("Entry", { ledger: "a", num: "2", name: "Glue" });
  await world.settled();
  assert.deepEqual([ledger.now.items.Entry.map((entry) => session.meta(entry).v), empty.now.doc], [[3, 4], undefined]);
  for (const match of [{}, { key: ["a", "1"] }]) {
    assert.throws(() => session.collection("Entry", match).subscribe(() => {}), { code: "unknown_def" });
  }
  assert.throws(() => session.live("Ledger", {}, () => {}), { code: "unknown_def" });
});
