// A device that refuses to open. One bit of LevelDB's file CURRENT has flipped, and Chromium neither opens nor deletes
// any database of the origin. A session works in memory, says so, and moves to the device once that opens.
import assert from "node:assert/strict";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { KilledFirefox } from "../support/killed-firefox.mjs";
import { byName, schema, some } from "../support/packages.mjs";
import { folderFor } from "../support/paths.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const COUNT = 200;

/** Flips a bit in the file, of the origin's own databases, that names the other files. */
async function flip(profile) {
  const folder = join(profile, "Default", "IndexedDB");
  const [file] = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith("CURRENT"));
  const bytes = await readFile(join(folder, file));
  bytes[3] ^= 1;
  await writeFile(join(folder, file), bytes);
}

/** A page whose device had a store, and no longer opens. */
async function setUp(t) {
  const server = await makeServer(t);
  await server.import("demo", "Package", some(COUNT));
  await server.start();
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const options = { org: "demo", schema, server: server.url, passphrase: "a passphrase" };
  const begin = async (more) => {
    const page = await browser.page(site.url);
    const failed = await page.evaluate((o) => window.page.tryToStart("main", o), { ...options, ...more });
    return { page, failed };
  };
  const { page } = await begin();
  await page.evaluate(async () => {
    await window.page.loaded("main", "Package", {});
    await window.page.sessions.main.session.flush();
  });
  await browser.close();
  await flip(browser.profile);
  await browser.open();
  return { server, browser, begin, origin: new URL(site.url).origin };
}

const all = (page) => page.evaluate(() => window.page.loaded("main", "Package", {}));
const holds = (page, count) =>
  page.evaluate(async (wanted) => {
    await window.page.whenDocs("main", "Package", {}, (docs) => docs.length === wanted);
  }, count);
const put = (page, name) =>
  page.evaluate(async (name) => {
    const operation = window.page.sessions.main.session.put("Package", { name, section: "games" });
    const saved = await operation.saved;
    return { saved, ...(await operation.accepted) };
  }, name);

test("a session opens in memory, and moves to the device once that opens again", { timeout: 120_000 }, async (t) => {
  const { server, browser, begin, origin } = await setUp(t);
  const { page, failed } = await begin();
  assert.equal(failed, null);
  const listed = await page.evaluate(async () => {
    const { session } = window.page.sessions.main;
    window.lengths = [];
    session.live("Package", {}, (docs) => window.lengths.push(docs.length));
    const docs = await window.page.loaded("main", "Package", {});
    const { storage, error, mode } = session.status;
    const tried = await Promise.allSettled([session.flush(), session.changePassphrase("a passphrase", "another")]);
    return { docs, storage, mode, error: error.code, tried: tried.map(({ reason }) => reason?.code) };
  });
  assert.deepEqual(listed.docs, some(COUNT).sort(byName));
  assert.deepEqual([listed.storage, listed.mode, listed.error], ["memory", "synced", "storage_closed"]);
  assert.deepEqual(listed.tried, ["storage_closed", "storage_closed"]);
  assert.equal((await put(page, "written in memory")).saved, "memory");

  // Another tab gets into the same state by itself.
  const other = await begin();
  assert.equal((await all(other.page)).length, COUNT + 1);
  assert.equal(await other.page.evaluate(() => window.page.sessions.main.session.status.storage), "memory");

  // Follows the error's cure: the user clears the site's data.
  const devtools = await browser.context.newCDPSession(page);
  await devtools.send("Storage.clearDataForOrigin", { origin, storageTypes: "all" });
  for (const one of [page, other.page]) {
    await one.evaluate(() => window.page.whenStatus("main", ({ storage, error }) => storage === "ok" && error === null));
  }
  assert.equal((await put(page, "written on the device")).saved, "device");
  await holds(other.page, COUNT + 2);
  const lengths = await page.evaluate(() => window.lengths);
  const first = lengths.indexOf(COUNT);
  assert.ok(first >= 0 && lengths.slice(first).every((length) => length >= COUNT), `nothing disappears: ${lengths}`);
  await page.evaluate(() => window.page.sessions.main.session.close());
  await other.page.evaluate(() => window.page.sessions.main.session.close());
  await server.stop();
  const offline = await begin({ mode: "avion" });
  assert.equal(offline.failed, null);
  assert.equal((await all(offline.page)).length, COUNT + 2);
});

test("in avion the error has a name, and its cure works", { timeout: 60_000 }, async (t) => {
  const { browser, begin, origin } = await setUp(t);
  const { page, failed } = await begin({ mode: "avion" });
  assert.deepEqual([failed.code, failed.retryable], ["storage_closed", true]);
  assert.match(failed.cure, /clear this site's data/);
  const devtools = await browser.context.newCDPSession(page);
  await devtools.send("Storage.clearDataForOrigin", { origin, storageTypes: "all" });
  assert.equal((await begin()).failed, null);
});

test("a session that ends while the device refuses leaves nothing behind, and wipe says what it could not do", { timeout: 60_000 }, async (t) => {
  const { begin } = await setUp(t);
  for (const end of ["close", "lock", "wipe"]) {
    const { page } = await begin();
    await all(page);
    const ending = (options) =>
      page.evaluate(([end, options]) => window.page.outcome(window.page.sessions.main.session[end](options)), [end, options]);
    const state = () => page.evaluate(() => [window.page.sessions.main.session.status.phase, window.page.sessions.main.session.status.reason]);
    if (end === "wipe") {
      assert.deepEqual(await ending(), { failed: "storage_closed" }, "nobody knows what the device holds");
      assert.equal((await state())[1], null);
    }
    const ended = await ending(end === "wipe" ? { drafts: "delete" } : undefined);
    assert.deepEqual(ended, end === "wipe" ? { failed: "storage_closed" } : undefined, end);
    assert.deepEqual(await state(), ["closed", end === "lock" ? "locked" : "closed"], "what failed has not happened");
  }
});

test("the same in Firefox, which says UnknownError", { timeout: 120_000 }, async (t) => {
  const server = await makeServer(t);
  await server.import("demo", "Package", some(COUNT));
  await server.start();
  const site = await startSite(t);
  const profile = join(await folderFor(t), "profile");
  let browser;
  t.after(() => browser?.kill());
  const options = { org: "demo", schema, server: server.url };
  const begin = async () => {
    browser = await KilledFirefox.start(profile);
    const page = await browser.page(site.url);
    const opened = await page.evaluate(async (o) => {
      const session = await window.page.start("main", { ...o, key: new Uint8Array(32) });
      await window.page.loaded("main", "Package", {});
      return window.page.plainStatus(session.status.value);
    }, options);
    return { page, opened };
  };
  assert.equal((await begin()).opened.storage, "ok");
  await browser.kill();
  // The databases' folder is replaced by something else: Firefox opens none.
  const origins = join(profile, "storage", "default");
  const [databases] = (await readdir(origins, { recursive: true })).filter((name) => /[/\\]idb$/.test(name));
  await rm(join(origins, databases), { recursive: true });
  await writeFile(join(origins, databases), "no folder");
  const { page, opened } = await begin();
  assert.deepEqual([opened.storage, opened.mode, opened.error.code], ["memory", "synced", "storage_closed"]);
  assert.match(opened.error.message, /: UnknownError$/, "the name that the browser gives");
  assert.equal((await put(page, "written in memory")).saved, "memory");
  const inAvion = await page.evaluate((o) => window.page.tryToStart("avion", { ...o, mode: "avion", key: new Uint8Array(32) }), options);
  assert.deepEqual([inAvion.code, inAvion.retryable], ["storage_closed", true]);
  assert.match(inAvion.cure, /clear this site's data/);
  await rm(join(origins, databases));
  await page.evaluate(() => window.page.whenStatus("main", (status) => status.storage === "ok"));
  assert.equal((await put(page, "written on the device")).saved, "device");
  await holds(page, COUNT + 2);
});
