// Accounts of the finished package against the real server, in Node: devices, refusals, ends (R72 to R77).
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

import { IDBFactory } from "fake-indexeddb";

import { accounts, codeOf, cut, device, ended, folder, isOfAccount, newPlace, open, otherServer, realFetch, schema, sent, server, settled } from "./support.mjs";

test("an account opens on two devices, and offline on each that it was opened on", async () => {
  const place = newPlace();
  const made = await accounts.signUp({ ...place, passphrase: "one" });
  assert.match(made.account, /^[\w-]{22}$/);
  const [laptop, phone] = [device(), device()];
  let session = await laptop.open(place, { passphrase: "one", device: "laptop" });
  assert.equal(session.identity.account, made.account);
  await session.put("Note", { id: "1", text: "from the laptop" }).accepted;
  await session.close();

  assert.equal(await codeOf(phone.open(place, { passphrase: "one", mode: "avion" })), "no_store");
  assert.equal(await codeOf(phone.open(place, { passphrase: "wrong" })), "wrong_passphrase");
  session = await phone.open(place, { passphrase: "one", device: "phone" });
  const [note] = await session.collection("Note", {}).whenReady();
  assert.equal(note.text, "from the laptop");
  const devices = await accounts.devices(session);
  assert.deepEqual(devices.map(({ label, here }) => [label, here]), [["laptop", false], ["phone", true]]);
  await session.flush();
  await session.close();

  session = await phone.open(place, { passphrase: "one", mode: "avion" });
  assert.equal((await session.get("Note", ["1"])).text, "from the laptop");
  await session.close();
  assert.equal(await codeOf(phone.open(place, { passphrase: "wrong", mode: "avion" })), "wrong_passphrase");

  // Incognito keeps nothing, and is a device each time.
  session = await device().open(place, { passphrase: "one", mode: "incognito" });
  assert.equal((await session.collection("Note", {}).whenReady()).length, 1);
  await session.close();
  assert.deepEqual(await globalThis.indexedDB.databases(), []);
});

test("what others have, or nobody may have, is refused by name", async () => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "one" });
  assert.equal(await codeOf(accounts.signUp({ ...place, passphrase: "two" })), "login_taken");
  // The owner's repeat, whose first answer was lost, is no other account.
  const again = await accounts.signUp({ ...place, passphrase: "one", recoveryCode: true });
  assert.match(again.code, /^(\w{4}-){7}\w{4}$/);
  assert.equal(await codeOf(accounts.recover({ ...place, code: "nonsense", passphrase: "two" })), "wrong_passphrase");
  const other = `${again.code[0] === "0" ? "1" : "0"}${again.code.slice(1)}`;
  assert.equal(await codeOf(accounts.recover({ ...place, code: other, passphrase: "two" })), "wrong_passphrase");
  assert.equal(await codeOf(accounts.signUp({ ...place, account: "bob", passphrase: "" })), "bad_option");
  const session = await device().open(place, { passphrase: "one" });
  assert.equal(await codeOf(accounts.removeWrap(session, "passphrase", "wrong")), "wrong_passphrase");
  await session.close();
  const plain = await open({ org: "plain", schema, mode: "incognito", server: server.url, token: "none" });
  assert.equal(await codeOf(accounts.devices(plain)), "bad_option");
  await plain.close();
});

test("a login in another form is refused with its cure, and a typed one is mapped", async () => {
  const place = newPlace();
  const refusal = (promise) => promise.then(() => "ok", ({ code, cure }) => [code, cure.includes("accounts.loginOf")]);
  for (const account of ["Ada", "a da", "ad\u200ba"]) {
    assert.deepEqual(await refusal(accounts.signUp({ ...place, account, passphrase: "one" })), ["bad_login", true], JSON.stringify(account));
  }
  await accounts.signUp({ ...place, account: accounts.loginOf("AD\uff21"), passphrase: "one" });
  assert.deepEqual(await refusal(device().open({ ...place, account: "Ada" }, { passphrase: "one" })), ["bad_login", true]);
  assert.equal(await codeOf(device().open({ ...place, account: "ada" }, { passphrase: "wrong" })), "wrong_passphrase");
  await (await device().open({ ...place, account: "ada" }, { passphrase: "one" })).close();
});

test("a store of another account, or of none, is never replaced", async () => {
  const place = newPlace();
  const phone = device();
  globalThis.indexedDB = new IDBFactory();
  const databases = globalThis.indexedDB;
  const plain = await open({ ...place, schema, passphrase: "one", token: "none" });
  await plain.setMode("avion");
  plain.put("Note", { id: "mine" });
  await plain.flush();
  await plain.close();
  await accounts.signUp({ ...place, passphrase: "one" });
  assert.equal(await codeOf(open({ ...place, schema, passphrase: "one", accounts })), "account_mismatch");
  globalThis.indexedDB = databases;
  const still = await open({ ...place, schema, passphrase: "one", token: "none", mode: "avion" });
  assert.equal(still.pending().length, 1);
  await still.close();
  const fine = await phone.open(place, { passphrase: "one" });
  await fine.close();
});

test("a passphrase that was changed elsewhere pauses the session until it is unlocked", async () => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "old" });
  const [laptop, phone] = [device(), device()];
  const here = await laptop.open(place, { passphrase: "old" });
  await here.collection("Note", {}).whenReady();
  // In one process, two devices with the same store would take each other for tabs.
  const there = await phone.open(place, { passphrase: "old", mode: "incognito" });
  const told = new Promise((resolve) => {
    const stop = here.status.subscribe(({ error }) => {
      if (error?.code === "passphrase_changed") queueMicrotask(() => (stop(), resolve()));
    });
  });
  laptop.use();
  await there.changePassphrase("old", "new");
  await there.put("Note", { id: "1" }).accepted;
  const waiting = here.put("Note", { id: "2" });
  await told;
  assert.equal(await codeOf(here.unlock("wrong")), "wrong_passphrase");
  await here.unlock("new");
  await waiting.accepted;
  await here.close();
  await there.close();
  const again = await laptop.open(place, { passphrase: "new", mode: "avion" });
  await again.close();
});

test("a device that is revoked locks, keeps its data, and comes back as a new one", async () => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "one" });
  const [laptop, phone] = [device(), device()];
  // In one process, two devices with the same store would take each other for tabs.
  const here = await laptop.open(place, { passphrase: "one", device: "laptop", mode: "incognito" });
  const there = await phone.open(place, { passphrase: "one", device: "phone" });
  await there.collection("Note", {}).whenReady();
  const locked = ended(there);
  const [lost] = (await accounts.devices(here)).filter(({ label }) => label === "phone");
  await accounts.revoke(here, lost.id);
  there.put("Note", { id: "waits" });
  await there.flush();
  assert.deepEqual(await locked, ["revoked", "device_revoked"], "a session that ends knows the reason");
  const back = await phone.open(place, { passphrase: "one", device: "phone" });
  await settled(back);
  assert.deepEqual((await accounts.devices(here)).map(({ label }) => label).sort(), ["laptop", "phone"]);
  await accounts.revoke(here, "others");
  assert.deepEqual((await accounts.devices(here)).map(({ label }) => label), ["laptop"]);
  await here.close();
  await back.close();
});

test("a device signs in once: later openings, and requests at once, use its token", async () => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "one" });
  const phone = device();
  const line = cut(Infinity, "request");
  let session = await phone.open(place, { passphrase: "one" });
  await session.put("Note", { id: "1" }).accepted;
  await session.close();
  const first = line.count();
  session = await phone.open(place, { passphrase: "one" });
  await settled(session);
  await Promise.all([accounts.devices(session), accounts.wraps(session), accounts.devices(session)]);
  assert.equal(line.count() - first, 3, "no sign-in is among them");
  line.mend();
  await session.close();
});

test("a passphrase changed elsewhere leaves a known device the same in the list", async () => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "old" });
  const [laptop, phone] = [device(), device()];
  await (await laptop.open(place, { passphrase: "old", device: "laptop" })).close();
  let session = await phone.open(place, { passphrase: "old", device: "phone" });
  await session.changePassphrase("old", "new");
  await session.close();
  session = await laptop.open(place, { passphrase: "new" });
  assert.deepEqual((await accounts.devices(session)).map(({ label, here }) => [label, here]), [["phone", false], ["laptop", true]]);
  await session.close();
});

test("a session that opens with no network is offline, and goes on once there is one", async () => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "one" });
  const phone = device();
  let session = await phone.open(place, { passphrase: "one" });
  await session.collection("Note", {}).whenReady();
  await session.flush();
  await session.close();
  globalThis.fetch = () => Promise.reject(new TypeError("no network"));
  session = await phone.open(place, { passphrase: "one" });
  const written = session.put("Note", { id: "1" });
  await new Promise((resolve) => {
    const stop = session.status.subscribe(({ phase }) => phase === "offline" && queueMicrotask(() => (stop(), resolve())));
  });
  globalThis.fetch = realFetch;
  globalThis.dispatchEvent(new Event("online"));
  await written.accepted;
  await session.close();
});

test("a session that ends during a change of its passphrase leaves the device a way in", async () => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "old" });
  for (const method of ["close", "lock", "wipe"]) {
    const phone = device();
    let session = await phone.open(place, { passphrase: "old" });
    const change = session.changePassphrase("old", "new");
    const ended = session[method]();
    await change.catch(({ code }) => assert.equal(code, "bad_option"));
    await ended;
    const codes = [];
    for (const passphrase of ["old", "new"]) {
      codes.push(await codeOf(phone.open(place, { passphrase }).then((opened) => opened.close())));
    }
    // With the network up, a device takes the passphrase that it knows and the one that the server knows.
    assert.ok(codes.includes("ok"), `${method}: ${codes}`);
    assert.ok(codes.every((code) => code === "ok" || code === "wrong_passphrase"), `${method}: ${codes}`);
    session = await device().open(place, { passphrase: "new", mode: "incognito" }).catch(() => undefined);
    await session?.changePassphrase("new", "old");
    await session?.close();
  }
});

test("another account of the same login on the server leaves the device as it was", async (t) => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "one" });
  const phone = device();
  let session = await phone.open(place, { passphrase: "one" });
  await session.collection("Note", {}).whenReady();
  await session.setMode("avion");
  session.put("Note", { id: "waits" });
  await session.flush();
  await session.close();
  const elsewhere = { ...place, server: await otherServer(t) };
  await accounts.signUp({ ...elsewhere, passphrase: "two" });
  assert.equal(await codeOf(phone.open(elsewhere, { passphrase: "two" })), "account_mismatch");
  session = await phone.open(place, { passphrase: "one", mode: "avion" });
  assert.equal(session.pending().length, 1);
  await session.close();
});

test("a server that has lost an account gets it again from a session", async (t) => {
  const place = newPlace();
  const { account } = await accounts.signUp({ ...place, passphrase: "one" });
  const phone = device();
  const session = await phone.open(place, { passphrase: "one" });
  const elsewhere = { ...place, server: await otherServer(t) };
  assert.equal((await accounts.signUp({ ...elsewhere, passphrase: "one", from: session })).account, account);
  await session.close();
  // The server has lost the device, too: the device learns it, locks, and comes back as a new one.
  let again = await phone.open(elsewhere, { passphrase: "one" });
  const written = again.put("Note", { id: "1" });
  assert.equal(await codeOf(written.accepted), "closed");
  assert.equal(again.status.error.code, "device_revoked");
  again = await phone.open(elsewhere, { passphrase: "one" });
  await again.put("Note", { id: "2" }).accepted;
  await again.close();
});

test("a sign-up with the key of a session takes no other account, even one of the same passphrase", async (t) => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "one" });
  const phone = device();
  const session = await phone.open(place, { passphrase: "one" });
  const elsewhere = { ...place, server: await otherServer(t) };
  await accounts.signUp({ ...elsewhere, passphrase: "one" });
  assert.equal(await codeOf(accounts.signUp({ ...elsewhere, passphrase: "one", from: session })), "login_taken");
  await session.close();
});

test("a closed account opens offline alone", async () => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "one" });
  const laptop = device();
  const session = await laptop.open(place, { passphrase: "one" });
  await session.collection("Note", {}).whenReady();
  await session.put("Note", { id: "1" }).accepted;
  await session.flush();
  assert.equal(await codeOf(accounts.close(session, "wrong")), "wrong_passphrase");
  await accounts.close(session, "one");
  await session.close();
  assert.equal(await codeOf(device().open(place, { passphrase: "one" })), "account_closed");
  const offline = await laptop.open(place, { passphrase: "one", mode: "avion" });
  assert.equal((await offline.collection("Note", {}).whenReady()).length, 1);
  await offline.close();
});

test("once the account is closed, an opening in synced is refused before anything is shown", async () => {
  for (const isOwn of [true, false]) {
    const place = newPlace();
    await accounts.signUp({ ...place, passphrase: "one" });
    const [laptop, phone] = [device(), device()];
    let session = await laptop.open(place, { passphrase: "one" });
    await session.collection("Note", {}).whenReady();
    await session.put("Note", { id: "1" }).accepted;
    await session.flush();
    if (isOwn) {
      await accounts.close(session, "one");
      await session.close();
    } else {
      const locked = ended(session);
      const other = await phone.open(place, { passphrase: "one", mode: "incognito" });
      await accounts.close(other, "one");
      await other.close();
      laptop.use();
      // The next request tells the device.
      session.put("Note", { id: "2" });
      assert.deepEqual(await locked, ["barred", "account_closed"]);
    }
    assert.equal(await codeOf(laptop.open(place, { passphrase: "one" })), "account_closed");
    const line = cut(0, "request");
    session = await laptop.open(place, { passphrase: "one" });
    assert.ok(await session.get("Note", ["1"]), "with no network the data of the device is shown");
    await session.close();
    line.mend();
    session = await laptop.open(place, { passphrase: "one", mode: "avion" });
    assert.ok(await session.get("Note", ["1"]));
    await session.close();
  }
});

test("in avion no request of an account, of files or of quotas is sent: each is refused by its name", async () => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "one" });
  const laptop = device();
  let session = await laptop.open(place, { passphrase: "one" });
  await session.put("Note", { id: "1" }).accepted;
  await session.close();
  session = await laptop.open(place, { passphrase: "one", mode: "avion", files: () => import("escale/files") });
  const before = globalThis.fetch;
  let requests = 0;
  globalThis.fetch = (...request) => (requests++, before(...request));
  try {
    const files = await session.files();
    const calls = {
      devices: () => accounts.devices(session),
      wraps: () => accounts.wraps(session),
      revoke: () => accounts.revoke(session, "others"),
      removeWrap: () => accounts.removeWrap(session, "passphrase", "one"),
      addCode: () => accounts.addCode(session, "one"),
      close: () => accounts.close(session, "one"),
      changePassphrase: () => session.changePassphrase("one", "two"),
      unlock: () => session.unlock("one"),
      bytes: () => files.bytes({ sha: "A".repeat(43), size: 5, type: "text/plain" }),
    };
    for (const [name, call] of Object.entries(calls)) {
      await assert.rejects(call, ({ code, cure }) => (assert.equal(code, "offline", name), name === "bytes" || cure.includes("synced")), name);
    }
    await assert.rejects(session.quota(), { code: "not_loaded" });
    assert.equal(session.pending().length, 0);
    await session.wipe();
    assert.equal(requests, 0);
  } finally {
    globalThis.fetch = before;
    await session.close();
  }
});

test("the cures of a first opening without a network, and of secrets that are wrong, are true", async () => {
  const place = newPlace();
  const { code } = await accounts.signUp({ ...place, passphrase: "one", recoveryCode: true });
  const line = cut(0, "request");
  await assert.rejects(device().open(place, { passphrase: "one" }), ({ code, cure }) => code === "offline" && /Try again in `synced`/.test(cure));
  line.mend();
  const isTrue = (error) => error.code === "wrong_passphrase" && /Ask for it again; accounts.recover .* recovery code/.test(error.cure) && !error.cure.includes("wipe");
  await assert.rejects(device().open(place, { passphrase: "wrong" }), isTrue);
  await assert.rejects(accounts.recover({ ...place, code: "nonsense", passphrase: "two" }), isTrue);
  const other = code.replace(/[a-z2-9]/i, (first) => (first === "2" ? "3" : "2"));
  await assert.rejects(accounts.recover({ ...place, code: other, passphrase: "two" }), isTrue);
});

test("wiping a session leaves nothing of the account on the device, and signs it out", async () => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "one" });
  const session = await device().open(place, { passphrase: "one" });
  await session.collection("Note", {}).whenReady();
  await session.wipe();
  assert.deepEqual(await globalThis.indexedDB.databases(), []);
  const other = await device().open(place, { passphrase: "one" });
  assert.equal((await accounts.devices(other)).length, 1);
  await other.close();
});

test("parameters that the server lowers, and answers that it did not sign, are refused", async () => {
  const place = newPlace();
  await accounts.signUp({ ...place, passphrase: "one" });
  const altered = (change) => {
    globalThis.fetch = async (url, init) => {
      const response = await realFetch(url, init);
      if (!isOfAccount(url)) return response;
      const answer = await response.json();
      change(answer, JSON.parse(init.body).do);
      return new Response(JSON.stringify(answer), { status: response.status });
    };
  };
  const asked = [];
  const changes = [
    (answer, name) => (asked.push(name), name === "start" && (answer.rounds = 1_000)),
    (answer, name) => (asked.push(name), name === "start" && (answer.rounds = 100_000_000)),
    (answer, name) => (asked.push(name), name === "start" && (answer.kdf = "none")),
    (answer, name) => name === "sign-in" && (answer.signature = { $bytes: "A".repeat(43) }),
    (answer, name) => name === "sign-in" && (answer.wrapped = { $bytes: `${"A".repeat(79)}A` }),
    (answer, name) => name === "sign-in" && (answer.pub = { $bytes: "A".repeat(43) }),
    (answer, name) => name === "sign-in" && delete answer.token,
    (answer, name) => name === "sign-in" && (answer.token = "a token in clear"),
    (answer, name) => name === "sign-in" && (answer.token = { $bytes: "A".repeat(96) }),
    (answer, name) => name === "sign-in" && (answer.serverKey = { $bytes: "A".repeat(43) }),
    (answer, name) => name === "sign-in" && delete answer.serverKey,
  ];
  for (const change of changes) {
    altered(change);
    assert.equal(await codeOf(device().open(place, { passphrase: "one" })), "bad_reply");
  }
  globalThis.fetch = realFetch;
  assert.deepEqual(asked, ["start", "start", "start"], "nothing was sent to a server that lowers parameters");
});

test("neither the server's folder nor any request holds a passphrase or a key", async () => {
  const place = newPlace();
  const passphrase = "a passphrase that no server sees";
  globalThis.fetch = async (url, init) => {
    if (isOfAccount(url)) sent.push(String(init.body));
    return realFetch(url, init);
  };
  const keys = [];
  const imported = crypto.subtle.importKey.bind(crypto.subtle);
  crypto.subtle.importKey = (format, key, ...rest) => {
    if (format === "raw") keys.push(Buffer.from(key));
    return imported(format, key, ...rest);
  };
  await accounts.signUp({ ...place, passphrase, recoveryCode: true });
  const session = await device().open(place, { passphrase });
  await session.put("Note", { id: "1" }).accepted;
  await session.close();
  crypto.subtle.importKey = imported;
  globalThis.fetch = realFetch;
  const files = (await readdir(join(folder, "data"), { withFileTypes: true })).filter((file) => file.isFile());
  const stored = await Promise.all(files.map(({ name }) => readFile(join(folder, "data", name))));
  const all = [...stored, Buffer.from(sent.join("\n"))];
  const finds = (needle) => all.some((bytes) => bytes.includes(needle));
  assert.ok(finds(place.org), "the scan finds what is there");
  assert.ok(sent.length >= 3 && keys.length > 10);
  assert.equal(finds(passphrase), false);
  for (const key of new Set(keys.map((key) => key.toString("base64url")))) {
    // The value that checks a proof is a key of HMAC, and the server has it.
    const bytes = Buffer.from(key, "base64url");
    if (bytes.length === 32 && !isStored(bytes)) {
      assert.equal(finds(bytes) || finds(key) || finds(bytes.toString("hex")), false);
    }
  }
  function isStored(bytes) {
    const wraps = sent.map((text) => (text.startsWith("{") ? JSON.parse(text) : {})).flatMap(({ wraps = [] }) => wraps);
    return wraps.some(({ stored, server }) => [stored, server].some(({ $bytes }) => $bytes === bytes.toString("base64url")));
  }
});
