// The database of files holds nothing in clear, and opens under its own keys alone (R27).
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";

import { bytesOf, Device, isEqual, MIB, recordsOf, until } from "./support.mjs";

test("no bytes, names, types, hashes or keys of files are in the database", async (t) => {
  const device = new Device(undefined);
  t.after(() => device.end());
  const tab = await device.open();
  const text = "the secret text of a file, which nobody may find";
  const bytes = bytesOf(MIB + 100, 3);
  bytes.set(Buffer.from(text), 50);
  bytes.set(Buffer.from(text), MIB + 10);
  const ref = await tab.files.add(bytes, { type: "image/secret", name: "secret name.png" });
  tab.files.keep({ class: "Note", match: { id: "secret match" } });
  await until(async () => (await recordsOf(device, "d")).length === 3);
  const records = [...(await recordsOf(device, "c")), ...(await recordsOf(device, "d"))];
  assert.equal(records.length, 5);
  const all = Buffer.concat(records.flatMap(([key, value]) => [Buffer.from(key), Buffer.from(value)]));
  const sha = Buffer.from(ref.sha, "base64url");
  const secrets = [text, "secret", "image/", ".png", "Note", ref.sha, sha, String(ref.size), device.keys.seal, device.keys.index, Buffer.from(bytes.subarray(500, 520))];
  for (const secret of secrets) assert.equal(all.indexOf(secret), -1, String(secret));
  // Bytes, never Blobs, and each chunk with its nonce and tag.
  for (const [key, value] of records) assert.deepEqual([typeof key, key.length, value.constructor.name], ["string", 22, "Uint8Array"]);
  const sizes = (await recordsOf(device, "c")).map(([, value]) => value.length);
  assert.deepEqual(sizes.sort((a, b) => a - b), [128, MIB + 28]);
});

test("r27: records in each other's place, or altered, do not open: the file is loaded again or lost, never wrong", async (t) => {
  const device = new Device(undefined);
  t.after(() => device.end());
  let tab = await device.open();
  const [one, other] = [await tab.files.add(bytesOf(10, 1)), await tab.files.add(bytesOf(10, 2))];
  device.end();
  const request = device.databases.open(device.name);
  await new Promise((resolve) => (request.onsuccess = resolve));
  const [[a, first], [b, second]] = await recordsOf(device, "c");
  const transaction = request.result.transaction("c", "readwrite");
  transaction.objectStore("c").put(second, a);
  transaction.objectStore("c").put(first, b);
  await new Promise((resolve) => (transaction.oncomplete = resolve));
  request.result.close();
  tab = await device.open();
  for (const ref of [one, other]) await assert.rejects(tab.files.bytes(ref), { code: "offline" });
  assert.equal(tab.files.state(one).here, 0);
});

test("the database of a store that was made again is emptied", async (t) => {
  const device = new Device(undefined);
  t.after(() => device.end());
  const before = await device.open();
  const ref = await before.files.add(bytesOf(10));
  before.files.keep(ref);
  await until(async () => (await recordsOf(device, "d")).length === 3);
  device.end();
  const same = await device.open();
  assert.ok(isEqual(await same.files.bytes(ref), bytesOf(10)));
  device.end();
  device.keys = { seal: randomBytes(32), index: randomBytes(32) };
  const { files } = await device.open();
  assert.deepEqual(files.keeps(), []);
  assert.equal(files.state(ref).phase, "none");
  assert.equal((await recordsOf(device, "c")).length, 0);
  assert.equal((await recordsOf(device, "d")).length, 1);
});

test("the raw keys are cleared, and those in use cannot be read back", async (t) => {
  const device = new Device(undefined);
  t.after(() => device.end());
  const given = { seal: new Uint8Array(randomBytes(32)), index: new Uint8Array(randomBytes(32)) };
  const imported = [];
  const { importKey } = crypto.subtle;
  t.after(() => delete crypto.subtle.importKey);
  Object.defineProperty(crypto.subtle, "importKey", {
    configurable: true,
    value: async (...args) => {
      const key = await importKey.apply(crypto.subtle, args);
      imported.push(key);
      return key;
    },
  });
  await device.open({ keys: () => given });
  assert.deepEqual(imported.map(({ extractable }) => extractable), [false, false]);
  for (const key of Object.values(given)) assert.ok(key.every((byte) => byte === 0));
});
