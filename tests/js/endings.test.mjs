// The ends of a session: which calls end it, the reason that it gives, and the refusals afterwards. Also `wipe` without a
// session: its call of the core, and its refusals.
import assert from "node:assert/strict";
import { test } from "node:test";

import { EscaleError } from "../../js/dist/base/errors.js";
import { defineSchema } from "../../js/dist/schema/schema.js";
import { wipeWith } from "../../js/dist/session/wipe.js";
import { openFake, recorder, settled } from "./fake-core.mjs";

const schema = defineSchema({ Package: { key: ["name"] } });
/** The calls that end a session, each with its reason. */
const ENDINGS = { close: "closed", lock: "locked", wipe: "wiped" };
/** The reasons that come from elsewhere: another tab, the account, or the store. */
const REASONS = ["locked", "wiped", "revoked", "barred"];

for (const [how, reason] of Object.entries(ENDINGS)) {
  test(`${how} ends the session: no call, no callback, no document`, async () => {
    const { session, core } = await openFake(schema);
    const { callback, calls, seen } = recorder();
    session.live("Package", {}, callback);
    core.put("Package", { name: "a" });
    await calls(1);
    const collection = session.collection("Package", {});
    const ready = assert.rejects(session.collection("Package", { key: ["a"] }).whenReady(), { code: "closed" });
    core.put("Package", { name: "b" });
    assert.equal(session.status.reason, null, "it is open");
    await session[how]();
    await settled();
    assert.equal(core.called(reason), 1);
    const { phase } = session.status;
    assert.deepEqual([seen.length, collection.docs, phase, session.status.reason], [1, [], "closed", reason]);
    await ready;
    const over = { code: "closed", message: new RegExp(`the session is ${reason}`) };
    await assert.rejects(collection.whenReady(), over);
    assert.throws(() => session.live("Package", {}, callback), over);
    await assert.rejects(session.get("Package", ["a"]), over);
    await assert.rejects(session.setMode("avion"), over);
    await assert.rejects(session.inspect(), over);
    await assert.rejects(session.wipe(), over);
    await session.close();
    await session.lock();
    assert.equal(core.called(reason), 1);
    assert.equal(session.status.reason, reason, "the first end counts");
  });

  test(`${how} ends what waits: nothing more will be known of it`, async () => {
    const { session, core } = await openFake(schema);
    const operation = session.put("Package", { name: "a" });
    core.refuse(session.put("Package", { name: "b" }).id);
    const [entry] = session.refused.value;
    await session[how]({ drafts: "delete" });
    await assert.rejects(operation.saved, { code: "closed" });
    await assert.rejects(operation.accepted, { code: "closed" });
    assert.deepEqual(session.refused.value, []);
    for (const call of [
      () => session.put("Package", { name: "a" }),
      () => session.batch((tx) => tx.put("Package", { name: "a" })),
      () => session.pending(),
      () => session.lostByServer(),
      () => entry.retry(),
      () => entry.discard(),
    ]) {
      assert.throws(call, { code: "closed" });
    }
    await assert.rejects(session.history("Package", ["a"]), { code: "closed" });
    await assert.rejects(session.journal.sweep(), { code: "closed" });
  });
}

test("wipe deletes nothing while operations wait or are refused, or drafts exist, and says how many", async () => {
  const { session, core } = await openFake(schema);
  const refuses = (message) => assert.rejects(session.wipe(), { code: "not_saved", kind: "refused", message });
  const { id } = session.put("Package", { name: "a" });
  await refuses(/operations: 1, drafts: 0/);
  core.refuse(id);
  session.put("Package", { name: "b" });
  core.tell({ drafts: 3 });
  await refuses(/operations: 2, drafts: 3/);
  assert.deepEqual([session.status.phase, session.status.reason, session.status.drafts], ["live", null, 3], "the session goes on");
  session.refused.value[0].discard();
  for (const one of session.pending()) core.accept(one.id);
  await refuses(/operations: 0, drafts: 3/);
  assert.equal(core.called("wiped"), 0);
  for (const drafts of ["keep", true, undefined]) await assert.rejects(session.wipe({ drafts }), { code: "not_saved" });
  core.tell({ drafts: 0 });
  await session.wipe();
  assert.deepEqual([session.status.reason, core.called("wiped")], ["wiped", 1]);
});

test("`drafts: delete` wipes all the same, and a wipe that was refused does not keep the session from ending", async () => {
  const { session, core } = await openFake(schema);
  session.put("Package", { name: "a" });
  core.tell({ drafts: 1 });
  await assert.rejects(session.wipe(), (error) => error.code === "not_saved" && error.cure.includes("drafts: 'delete'"));
  await session.wipe({ drafts: "delete" });
  assert.deepEqual([session.status.phase, session.status.reason, core.called("wiped")], ["closed", "wiped", 1]);
});

test("what is saved while the session closes is told", async () => {
  const { session, core } = await openFake(schema);
  const operation = session.put("Package", { name: "a" });
  core.end = async () => core.save(operation.id);
  await session.close();
  assert.equal(await operation.saved, "device");
  await assert.rejects(operation.accepted, { code: "closed" });
});

for (const reason of REASONS) {
  test(`a core that closes by itself says that the session is ${reason}, and ends the callbacks`, async () => {
    const { session, core } = await openFake(schema);
    const { callback, calls, seen } = recorder();
    const statuses = recorder();
    session.live("Package", {}, callback);
    session.status.subscribe(statuses.callback);
    await calls(1);
    core.host.status(JSON.stringify(reason));
    core.put("Package", { name: "a" });
    await settled();
    assert.equal(seen.length, 1);
    const { phase, leads, updates } = session.status;
    assert.deepEqual([phase, session.status.reason, leads, updates], ["closed", reason, false, null]);
    assert.deepEqual(statuses.seen.map(([status]) => status.reason), [null, reason], "subscribers hear it once");
    assert.throws(() => session.subscriptions(), { code: "closed", message: new RegExp(`the session is ${reason}`) });
    await session.close();
    assert.deepEqual([session.status.reason, core.called("closed")], [reason, 0]);
  });
}

test("a core that closes by itself ends what waits", async () => {
  const { session, core } = await openFake(schema);
  const operation = session.put("Package", { name: "a" });
  core.host.status('"wiped"');
  core.save(operation.id);
  assert.equal(await operation.saved, "device");
  await assert.rejects(operation.accepted, { code: "closed" });
});

/** Wipes on a core that records the request, and answers by `answer`. */
async function wipeFake(options, answer = async () => {}) {
  const asked = [];
  const glue = { wipe: (...owner) => (asked.push(owner), answer()) };
  const given = await wipeWith({ take: async () => ({ glue, giveBack() {} }) }, options);
  return { asked, given };
}

test("the core is told whose store it is, and of no account as the empty one", async () => {
  assert.deepEqual(await wipeFake({ org: "demo", account: "me" }), { asked: [["demo", "me"]], given: undefined });
  assert.deepEqual((await wipeFake({ org: "demo" })).asked, [["demo", ""]]);
  assert.deepEqual((await wipeFake({ org: "demo", account: undefined })).asked, [["demo", ""]]);
});

const REFUSED = {
  "no object": [undefined, /object/],
  "no org": [{}, /org/],
  "an empty org": [{ org: "" }, /org/],
  "an account that is no string": [{ org: "demo", account: 1 }, /account/],
  "an option of open": [{ org: "demo", passphrase: "x" }, /passphrase/],
};
for (const [what, [options, message]] of Object.entries(REFUSED)) {
  test(`wipe refuses ${what}, and starts nothing`, async () => {
    const take = () => assert.fail("the wasm was started");
    await assert.rejects(wipeWith({ take }, options), { code: "bad_option", message });
  });
}

test("an error of the core keeps its name", async () => {
  const inUse = { code: "store_in_use", kind: "C", retryable: true, message: "store_in_use: x", cure: "Close it." };
  await assert.rejects(wipeFake({ org: "demo" }, () => Promise.reject(inUse)), (error) => {
    assert.ok(error instanceof EscaleError);
    assert.deepEqual([error.code, error.retryable, error.cure], ["store_in_use", true, "Close it."]);
    return true;
  });
});
