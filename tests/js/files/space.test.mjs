// Space on the device (R28): bytes with a reason survive any pressure, the rest is a cache, and a full device goes on later.
import assert from "node:assert/strict";
import { test } from "node:test";

import { IDBObjectStore } from "fake-indexeddb";

import { DatabaseStore } from "../../../js/dist/files/database.js";
import { bytesOf, catalogueOf, codeOf, Device, filesServer, isEqual, MIB, orphansOf, recordsOf, stateOf, until } from "./support.mjs";

const DAY = 24 * 3_600_000;

/** The quota of the origin, until the test ends. `used` counts the chunks of a device, too. */
function quota(t, estimate) {
  const storage = { estimate: async () => estimate() };
  Object.defineProperty(navigator, "storage", { value: storage, configurable: true });
  t.after(() => delete navigator.storage);
}

/** Moves the clock of `Date`. */
function later(t, ms) {
  const { now } = Date;
  Date.now = () => now() + ms;
  t.after(() => (Date.now = now));
}

/** Files on a server. */
async function sent(t, server, sizes) {
  const author = new Device(server.url);
  t.after(() => author.end());
  const page = await author.open();
  const refs = [];
  for (const [n, size] of sizes.entries()) refs.push(await page.files.add(bytesOf(size, n + 1)));
  await page.word(...refs.map(({ sha }) => sha));
  return refs;
}

test("a device that is full: a download waits as `full`, an added file stays, and both go on with room", async (t) => {
  let free = 1_000 * MIB;
  quota(t, () => ({ usage: 2_000 * MIB - free, quota: 2_000 * MIB }));
  const server = await filesServer(t);
  const [ref, small] = await sent(t, server, [20 * MIB, 1_000]);
  const device = new Device(server.url);
  t.after(() => device.end());
  const tab = await device.open();
  const added = await tab.files.add(bytesOf(3 * MIB, 9));
  // 5 % of the quota are 100 MiB: a grant of 16 MiB may be left from before.
  free = 100 * MIB;
  tab.files.keep(ref);
  const { here } = await stateOf(tab.files, ref, ({ phase }) => phase === "full");
  assert.ok(here <= 16 * MIB, `${here}`);
  assert.equal(await codeOf(tab.files.add(bytesOf(MIB, 10))), "storage_full");
  // It is read all the same, and not kept.
  assert.equal((await tab.files.bytes(small)).length, 1_000);
  assert.equal(tab.files.state(small).here, 0);
  assert.equal((await tab.word(added.sha))[0].verdict, "there");
  assert.ok(isEqual(await tab.files.bytes(added), bytesOf(3 * MIB, 9)));
  free = 1_000 * MIB;
  await stateOf(tab.files, ref, ({ phase }) => phase === "here");
  assert.ok(isEqual(await tab.files.bytes(ref), bytesOf(20 * MIB, 1)));
});

test("a write that the browser refuses for its quota happens once the cache is gone", async (t) => {
  const server = await filesServer(t);
  const [cached] = await sent(t, server, [4 * MIB]);
  const device = new Device(server.url);
  t.after(() => device.end());
  const tab = await device.open();
  await tab.files.bytes(cached);
  assert.equal((await tab.files.usage()).cached, 4 * MIB);
  // From here on the device takes chunks only while it holds fewer than four.
  let left = 0;
  const { put } = IDBObjectStore.prototype;
  t.after(() => (IDBObjectStore.prototype.put = put));
  IDBObjectStore.prototype.put = function (value, key) {
    if (this.name === "c" && left-- <= 0) throw new DOMException("planted", "QuotaExceededError");
    return put.call(this, value, key);
  };
  const { delete: remove } = IDBObjectStore.prototype;
  t.after(() => (IDBObjectStore.prototype.delete = remove));
  IDBObjectStore.prototype.delete = function (key) {
    if (this.name === "c") left += 1;
    return remove.call(this, key);
  };
  const ref = await tab.files.add(bytesOf(3 * MIB, 9));
  assert.equal((await tab.files.usage()).cached, 0);
  assert.equal(await codeOf(tab.files.add(bytesOf(4 * MIB, 8))), "storage_full");
  assert.ok(isEqual(await tab.files.bytes(ref), bytesOf(3 * MIB, 9)));
});

test("another tab that is full has the session that leads make room", async (t) => {
  const server = await filesServer(t);
  const [cached] = await sent(t, server, [4 * MIB]);
  const device = new Device(server.url);
  t.after(() => device.end());
  const [first, second] = [await device.open(), await device.open({ leads: false })];
  await second.files.bytes(cached);
  await until(() => first.files.state(cached).phase === "here");
  let isFull = true;
  const { put, delete: remove } = IDBObjectStore.prototype;
  t.after(() => Object.assign(IDBObjectStore.prototype, { put, delete: remove }));
  IDBObjectStore.prototype.put = function (value, key) {
    if (this.name === "c" && isFull) throw new DOMException("planted", "QuotaExceededError");
    return put.call(this, value, key);
  };
  IDBObjectStore.prototype.delete = function (key) {
    isFull = false;
    return remove.call(this, key);
  };
  const ref = await second.files.add(bytesOf(10, 3));
  assert.equal(second.files.state(ref).phase, "here");
  assert.equal(first.files.state(cached).here, 0);
});

test("r28: bytes with a reason survive any pressure; the least recently read go first", async (t) => {
  const server = await filesServer(t);
  const sizes = [30 * MIB, 30 * MIB, 10 * MIB, 5 * MIB, MIB];
  const [old, middle, recent, kept, referenced] = await sent(t, server, sizes);
  const device = new Device(server.url);
  t.after(() => device.end());
  const tab = await device.open();
  tab.referenced.push(referenced.sha);
  const rule = tab.files.keep(kept);
  for (const [n, ref] of [kept, referenced, middle, old, middle, recent].entries()) {
    later(t, n * 100_000);
    await tab.files.bytes(ref);
  }
  later(t, 0);
  const added = await tab.files.add(bytesOf(2 * MIB, 77));
  const usage = await tab.files.usage();
  assert.deepEqual(usage, { pending: 3 * MIB, local: 0, kept: 5 * MIB, cached: 70 * MIB });
  device.end();

  // The next session that leads makes the cache small enough.
  const next = await device.open({ referenced: () => [referenced.sha] });
  await until(() => next.files.state(old).here === 0);
  assert.deepEqual([middle, recent, kept, referenced, added].map((ref) => next.files.state(ref).phase), ["here", "here", "here", "here", "here"]);
  assert.deepEqual(await next.files.usage(), { pending: 3 * MIB, local: 0, kept: 5 * MIB, cached: 40 * MIB });
  // An added file has a day, or until it is discarded; a rule ends when it is released.
  next.files.discard(added);
  next.files.keeps().find(({ id }) => id === rule.id).release();
  await until(async () => (await next.files.usage()).cached === 47 * MIB);
  device.end();
  later(t, DAY + 1);
  const last = await device.open();
  assert.deepEqual(await last.files.usage(), { pending: 0, local: 0, kept: 0, cached: 48 * MIB });
  assert.equal(await orphansOf(device), 0);
});

test("many files are evicted in few transactions, and one that another tab adds again stays", async (t) => {
  // Files leave 100 MiB. Each look at the quota allows for one file more.
  let free = 100;
  quota(t, () => ({ usage: 1_900 * MIB - free, quota: 2_000 * MIB }));
  const device = new Device(undefined);
  t.after(() => device.end());
  const tab = await device.open();
  const refs = [];
  for (let n = 0; n < 150; n++) refs.push(await tab.files.add(bytesOf(100, n + 1)));
  for (const ref of refs) tab.files.discard(ref);
  await until(async () => (await tab.files.usage()).cached === 15_000);
  const again = refs[20];
  const other = await catalogueOf(device);
  await other.save(again.sha, (entry) => ({ ...entry, added: Date.now() }));
  other.end();
  free = 0;
  const { write } = DatabaseStore.prototype;
  let count = 0;
  t.mock.method(DatabaseStore.prototype, "write", function (change) {
    count += Number(change.remove?.length > 0);
    return write.call(this, change);
  });
  assert.equal(await codeOf(tab.files.add(bytesOf(100, 999))), "storage_full");
  assert.deepEqual(await tab.files.usage(), { pending: 100, local: 0, kept: 0, cached: 0 });
  // The hundred that the changed one is among, each of them by itself, and the other fifty.
  assert.ok(count <= 102, `${count} transactions`);
  assert.ok(isEqual(await tab.files.bytes(again), bytesOf(100, 21)));
  assert.equal(await orphansOf(device), 0);
});

test("a file that shares chunks with an evicted one keeps them", async (t) => {
  const device = new Device(undefined);
  t.after(() => device.end());
  const tab = await device.open();
  const bytes = bytesOf(70 * MIB, 4);
  const whole = await tab.files.add(bytes);
  const part = await tab.files.add(bytes.subarray(0, 3 * MIB));
  const chunks = (await recordsOf(device, "c")).length;
  assert.equal(chunks, 70);
  tab.files.discard(whole);
  await until(() => tab.files.state(whole).phase === "none" && tab.files.state(whole).here === 0);
  assert.ok(isEqual(await tab.files.bytes(part), bytes.subarray(0, 3 * MIB)));
  assert.equal((await recordsOf(device, "c")).length, 3);
});

test("incognito holds 256 MiB in memory, and nothing of it stays", async (t) => {
  const server = await filesServer(t);
  const device = new Device(server.url);
  t.after(() => device.end());
  const tab = await device.open({ incognito: true });
  const ref = await tab.files.add(bytesOf(2 * MIB, 3));
  assert.equal((await tab.word(ref.sha))[0].verdict, "there");
  assert.ok(isEqual(await tab.files.bytes(ref), bytesOf(2 * MIB, 3)));
  let left = 256;
  const block = bytesOf(MIB, 5);
  const large = new ReadableStream({
    pull(controller) {
      block[0] = left;
      block[1] = left >> 8;
      controller.enqueue(block.slice());
      if (--left === 0) controller.close();
    },
  });
  assert.equal(await codeOf(tab.files.add(large)), "storage_full");
  assert.ok(isEqual(await tab.files.bytes(ref), bytesOf(2 * MIB, 3)));
  device.end();
  assert.deepEqual(await device.databases.databases(), []);
});
