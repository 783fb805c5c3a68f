// Nothing of a session outlives it. No string or byte that the page can still reach holds a passphrase, a key or a
// document. No longer-lived object holds a part of a session.
import assert from "node:assert/strict";
import { createHash, pbkdf2Sync, randomBytes } from "node:crypto";
import { test } from "node:test";

import { count } from "../../../testkit/effort.mjs";
import { ARGS, openBrowser } from "../support/browser.mjs";
import { Heap } from "../support/heap.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const OPENINGS = count("OPENINGS", 200);
/** The bytes of one session, and more. The browser may let go of the last one after either measurement. */
const SESSION_BYTES = 80_000;
const schema = { Note: { key: ["id"], properties: { text: "string" } } };
const hex = (text) => Buffer.from(text).toString("hex");

/** A page with a server that has one document, whose text resembles no other. */
async function setUp(t) {
  const text = `document-${randomBytes(8).toString("hex")}`;
  const server = await makeServer(t, { schema });
  await server.import("demo", "Note", [{ id: "a", text }]);
  await server.start();
  // Snapshots cut strings, so a page with several documents in one text could hide some.
  const args = [...ARGS, "--js-flags=--heap-snapshot-string-limit=1000000"];
  const [site, browser] = [await startSite(t), await openBrowser(t, { args })];
  const page = await browser.page(site.url);
  return { server, page, text, heap: await Heap.of(page) };
}

/** Makes the page note the keys that are made from now on, except those of its rehearsal. */
async function noteKeys(page) {
  await Heap.noteArrays(page);
  await page.evaluate(async () => {
    // Keys are made of random bytes, and are 32 bytes long.
    window.made = [];
    const { getRandomValues } = Crypto.prototype;
    Crypto.prototype.getRandomValues = function (bytes) {
      const filled = getRandomValues.call(this, bytes);
      if (bytes.length === 32) window.made.push(Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("-"));
      return filled;
    };
    const { rehearsal } = await import("/pkg/rehearsal.js");
    await window.page.init(undefined, { rehearsal });
    window.made = [];
  });
}

/** Opens a session and uses it like an application, which keeps everything that it was given; returns the keys. */
const use = (page, options) =>
  page.evaluate(async ({ hasKey, ...options }) => {
    // The application must clear its own copy of the key.
    const key = hasKey ? crypto.getRandomValues(new Uint8Array(32)) : undefined;
    const session = await window.page.start("main", { ...options, key });
    key?.fill(0);
    const collection = session.collection("Note", {});
    const [{ text }] = await collection.whenReady();
    const operation = session.put("Note", { id: "mine", text: [...text].reverse().join("") });
    const errors = [];
    session.live("Note", {}, (documents) => {
      // An error, too, that was made while documents were at hand.
      session.get("None", documents.map(({ id }) => id)).catch((error) => errors.push(error));
    });
    await operation.saved;
    if (options.mode !== "avion") await operation.accepted;
    await session.get("Note", ["a"]);
    await session.query("Note").docs();
    await session.history("Note", ["mine"]);
    await session.inspect();
    Object.assign(window.page.sessions.main, { collection, operation, errors, refused: session.refused });
    return window.made.splice(0);
  }, options);

const passphrase = `passphrase-${randomBytes(8).toString("hex")}`;
/** X of the passphrase, as docs/security.md defines it for this org and no account. */
const salt = createHash("sha256").update("escale/1/demo/").digest();
const x = pbkdf2Sync(passphrase, salt, 600_000, 32, "sha256").toString("hex");
/** The options of a session, its end, and the number of keys made meanwhile: K with a store, X by an application. */
const CASES = {
  "a session opened by a passphrase, that is locked": [{ mode: "synced", passphrase }, "lock", 1],
  "one in avion, that is closed": [{ mode: "avion", passphrase }, "close", 0],
  "one of a passphrase, that is wiped": [{ mode: "synced", passphrase }, "wipe", 0],
  "one opened by a key, that is closed": [{ mode: "synced", hasKey: true }, "close", 2],
  "one in incognito, that is locked": [{ mode: "incognito" }, "lock", 0],
};

test("no passphrase, no key and no document is reachable once a session has ended", { timeout: 180_000 }, async (t) => {
  const { server, page, text, heap } = await setUp(t);
  await noteKeys(page);
  const documents = [text, [...text].reverse().join("")];
  // A store keeps its K over several cases, so every key that was ever there is searched for in each of them.
  const keys = [x];
  let seen = 0;
  for (const [what, [options, end, count]] of Object.entries(CASES)) {
    const made = (await use(page, { org: "demo", schema, server: server.url, ...options })).map((one) => one.replaceAll("-", ""));
    assert.equal(made.length, count, `${what}: keys that were made`);
    keys.push(...made);
    const open = await heap.snapshot();
    // The search itself is tested. It finds the documents; X, unless there is no store; and K while its store is being
    // made.
    assert.deepEqual(open.texts(documents), documents, `${what}, while it is open`);
    const present = options.passphrase === undefined ? made : [x, ...made];
    assert.deepEqual(await open.bytes(present), present, `${what}, while it is open`);
    seen += (await open.bytes(documents.map(hex))).length;
    await page.evaluate((end) => window.page.sessions.main.session[end](), end);
    const ended = await heap.snapshot();
    const texts = [...documents, passphrase];
    const left = { bytes: await ended.bytes([...texts.map(hex), ...keys]), texts: ended.texts(texts) };
    assert.deepEqual(left, { bytes: [], texts: [] }, what);
    assert.ok((ended.classes.Memory ?? 0) <= 1, `${what}: memories of wasm: ${ended.classes.Memory}`);
  }
  assert.ok(seen > 0, "documents are seen in the memory of an open session");
  assert.equal(keys.length, 4, "X and K of both stores were searched for");
});

/** One life after another, for each way to open a store and each way to end a session. */
const LIVES = [
  ...["key", "passphrase"].flatMap((secret) => [
    { mode: "synced", secret, end: "close" },
    { mode: "avion", secret, end: "lock" },
    { mode: "synced", secret, end: "wipe" },
  ]),
  ...["close", "lock", "wipe"].map((end) => ({ mode: "incognito", end })),
];

test("openings and ends leave the heap as it was, for each mode, secret and end", { timeout: 60_000 + OPENINGS * 1_000 }, async (t) => {
  const { server, page, heap } = await setUp(t);
  const openings = (count) =>
    page.evaluate(
      async ({ count, lives, passphrase, ...given }) => {
        const secrets = { key: { key: new Uint8Array(32) }, passphrase: { account: "other", passphrase } };
        for (let n = 0; n < count; n++) {
          const { mode, secret, end } = lives[n % lives.length];
          const options = { ...given, ...secrets[secret], mode, schema: window.page.defineSchema(given.schema) };
          const session = await window.page.open(options);
          const collection = session.collection("Note", {});
          if (mode !== "avion") await collection.whenReady();
          await session[end]();
        }
      },
      { org: "demo", schema, server: server.url, count, lives: LIVES, passphrase },
    );
  // The package is minified: only a session tells the name of its class. Both must be seen while two sessions are open.
  const name = await page.evaluate(async (options) => {
    for (const one of ["one", "other"]) await window.page.start(one, options);
    return window.page.sessions.one.session.constructor.name;
  }, { org: "demo", schema, server: server.url, mode: "incognito" });
  const { classes: open } = await heap.snapshot();
  for (const one of [name, "Memory"]) assert.ok(open[one] >= 2, `${open[one]} of ${one} are seen`);
  await page.evaluate(async () => {
    for (const one of ["one", "other"]) {
      await window.page.sessions[one].session.close();
      delete window.page.sessions[one];
    }
  });
  await openings(LIVES.length * 3);
  const before = await heap.used();
  await openings(OPENINGS);
  const after = await heap.used();
  const { classes } = await heap.snapshot();
  console.log(`# ${OPENINGS} openings: ${before} bytes before, ${after} after, ${classes.Memory ?? 0} memories of wasm`);
  for (const one of [name, "Memory"]) assert.ok((classes[one] ?? 0) <= 1, `${classes[one]} of ${one} are left`);
  assert.ok(after - before < OPENINGS * 256 + SESSION_BYTES, `${after - before} bytes more after ${OPENINGS} openings`);
});
