// `wipe` without a session: the remedy for a forgotten passphrase and for a damaged store. It leaves other data alone.
import assert from "node:assert/strict";
import { test } from "node:test";

import { byName, some } from "../support/packages.mjs";
import { packagesPage } from "../support/packages-page.mjs";

const COUNT = 50;
const FORGOTTEN = "the forgotten passphrase";

const setUp = (t) => packagesPage(t, COUNT, { account: "ada", passphrase: FORGOTTEN });

/** Opens, loads the whole class from the server, and closes; returns the documents. */
const sync = (page, options) =>
  page.evaluate(async (o) => {
    await window.page.start("main", o);
    const docs = await window.page.loaded("main", "Package", {});
    await window.page.whenStatus("main", ({ phase, storage }) => phase === "live" && storage === "ok");
    await window.page.sessions.main.session.close();
    return docs;
  }, options);

const refused = (page, options) => page.evaluate((o) => window.page.tryToStart("other", o), options);
const wipe = (page, options) => page.evaluate((o) => window.page.wipe(o).then(() => null, window.page.plainError), options);
const dump = (page) => page.evaluate(() => window.page.dump());
const inOrder = (docs) => docs.map((one) => Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1))));
const expected = inOrder(some(COUNT).sort(byName));

/** The device's databases and locks: wiping must leave no database, and no lock. */
const leftovers = (page) =>
  page.evaluate(async () => ({
    databases: await indexedDB.databases(),
    storage: [localStorage.length, sessionStorage.length],
    caches: await caches.keys(),
    files: (await Array.fromAsync((await navigator.storage.getDirectory()).keys())).length,
    locks: (await navigator.locks.query()).held.length,
  }));
const NOTHING = { databases: [], storage: [0, 0], caches: [], files: 0, locks: 0 };

test("a forgotten passphrase: the store is wiped without it, and another one opens anew", { timeout: 60_000 }, async (t) => {
  const { page, options } = await setUp(t);
  assert.deepEqual(inOrder(await sync(page, options)), expected);
  const next = { ...options, passphrase: "the next passphrase" };
  const error = await refused(page, next);
  assert.equal(error.code, "wrong_passphrase");
  assert.match(error.cure, /wipe\(\{ org, account \}\)/);
  assert.equal(await wipe(page, { org: "demo", account: "ada" }), null);
  assert.deepEqual(await leftovers(page), NOTHING);
  assert.equal((await refused(page, { ...options, mode: "avion" })).code, "no_store");
  assert.deepEqual(inOrder(await sync(page, next)), expected);
  assert.equal((await refused(page, options)).code, "wrong_passphrase", "the old one opens nothing any more");
});

test("a damaged store: its cure names wipe, which lets it open and load everything again", { timeout: 60_000 }, async (t) => {
  const { page, options } = await setUp(t);
  await sync(page, options);
  const database = await page.evaluate(async () => {
    const [{ name }] = await window.page.stores();
    const [[key, value]] = await window.page.records(name, "h");
    value[10] ^= 1;
    await window.page.restore(name, "h", [[key, value]]);
    return name;
  });
  for (const mode of ["synced", "avion"]) {
    const error = await refused(page, { ...options, mode });
    assert.equal(error.code, "store_damaged");
    assert.match(error.cure, /wipe\(\{ org, account \}\), which needs no session/);
  }
  assert.equal(await wipe(page, { org: "demo", account: "ada" }), null);
  assert.deepEqual(await leftovers(page), NOTHING);
  assert.deepEqual(inOrder(await sync(page, options)), expected);
  assert.deepEqual(await page.evaluate(async () => (await window.page.stores()).map(({ name }) => name)), [database]);
  // A database that lacks its tables counts as damaged, and is wiped in the same way.
  await page.evaluate(async (name) => {
    await window.page.wipe({ org: "demo", account: "ada" });
    const bare = await window.page.connect(name, 1, (made) => made.createObjectStore("x"));
    bare.close();
  }, database);
  assert.equal((await refused(page, options)).code, "store_damaged");
  assert.equal(await wipe(page, { org: "demo", account: "ada" }), null);
  assert.deepEqual(inOrder(await sync(page, options)), expected);
});

test("while a session has the store open wipe is refused and removes nothing", { timeout: 60_000 }, async (t) => {
  const { browser, site, page, options } = await setUp(t);
  await sync(page, options);
  await page.evaluate((o) => window.page.start("main", o).then(() => {}), { ...options, mode: "avion" });
  const before = await dump(page);
  const other = await browser.page(site.url);
  for (const where of [other, page]) {
    const error = await wipe(where, { org: "demo", account: "ada" });
    assert.deepEqual([error.name, error.code, error.retryable], ["EscaleError", "store_in_use", true]);
    assert.ok(error.message.length > 10 && error.cure.length > 10, JSON.stringify(error));
  }
  assert.deepEqual(await dump(page), before);
  const held = await page.evaluate(async () => {
    const { session } = window.page.sessions.main;
    const docs = await window.page.whenDocs("main", "Package", {}, (_, ready) => ready);
    const { phase, storage } = session.status.value;
    await session.close();
    return { count: docs.length, phase, storage };
  });
  assert.deepEqual(held, { count: COUNT, phase: "avion", storage: "ok" }, "the session goes on");
  // Once it is closed, another tab may.
  assert.equal(await wipe(other, { org: "demo", account: "ada" }), null);
  assert.deepEqual(await leftovers(page), NOTHING);
});

test("wipe does nothing where nothing rests, and touches no other account or org", { timeout: 60_000 }, async (t) => {
  const { page, options } = await setUp(t);
  assert.equal(await wipe(page, { org: "demo", account: "ada" }), null);
  assert.deepEqual(await leftovers(page), NOTHING);
  await sync(page, options);
  const before = await dump(page);
  for (const owner of [{ org: "demo" }, { org: "demo", account: "Ada" }, { org: "demo.ada" }, { org: "other", account: "ada" }]) {
    assert.equal(await wipe(page, owner), null);
    assert.deepEqual(await dump(page), before, JSON.stringify(owner));
  }
  // Twice at once: the second call finds the store locked by the first.
  const both = await page.evaluate(async () => {
    const owner = { org: "demo", account: "ada" };
    const calls = [window.page.wipe(owner), window.page.wipe(owner)];
    return Promise.all(calls.map((call) => call.then(() => "done", ({ code }) => code)));
  });
  assert.deepEqual(both.sort(), ["done", "store_in_use"]);
  assert.deepEqual(await leftovers(page), NOTHING);
});
