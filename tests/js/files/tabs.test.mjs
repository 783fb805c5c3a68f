// Rules, states, and tabs: one tab transfers, and each knows (R26).
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { bytesOf, codeOf, Device, drain, filesServer, isEqual, MIB, recordsOf, stateOf, until } from "./support.mjs";

/** The list of the chunks of a file. */
function listOf(bytes) {
  const digests = [];
  for (let at = 0; at < bytes.length; at += MIB) digests.push(createHash("sha256").update(bytes.subarray(at, at + MIB)).digest());
  return new Uint8Array(Buffer.concat(digests));
}

/** The files of an adapter, whose server is a map. */
const filesOf = (objects) => ({
  have: async (shas) => ({ epoch: [1, "a"], there: shas.filter((sha) => objects.has(sha)) }),
  put: async (sha, bytes) => void objects.set(sha, bytes),
  get: async (sha) => {
    if (!objects.has(sha)) throw { code: "not_found", status: 404 };
    return objects.get(sha);
  },
});

/** The browser loses all chunks of a device. */
async function loseChunks({ databases, name }) {
  const request = databases.open(name);
  await new Promise((resolve) => (request.onsuccess = resolve));
  const transaction = request.result.transaction("c", "readwrite");
  transaction.objectStore("c").clear();
  await new Promise((resolve) => (transaction.oncomplete = resolve));
  request.result.close();
}

test("a rule keeps the present files of its documents, across openings, until it is released", async (t) => {
  const server = await filesServer(t);
  const author = new Device(server.url);
  const page = await author.open();
  const refs = [];
  for (const [n, size] of [900, 2 * MIB, 3 * MIB, 700].entries()) refs.push(await page.files.add(bytesOf(size, n + 1)));
  await page.word(...refs.map(({ sha }) => sha));
  const [photo, scan, large, next] = refs;
  const device = new Device(server.url);
  t.after(() => (author.end(), device.end()));
  let tab = await device.open();
  tab.has("Note", [{ id: "1", photo, scans: [scan, large], other: "text" }, { id: "2" }]);
  const rule = tab.files.keep({ class: "Note", match: {}, max: 2 * MIB });
  await until(() => [photo, scan].every((ref) => tab.files.state(ref).phase === "here"));
  assert.equal(tab.files.state(large).phase, "none");
  assert.deepEqual(tab.files.keeps().map(({ id }) => id), [rule.id]);
  await rule.saved;
  device.end();

  tab = await device.open();
  assert.deepEqual(tab.files.keeps().map(({ id }) => id), [rule.id]);
  tab.has("Note", [{ id: "1", photo: next, scans: [scan] }]);
  await until(() => tab.files.state(next).phase === "here");
  // The version before is a cache from now on.
  assert.deepEqual(await tab.files.usage(), { pending: 0, local: 0, kept: 2 * MIB + 700, cached: 900 });
  tab.files.keeps()[0].release();
  assert.deepEqual(tab.files.keeps(), []);
  await until(async () => (await recordsOf(device, "d")).length === 4);
  device.end();
  assert.deepEqual((await device.open()).files.keeps(), []);
});

test("a rule for one property, one for a class that is no more, and rules that are none", async (t) => {
  const device = new Device(undefined);
  t.after(() => device.end());
  const tab = await device.open({
    follow: () => {
      throw new Error("unknown_class");
    },
  });
  tab.files.keep({ class: "Gone", match: {} });
  for (const bad of [{}, { class: "Note" }, { sha: "x", size: 1 }]) assert.throws(() => tab.files.keep(bad), { code: "bad_option" });
  assert.equal(tab.files.keeps().length, 1);
});

test("an upload waits while the session does not lead, flies, or has no server, and says so", async (t) => {
  const server = await filesServer(t);
  const device = new Device(server.url);
  t.after(() => device.end());
  const tab = await device.open({ mode: "avion", phase: "avion" });
  const ref = await tab.files.add(bytesOf(2 * MIB, 3));
  const word = tab.word(ref.sha);
  assert.equal(tab.files.state(ref).phase, "waiting");
  const phases = [];
  tab.files.subscribe(ref, ({ phase, sent }) => phases.push(sent === undefined ? phase : `${phase} ${sent / MIB}`));
  tab.status.set({ leads: false, mode: "synced", phase: "live" });
  assert.equal(tab.settled.length, 0);
  tab.status.set({ leads: true });
  assert.equal((await word)[0].verdict, "there");
  assert.equal(phases[0], "waiting");
  assert.deepEqual(phases.filter((phase) => phase.startsWith("sending")), ["sending 0", "sending 1", "sending 2"]);
  assert.equal(phases.at(-1), "here");
});

test("a reading with no network fails at once as offline; the file is read again later", async (t) => {
  const server = await filesServer(t);
  const author = new Device(server.url);
  const page = await author.open();
  const ref = await page.files.add(bytesOf(10));
  await page.word(ref.sha);
  const device = new Device(server.url);
  t.after(() => (author.end(), device.end()));
  const tab = await device.open({ mode: "avion", phase: "avion" });
  assert.equal(await codeOf(tab.files.bytes(ref)), "offline");
  tab.files.keep(ref);
  assert.equal(tab.files.state(ref).phase, "waiting");
  tab.status.set({ mode: "synced", phase: "live" });
  await stateOf(tab.files, ref, ({ phase }) => phase === "here");
  tab.status.set({ mode: "avion", phase: "avion" });
  assert.ok(isEqual(await tab.files.bytes(ref), bytesOf(10)));
});

test("a file that another tab added is sent by the one that leads, and both show it", async (t) => {
  const server = await filesServer(t);
  const device = new Device(server.url);
  t.after(() => device.end());
  const [first, second] = [await device.open(), await device.open({ leads: false })];
  const ref = await second.files.add(bytesOf(5 * MIB, 3));
  const shown = [];
  second.files.subscribe(ref, ({ phase }) => shown.push(phase));
  assert.equal((await first.word(ref.sha))[0].verdict, "there");
  await until(() => shown.at(-1) === "here" && shown.length > 1);
  assert.ok(shown.includes("sending"), String(shown));
  assert.equal(first.files.state(ref).phase, "here");
  // A rule of a tab that does not lead is followed by the one that does; a late tab knows all.
  const third = await device.open({ leads: false });
  third.files.keep(ref);
  await until(() => first.files.keeps().length === 1 && second.files.keeps().length === 1);
  assert.equal(third.files.state(ref).phase, "here");
});

test("two tabs that read the same chunks load each of them once", async (t) => {
  const server = await filesServer(t);
  const author = new Device(server.url);
  const page = await author.open();
  const bytes = bytesOf(6 * MIB, 3);
  const ref = await page.files.add(bytes);
  await page.word(ref.sha);
  const device = new Device(server.url);
  t.after(() => (author.end(), device.end()));
  const tabs = [await device.open(), await device.open({ leads: false }), await device.open({ leads: false })];
  const real = globalThis.fetch;
  t.after(() => (globalThis.fetch = real));
  const urls = [];
  globalThis.fetch = (url, init) => (urls.push(url), real(url, init));
  const read = await Promise.all(tabs.map(({ files }) => files.bytes(ref)));
  for (const one of read) assert.ok(isEqual(one, bytes));
  // Six chunks, and the list.
  assert.equal(urls.length, 7);
  assert.equal(new Set(urls).size, 7);
});

test("the core asks again in the same epoch: the list is sent once more, as a list", async (t) => {
  const server = await filesServer(t);
  const device = new Device(server.url);
  t.after(() => device.end());
  const tab = await device.open();
  const bytes = bytesOf(2 * MIB, 3);
  // The server has the bytes of the list as a file of its own.
  const other = new Device(server.url);
  t.after(() => other.end());
  const page = await other.open();
  const list = await page.files.add(listOf(bytes));
  await page.word(list.sha);
  const ref = await tab.files.add(bytes);
  assert.equal(ref.sha, list.sha);
  assert.equal((await tab.word(ref.sha))[0].verdict, "there");
  const real = globalThis.fetch;
  t.after(() => (globalThis.fetch = real));
  const puts = [];
  globalThis.fetch = (url, init) => (init.method === "PUT" && puts.push(String(url).split("/").at(-1)), real(url, init));
  assert.equal((await tab.word(ref.sha))[0].verdict, "there");
  assert.equal(puts.at(-1), `${ref.sha}?list=${ref.size}`);
  assert.equal(puts.length, 3);
});

test("a file whose bytes are the list of another one takes nothing from it", async (t) => {
  const server = await filesServer(t);
  const device = new Device(server.url);
  t.after(() => device.end());
  const tab = await device.open();
  const bytes = bytesOf(2 * MIB, 3);
  const ref = await tab.files.add(bytes);
  const list = await tab.files.add(listOf(bytes));
  assert.deepEqual([list.sha, list.size], [ref.sha, 64]);
  assert.equal((await tab.word(ref.sha))[0].verdict, "there");
  assert.ok(isEqual(await tab.files.bytes(ref), bytes));
  assert.ok(isEqual(await tab.files.bytes(list), listOf(bytes)));
});

test("objects that the device lacks are absent, and lost chunks are lost unless the server has the file", async (t) => {
  const server = await filesServer(t);
  const device = new Device(server.url);
  t.after(() => device.end());
  const tab = await device.open();
  const [one, other] = [await tab.files.add(bytesOf(10, 1)), await tab.files.add(bytesOf(10, 2))];
  const absent = { sha: `${"A".repeat(42)}A`, size: 1 };
  assert.equal((await tab.word(absent.sha))[0].verdict, "absent");
  await tab.word(one.sha);
  await loseChunks(device);
  device.end();
  const next = await device.open();
  assert.equal((await next.word(one.sha))[0].verdict, "there");
  assert.equal((await next.word(other.sha))[0].verdict, "local_data_lost");
  assert.equal(next.files.state(other).error.code, "local_data_lost");
  assert.ok(isEqual(await next.files.bytes(one), bytesOf(10, 1)));
  assert.equal(await codeOf(next.files.bytes(other)), "file_missing");
});

test("a file of another user, which is here in part or damaged, is left to the server", async (t) => {
  const objects = new Map();
  const theirs = new Device({ files: filesOf(objects) });
  // With access rights, a server tells a user of their own uploads alone.
  const own = { ...filesOf(objects), have: async () => ({ epoch: [1, "a"], there: [] }) };
  const device = new Device({ files: own });
  t.after(() => (theirs.end(), device.end()));
  const author = await theirs.open();
  const ref = await author.files.add(bytesOf(2 * MIB + 5));
  assert.equal((await author.word(ref.sha))[0].verdict, "there");

  const tab = await device.open();
  await drain(tab.files.read(ref, { from: 0, to: 10 }));
  assert.equal(tab.files.state(ref).here, MIB);
  assert.equal((await tab.word(ref.sha))[0].verdict, "absent", "a part is here");
  assert.ok(isEqual(await tab.files.bytes(ref), bytesOf(2 * MIB + 5)));
  assert.equal(tab.files.state(ref).phase, "here");
  await loseChunks(device);
  assert.equal((await tab.word(ref.sha))[0].verdict, "absent", "the device lost it");
  assert.equal(tab.files.state(ref).phase, "none");
});

test("an adapter transfers files; one without files is not supported", async (t) => {
  const objects = new Map();
  const adapter = {
    sync: () => Promise.reject(new Error("not here")),
    files: filesOf(objects),
  };
  const [one, other, bare] = [new Device(adapter), new Device(adapter), new Device({ sync: adapter.sync })];
  t.after(() => (one.end(), other.end(), bare.end()));
  const page = await one.open();
  const bytes = bytesOf(MIB + 1, 3);
  const ref = await page.files.add(bytes);
  const { files } = await other.open();
  assert.equal(await codeOf(files.bytes(ref)), "file_missing");
  assert.deepEqual((await page.word(ref.sha))[0], { shas: [ref.sha], verdict: "there", epoch: [1, "a"] });
  assert.ok(isEqual(await files.bytes(ref), bytes));
  const without = await bare.open();
  const added = await without.files.add(bytes);
  assert.equal((await without.word(added.sha))[0].verdict, "not_supported");
});

test("after the end, calls fail as closed", async () => {
  const device = new Device(undefined);
  const { files, opened } = await device.open();
  const ref = await files.add(bytesOf(5));
  opened.end();
  opened.end();
  for (const call of [() => files.read(ref), () => files.keep(ref), () => files.discard(ref), () => files.subscribe(ref, () => {})]) {
    assert.throws(call, { code: "closed" });
  }
  assert.equal(await codeOf(files.add(bytesOf(5))), "closed");
  assert.equal(await codeOf(files.bytes(ref)), "closed");
});
