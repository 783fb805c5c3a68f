// A device of any size, from one without room for the database itself to one that lacks little. At each size the
// session reports that the device is full, goes on in memory, and loses nothing that it reported as saved. Once there
// is room, all of it is on the device.
//
// `QUOTAS` sets how many sizes (`make quotas QUOTAS=30`), evenly spaced from an offset that `ESCALE_SEED` repeats.
import assert from "node:assert/strict";
import { test } from "node:test";

import { count, startSeed } from "../../../testkit/effort.mjs";
import { openBrowser, visit } from "../support/browser.mjs";
import { schema, some } from "../support/packages.mjs";
import { randomFrom } from "../support/in-page/random.js";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const QUOTAS = count("QUOTAS", 3);
const SEED = startSeed();
/** Too few bytes for any database. */
const SMALLEST = 1_000;
/** Documents on the server, those that it changes meanwhile, and those written here: texts that do not compress. */
const [COUNT, CHANGED, WRITTEN, TEXT_CHARS] = [300, 150, 8, 4_000];

/**
 * The fate of the page while the device is full: it stays (undefined), or it is closed and opened again in that mode.
 */
const ENDS = ["synced", undefined, "avion"];

const docs = some(COUNT);

/** Functions that run in the page in addition to the usual helpers. */
async function prepare(page, options) {
  await page.evaluate((o) => {
    const { tryToStart, sessions, plainError, plainStatus } = window.page;
    window.begin = (name, mode) => tryToStart(name, { ...o, ...(mode === "incognito" ? {} : { key: new Uint8Array(32) }), mode });
    window.stateOf = (name) => plainStatus(sessions[name].session.status.value);
    /** Whether everything is on the device: null, or the reason why not. */
    window.flushed = (name) => sessions[name].session.flush().then(() => null, plainError);
    window.saved = [];
    window.write = (name, written) => {
      for (const doc of written) sessions[name].session.put("Package", doc).saved.then(() => window.saved.push(doc.name));
    };
    window.shown = async (name) => {
      const all = await sessions[name].session.collection("Package", {}).whenReady();
      return all.map((doc) => [doc.name, doc.summary]);
    };
  }, options);
}

const textsOf = (list) => new Map(list.map((doc) => [doc.name, doc.summary]));

/** Resolves once a session shows these documents, and no others. Any document of `perhaps` may replace its own. */
const shows = (page, name, texts, perhaps = new Map()) =>
  page.evaluate(
    async ([session, ...lists]) => {
      const [wanted, other] = lists.map((list) => new Map(list));
      const isRight = (doc) => doc.summary === wanted.get(doc.name) || doc.summary === other.get(doc.name);
      await window.page.whenDocs(session, "Package", {}, (shown) => shown.length === wanted.size && shown.every(isRight));
    },
    [name, [...texts], [...perhaps]],
  );

/** Checks that the failure, if there is one, says that the device is full, with a cure; and so does the status. */
async function isFull(page, failure) {
  const { storage, error } = await page.evaluate(() => window.stateOf("main"));
  if (!failure) {
    assert.equal(storage, "ok");
    return false;
  }
  assert.deepEqual([failure.code, storage, error?.code], ["storage_full", "full", "storage_full"], JSON.stringify(failure));
  assert.ok(failure.cure.length > 10 && error.cure.length > 10);
  return true;
}

const begin = (page, name, mode = "synced") => page.evaluate(([one, how]) => window.begin(one, how), [name, mode]);
const flushed = (page) => page.evaluate(() => window.flushed("main"));
const setMode = (page, mode) => page.evaluate((wanted) => window.page.sessions.main.session.setMode(wanted), mode);
const close = (page, name) => page.evaluate((one) => window.page.sessions[one].session.close(), name);

/** An opening for which the device may have no room. Returns whether it had. If not, opening again loses nothing. */
async function opens(page, mode) {
  const refused = await begin(page, "main", mode);
  if (!refused) return true;
  assert.equal(refused.code, "storage_full", JSON.stringify(refused));
  assert.ok(refused.cure.length > 10);
  return false;
}

/**
 * A session on a device of that size, from its opening until there is room. With `ends`, its page is closed in between,
 * and another one opens it in that mode.
 */
async function tryQuota({ t, server, browser, random }, quotaSize, ends) {
  const site = await startSite(t);
  const { origin } = new URL(site.url);
  const page = await browser.page(site.url);
  const devtools = await browser.context.newCDPSession(page);
  const setQuota = (size) => devtools.send("Storage.overrideQuotaForOrigin", size === undefined ? { origin } : { origin, quotaSize: size });
  const options = { org: "demo", schema, server: server.url };
  const texts = textsOf(docs);
  await server.import("demo", "Package", docs);
  await prepare(page, options);
  await setQuota(quotaSize);

  const found = { opened: await opens(page, "synced") };
  if (!found.opened) {
    // Not even the header fits. The application can go on in incognito, or make room and open again.
    assert.equal(await begin(page, "reader", "incognito"), null);
    await shows(page, "reader", texts);
    await close(page, "reader");
    await setQuota();
    assert.equal(await begin(page, "main"), null);
  }
  await shows(page, "main", texts);
  await page.evaluate(() => window.page.whenStatus("main", ({ phase }) => phase === "live"));
  found.loaded = !(await isFull(page, await flushed(page)));

  // The server goes on, and so does the session: changes are shown, whether they can be stored or not.
  const changes = docs.slice(0, CHANGED).map((doc) => ({ ...doc, summary: `changed, ${random(1e9)}` }));
  await server.import("demo", "Package", changes);
  textsOf(changes).forEach((summary, name) => texts.set(name, summary));
  await shows(page, "main", texts);
  found.changed = !(await isFull(page, await flushed(page)));

  // Writes without a network: only the device can keep them.
  await setMode(page, "avion");
  const letters = () => String.fromCharCode(...Array.from({ length: TEXT_CHARS }, () => 97 + random(26)));
  const written = docs.slice(CHANGED - WRITTEN / 2, CHANGED + WRITTEN / 2).map((doc) => ({ ...doc, summary: letters() }));
  await page.evaluate((list) => window.write("main", list), written);
  const own = textsOf(written);
  await shows(page, "main", new Map([...texts, ...own]));
  const isLacking = await isFull(page, await flushed(page));
  const saved = await page.evaluate(() => window.saved);
  found.saved = saved.length;
  assert.ok(isLacking || saved.length === WRITTEN, "all are saved where the device has room");
  const { usage } = await page.evaluate(() => navigator.storage.estimate());

  // Writes reported as saved are there from here on. Other writes are, too; if the page was closed in between, they may
  // be.
  for (const name of saved) texts.set(name, own.get(name));
  const perhaps = ends ? own : new Map();
  if (ends) {
    await visit(page, site.url);
    await prepare(page, options);
    if (!(await opens(page, ends))) {
      await setQuota();
      assert.equal(await begin(page, "main", ends), null);
    }
    // A load may never have finished on a full device. Writes reported as saved are shown all the same.
    await page.evaluate(
      (list) => window.page.whenDocs("main", "Package", {}, (shown) => {
        const has = new Map(shown.map((doc) => [doc.name, doc.summary]));
        return list.every(([name, text]) => has.get(name) === text);
      }).then(() => {}),
      saved.map((name) => [name, texts.get(name)]),
    );
    if (ends === "synced") {
      // The server is asked, whether the device can be written or not.
      await page.evaluate(() => window.page.whenStatus("main", ({ phase }) => phase === "live"));
      await shows(page, "main", texts, perhaps);
      found.reopened = !(await isFull(page, await flushed(page)));
    }
  } else {
    own.forEach((summary, name) => texts.set(name, summary));
  }

  await setQuota();
  // The user has made room and shows the page again: the device is tried without a delay.
  await page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));
  if (ends === "avion") await setMode(page, "synced");
  await page.evaluate(() => window.page.whenStatus("main", ({ storage }) => storage === "ok"));
  await shows(page, "main", texts, perhaps);
  assert.equal(await flushed(page), null);
  if (!ends) assert.equal((await page.evaluate(() => window.saved)).length, WRITTEN, "with room, all are saved");
  await close(page, "main");

  // All of it is on the device, and the writes are executed in the end.
  assert.equal(await begin(page, "main", "avion"), null);
  await shows(page, "main", texts, perhaps);
  await setMode(page, "synced");
  await page.evaluate(() => window.page.whenStatus("main", ({ phase, pending }) => phase === "live" && pending === 0).then(() => {}));
  await shows(page, "main", texts, perhaps);
  const shown = new Map(await page.evaluate(() => window.shown("main")));
  assert.equal(await begin(page, "reader", "incognito"), null);
  await shows(page, "reader", shown);
  await page.close();
  site.stop();
  return { ...found, usage };
}

test(`${QUOTAS} sizes of a device: a full one is told, and nothing saved is lost`, { timeout: 60_000 + QUOTAS * 60_000 }, async (t) => {
  console.log(`# ESCALE_SEED=${SEED} QUOTAS=${QUOTAS}`);
  const began = Date.now();
  const random = randomFrom(SEED);
  const server = await makeServer(t);
  await server.import("demo", "Package", docs);
  await server.start();
  const world = { t, server, random, browser: await openBrowser(t) };
  const roomy = await tryQuota(world, undefined);
  assert.deepEqual([roomy.opened, roomy.loaded, roomy.changed, roomy.saved], [true, true, true, WRITTEN]);
  const step = (roomy.usage - SMALLEST) / QUOTAS;
  const offset = random(Math.floor(step));
  const tried = [];
  for (let number = 0; number < QUOTAS; number++) {
    const size = Math.floor(SMALLEST + offset + number * step);
    const found = await tryQuota(world, size, ENDS[number % ENDS.length]);
    console.log(`# ${size} of ${roomy.usage} bytes: ${JSON.stringify(found)}`);
    tried.push(found);
  }
  const count = (is) => tried.filter(is).length;
  const full = count(({ opened, loaded, changed, saved, reopened }) => !opened || !loaded || !changed || saved < WRITTEN || reopened === false);
  const seconds = ((Date.now() - began) / 1_000).toFixed(1);
  const [closed, halves] = [count(({ opened }) => !opened), count(({ opened, loaded }) => opened && !loaded)];
  console.log(`# ${full} were full or became so: ${closed} had no room for the store, ${halves} not for all documents`);
  assert.ok(full > 0, "no device was full");
  console.log(`proof: quota | a device of any size: a full one is told, and nothing saved is lost | ${QUOTAS} sizes | violations 0 | ${seconds} s`);
});
