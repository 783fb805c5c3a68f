// A member is restricted by an administrator, over the finished package and the real server, in Node (R89).
import assert from "node:assert/strict";
import { test } from "node:test";

import { accounts, codeOf, device, ended, newPlace, server, settled } from "./support.mjs";

/** Resolves once the status meets the condition. */
const until = (session, isMet) =>
  new Promise((resolve) => {
    const stop = session.status.subscribe((status) => {
      if (isMet(status)) queueMicrotask(() => (stop(), resolve(status)));
    });
  });

/** Resolves once a document has come. */
const arrives = (session, className, wanted) =>
  new Promise((resolve) => {
    const stop = session.live(className, {}, (documents) => documents.some(({ id }) => id === wanted) && queueMicrotask(() => (stop(), resolve())));
  });

/** An administrator and a member of one org, each on a device of its own. */
async function office() {
  const place = newPlace();
  const invitation = await server.command("account", "--schema", server.schemaFile, "--org", place.org, "invite", "--role", "admin");
  const boss = { ...place, account: "boss" };
  await accounts.signUp({ ...boss, passphrase: "one", invitation });
  const { account } = await accounts.signUp({ ...place, passphrase: "two" });
  const [desk, phone] = [device(), device()];
  // Node 20 has no WebSocket: sessions pull, and every second.
  const here = await desk.open(boss, { passphrase: "one", pollEveryMs: 1_000 });
  const there = await phone.open(place, { passphrase: "two", pollEveryMs: 1_000 });
  await there.collection("Note", {}).whenReady();
  const set = (schedule) => here.run("account.set", { account, schedule }).accepted;
  const ends = async () => {
    await there.close();
    await here.close();
  };
  return { here, there, phone, place, account, set, ends };
}

test("a session knows its role before the first reply, with no network, and hears of each change", { timeout: 60_000 }, async () => {
  const { here, there, phone, place, account, ends } = await office();
  assert.deepEqual([here.identity.role, there.identity.role], ["admin", "write"]);
  await until(there, ({ role }) => role === "write");
  const heard = until(there, ({ role }) => role === "read");
  await here.run("account.set", { account, role: "read" }).accepted;
  assert.equal((await heard).role, "read");
  assert.equal(there.identity.role, "read", "the identity is the new one when the status calls back");
  await ends();
  // The device keeps the last role, sealed, and asks nobody.
  const offline = await phone.open(place, { passphrase: "two", mode: "avion" });
  assert.deepEqual([offline.identity.role, offline.status.role], ["read", null]);
  await offline.close();
});

test("r89 a write of a restricted account is parked, those of exempt classes run, and it goes again", { timeout: 60_000 }, async () => {
  const { here, there, set, ends } = await office();
  await there.put("Note", { id: "0", text: "before" }).accepted;
  await set([[0, 1]]);
  const restricted = await until(there, ({ restriction }) => restriction === 1);
  assert.equal(restricted.phase, "live");
  const blocked = there.put("Note", { id: "1", text: "blocked" });
  const help = there.put("Help", { id: "1", text: "let me in" });
  await help.accepted;
  await assert.rejects(blocked.accepted, { code: "blocked" });
  const [refused] = there.refused.value;
  assert.deepEqual([refused.error.code, refused.error.kind, refused.id], ["blocked", "unauthorized", blocked.id]);
  assert.match(refused.error.cure, /retryBlocked/);
  // Still restricted: it is refused again, and stays.
  const [again] = there.retryBlocked();
  await until(there, () => there.refused.value[0]?.id === again.id);
  // Nothing has left the device, and the server is still read.
  assert.equal((await there.get("Note", ["0"])).text, "before");
  await here.put("Note", { id: "2", text: "of the boss" }).accepted;
  await new Promise((resolve) => {
    const stop = there.live("Note", {}, (notes) => notes.some(({ id }) => id === "2") && queueMicrotask(() => (stop(), resolve())));
  });

  await set([]);
  await until(there, ({ restriction }) => restriction === 0);
  const [sent, ...others] = there.retryBlocked();
  assert.equal(others.length, 0);
  await sent.accepted;
  assert.equal(there.refused.value.length, 0);
  const [note] = (await here.collection("Note", {}).whenReady()).filter(({ id }) => id === "1");
  assert.equal(note.text, "blocked");
  await ends();
});

test("r89 at level 2 nothing arrives and nothing leaves, and all comes once the restriction ends", { timeout: 60_000 }, async () => {
  const { here, there, set, ends } = await office();
  await here.put("Note", { id: "0", text: "before" }).accepted;
  await arrives(there, "Note", "0");
  await there.collection("Help", {}).whenReady();
  await set([[0, 2]]);
  const { faults } = await until(there, (status) => status.restriction === 2 && Object.keys(status.faults).length > 0);
  assert.deepEqual(Object.entries(faults).map(([def, { code }]) => [def, code]), [["Note", "blocked"]]);
  await here.put("Note", { id: "1", text: "unread" }).accepted;
  const answered = here.put("Help", { id: "1", text: "ask me" });
  await answered.accepted;
  await new Promise((resolve) => {
    const stop = there.live("Help", {}, (docs) => docs.length > 0 && queueMicrotask(() => (stop(), resolve())));
  });
  assert.equal(await there.get("Note", ["1"]), undefined);
  assert.equal((await there.get("Note", ["0"])).text, "before");
  await set([]);
  await until(there, (status) => status.restriction === 0 && Object.keys(status.faults).length === 0);
  // The reply that tells the end makes all be pulled again.
  await arrives(there, "Note", "1");
  assert.equal((await there.get("Note", ["1"])).text, "unread");
  await ends();
});

test("r89 at level 3 the session locks and keeps its writes, and goes on once the restriction ends", { timeout: 60_000 }, async () => {
  const { here, there, phone, place, set, ends } = await office();
  const locked = ended(there);
  await set([[0, 3]]);
  assert.deepEqual(await locked, ["barred", "account_closed"]);
  assert.equal(await codeOf(device().open(place, { passphrase: "two" })), "account_closed");
  let away = await phone.open(place, { passphrase: "two", mode: "avion" });
  away.put("Note", { id: "1", text: "written meanwhile" });
  await away.flush();
  await away.close();
  await set([]);
  away = await phone.open(place, { passphrase: "two" });
  assert.ok(await settled(away));
  const notes = await here.collection("Note", {}).whenReady();
  assert.deepEqual(notes.map(({ text }) => text), ["written meanwhile"]);
  await away.close();
  await ends();
});

test("r88 a session reads a quota, and what it may not read is null", async () => {
  const { here, there, account, set, ends } = await office();
  await here.run("quota.set", { documents: 9 }).accepted;
  await there.put("Help", { id: "1", text: "counted" }).accepted;
  const { bytes, ...rest } = await there.quota();
  assert.deepEqual(rest, { documents: 1, documentsMax: 9 });
  assert.ok(bytes > 0);
  assert.equal((await there.quota("1")).documents, 1);
  await set([[0, 2]]);
  assert.equal(await there.quota("1"), null);
  assert.equal(there.refused.value.length, 0, `nothing is parked for ${account}`);
  await ends();
});

test("r89 an administrator finds members by their documents, and cannot be the last to go", async () => {
  const { here, there, account, set, ends } = await office();
  const members = await here.collection("EscaleAccount", {}).whenReady();
  assert.deepEqual(members.map(({ login, role }) => [login, role]).sort(), [["ada", "write"], ["boss", "admin"]]);
  assert.equal(members.find(({ login }) => login === "ada").id, account);
  await set([[0, 1]]);
  const [own] = await there.collection("EscaleAccount", { key: [account] }).whenReady();
  assert.deepEqual(own.schedule, [[0, 1]]);
  assert.equal(await codeOf(accounts.close(here, "one")), "last_admin");
  const gone = here.run("account.set", { account: here.identity.account, role: "read" });
  await new Promise((resolve) => {
    const stop = here.refused.subscribe((list) => list.length > 0 && queueMicrotask(() => (stop(), resolve())));
  });
  assert.deepEqual(here.refused.value.map(({ id, error }) => [id, error.code]), [[gone.id, "last_admin"]]);
  here.refused.value[0].discard();
  await accounts.close(here, "one", { force: true });
  await ends();
});
