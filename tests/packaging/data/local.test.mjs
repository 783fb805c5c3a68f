// Local documents (R29) through the finished package: the core in wasm, a device, tabs and a server.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defineOperations, defineSchema } from "escale";
import { testing } from "escale/testing";

const schema = defineSchema({
  Note: { key: ["id"] },
  Draft: {
    key: ["id"],
    local: true,
    collections: { box: { key: ["box"], mutable: true } },
    indexes: { n: "integer" },
    properties: { text: "string" },
  },
});

async function worldOf(t, options = {}) {
  const world = await testing({ schema, ...options });
  t.after(() => world.close());
  return world;
}

const A = { id: "a", box: "in", n: 1, text: "x" };
const B = { id: "b", box: "out", n: 2, text: "y" };

for (const mode of ["synced", "avion"]) {
  test(`a draft survives openings in ${mode}, and live, query and get find it with no network`, async (t) => {
    const world = await worldOf(t);
    await (await world.open()).close();
    const first = await world.open({ mode });
    world.offline();
    const operation = first.put("Draft", A);
    assert.equal(await operation.saved, "device");
    assert.deepEqual(await operation.accepted, { v: 0 });
    await first.put("Draft", B).saved;
    await first.patch("Draft", ["b"], { n: 3 }).accepted;
    await first.close();
    const again = await world.open({ mode });
    const states = [];
    const stop = again.live("Draft", { box: "in" }, (docs, state) => states.push([docs, state.ready, state.whole]));
    const all = again.collection("Draft", {}, { keep: "forever" });
    await all.whenReady();
    assert.deepEqual(all.docs, [A, { ...B, n: 3 }]);
    assert.deepEqual(states.at(-1), [[A], true, true]);
    assert.deepEqual(await again.get("Draft", ["b"]), { ...B, n: 3 });
    assert.deepEqual(await again.query("Draft").orderBy("n", "desc").docs(), [{ ...B, n: 3 }, A]);
    assert.equal(again.meta(all.docs[0]).pending, false);
    assert.deepEqual([again.pending(), again.status.value.pending], [[], 0]);
    await again.delete("Draft", ["a"]).accepted;
    assert.deepEqual(states.at(-1), [[], true, true]);
    stop();
    await again.close();
  });
}

test("a batch turns a draft into a document, and the server has nothing of the draft", async (t) => {
  const world = await worldOf(t);
  const session = await world.open();
  const [drafts, notes] = ["Draft", "Note"].map((name) => session.collection(name, {}, { keep: "forever" }));
  await session.put("Draft", A).accepted;
  const operation = session.batch((tx) => {
    tx.delete("Draft", ["a"]);
    tx.put("Note", { id: "a" });
    tx.put("Draft", B);
  });
  assert.equal(await operation.saved, "device");
  assert.deepEqual(drafts.docs, [B]);
  assert.ok((await operation.accepted).v > 0);
  await world.settled();
  assert.deepEqual([world.docs("Note"), notes.docs], [[{ id: "a" }], [{ id: "a" }]]);
  assert.deepEqual(world.docs("Draft"), []);
  assert.throws(() => world.put("Draft", A), { code: "unknown_class" });
});

test("writes that a local document cannot have are named", async (t) => {
  const operations = defineOperations(schema, { publish: { optimistic: (tx) => tx.delete("Draft", ["a"]) } });
  const world = await worldOf(t, { operations });
  const session = await world.open();
  world.offline();
  assert.throws(() => session.patch("Draft", ["a"], { n: 2 }), { code: "not_found" });
  assert.throws(() => session.put("Draft", A, { ifVersion: 0 }), { code: "bad_option" });
  await session.put("Draft", A).saved;
  session.run("publish", {});
  assert.deepEqual(await session.get("Draft", ["a"]), A);
  assert.equal(session.status.value.error?.code, "bad_value");
});

test("in incognito a draft lives as long as the session", async (t) => {
  const world = await worldOf(t);
  const session = await world.open({ mode: "incognito" });
  const drafts = session.collection("Draft", {}, { keep: "forever" });
  assert.equal(await session.put("Draft", A).saved, "memory");
  assert.deepEqual(await session.get("Draft", ["a"]), A);
  assert.deepEqual(drafts.docs, [A]);
});

test("`status.drafts` counts local documents, and wipe deletes them only if it is asked to", async (t) => {
  const world = await worldOf(t);
  const session = await world.open();
  assert.equal(session.status.drafts, 0);
  await session.put("Draft", A).saved;
  await session.put("Draft", A).saved;
  await session.put("Draft", B).saved;
  assert.equal(session.status.drafts, 2);
  await session.delete("Draft", ["b"]).saved;
  assert.equal(session.status.drafts, 1);
  await assert.rejects(session.wipe(), { code: "not_saved", message: /operations: 0, drafts: 1/ });
  await session.close();
  const again = await world.open({ mode: "avion" });
  assert.equal(again.status.drafts, 1);
  await again.put("Note", { id: "a" }).saved;
  await assert.rejects(again.wipe(), { code: "not_saved", message: /operations: 1, drafts: 1/ });
  assert.deepEqual(await again.get("Draft", ["a"]), A);
  await again.wipe({ drafts: "delete" });
  assert.equal(again.status.reason, "wiped");
  const last = await world.open();
  assert.deepEqual([await last.get("Draft", ["a"]), last.status.drafts], [undefined, 0]);
  await last.wipe();
});

/** A session whose batch sent a draft, and was refused: the draft is gone, and the text waits for a decision. */
async function sentInVain(t, options) {
  const world = await worldOf(t, options);
  const session = await world.open();
  for (const name of ["Draft", "Note"]) session.collection(name, {}, { keep: "forever" });
  await session.put("Draft", A).accepted;
  await world.settled();
  if (!options?.conflicts) world.refuse({ code: "too_late", message: "the list is closed" });
  const send = () =>
    session.batch((tx) => {
      tx.delete("Draft", ["a"]);
      tx.put("Draft", B);
      tx.put("Note", { id: "a", text: "sent" });
    });
  return { world, session, send, drafts: () => session.collection("Draft", {}).docs };
}

test("a refused batch that is discarded gives its drafts back, also after another opening", async (t) => {
  for (const isLater of [false, true]) {
    const { world, session, send, drafts } = await sentInVain(t);
    send();
    await world.settled();
    assert.deepEqual([drafts(), session.refused.value.length], [[B], 1], "it stays as it is while the user thinks");
    let last = session;
    if (isLater) {
      await session.close();
      last = await world.open();
    }
    last.refused.value[0].discard();
    await last.flush();
    await world.settled();
    assert.deepEqual(await Promise.all(["a", "b"].map((id) => last.get("Draft", [id]))), [A, undefined]);
    assert.deepEqual([last.status.drafts, world.docs("Note")], [1, []]);
    await last.close();
    const again = await world.open({ mode: "avion" });
    assert.deepEqual(await Promise.all(["a", "b"].map((id) => again.get("Draft", [id]))), [A, undefined]);
  }
});

test("a refused batch that is tried again leaves its drafts as they are, and gives them back after a second refusal", async (t) => {
  const { world, session, send, drafts } = await sentInVain(t);
  send();
  await world.settled();
  world.refuse({ code: "too_late", message: "the list is still closed" });
  session.refused.value[0].retry();
  await world.settled();
  assert.deepEqual([drafts(), session.refused.value.length], [[B], 1]);
  session.refused.value[0].discard();
  await world.settled();
  assert.deepEqual(drafts(), [A]);
});

test("a draft that was written since keeps that, if a refused batch is discarded", async (t) => {
  const { world, session, send, drafts } = await sentInVain(t);
  send();
  await world.settled();
  await session.put("Draft", { ...A, text: "begun again" }).saved;
  session.refused.value[0].discard();
  await world.settled();
  assert.deepEqual(drafts(), [{ ...A, text: "begun again" }], "the other draft of the batch is as before it: it did not exist");
});

test("a batch that a policy discards gives its drafts back", async (t) => {
  const { world, session, send, drafts } = await sentInVain(t, { conflicts: { Note: "server" } });
  world.conflict((other) => other.put("Note", { id: "a", text: "theirs" }));
  await assert.rejects(send().accepted, { code: "version_conflict" });
  await world.settled();
  assert.deepEqual([drafts(), session.refused.value], [[A], []]);
  assert.equal(world.docs("Note")[0].text, "theirs");
});
