// Many tabs of one browser over one store: all are live, any can write, and a command in one reaches all.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { startSite } from "../support/site.mjs";
import { accepted, add, counters, inPhase, leader, openTabs } from "../support/tabs.mjs";
import { openWriter, writingSchema, writingServer, writingWorld } from "../support/writing.mjs";

/** The longest time for a message to reach every tab. */
const REACH_MS = 2_000;

const WITHOUT = {
  "with everything": undefined,
  "without BroadcastChannel": () => delete globalThis.BroadcastChannel,
  "without Web Locks": () => Object.defineProperty(navigator, "locks", { value: undefined, configurable: true }),
  "without either": () => {
    delete globalThis.BroadcastChannel;
    Object.defineProperty(navigator, "locks", { value: undefined, configurable: true });
  },
};

for (const [how, prepare] of Object.entries(WITHOUT)) {
  test(`two tabs are live and write, and one goes on alone, ${how}`, { timeout: 90_000 }, async (t) => {
    const world = await writingWorld(t);
    const pages = await openTabs(world, 2, prepare);
    await Promise.all(pages.map((page) => add(page, ["both", "both"])));
    await Promise.all(pages.map((page) => counters(page, { both: 4 })));
    for (const page of pages) assert.equal(await accepted(page), true);
    const lead = await leader(pages);
    const other = pages.find((page) => page !== lead);
    assert.equal(await other.evaluate(() => window.page.sessions.main.session.status.leads), false, "one leads");
    await lead.close();
    await add(other, ["both"]);
    assert.equal(await accepted(other), true);
    await counters(other, { both: 5 });
  });
}

test("eight tabs are live and write", { timeout: 120_000 }, async (t) => {
  const world = await writingWorld(t);
  const pages = await openTabs(world, 8);
  await Promise.all(pages.map((page) => add(page, Array(5).fill("all"))));
  await Promise.all(pages.map((page) => counters(page, { all: 40 })));
  for (const page of pages) assert.equal(await accepted(page), true);
});

test("each tab learns that the server refuses a class", { timeout: 60_000 }, async (t) => {
  const { page, site, browser, session } = await writingWorld(t);
  const pages = [page, await browser.page(site.url)];
  const schema = { ...session.schema, Unheard: { key: ["id"] } };
  for (const tab of pages) await openWriter(tab, { ...session, schema }, { classes: ["Counter"] });
  const outcome = (tab) =>
    tab.evaluate(() => {
      const ready = window.page.sessions.main.session.collection("Unheard", {}).whenReady();
      return ready.then(
        () => "ready",
        ({ code }) => code,
      );
    });
  assert.deepEqual(await Promise.all(pages.map(outcome)), ["unknown_def", "unknown_def"]);
});

test("two sessions of one page share a store as two tabs do", { timeout: 60_000 }, async (t) => {
  const { page, session } = await writingWorld(t);
  for (const name of ["main", "other"]) await openWriter(page, session, { name, classes: ["Counter"] });
  const result = await page.evaluate(async () => {
    const { main, other } = window.page.sessions;
    const written = other.session.run("counter.add", { key: ["one"], by: 1 });
    await window.page.whenDocs("main", "Counter", {}, (docs) => docs.some(({ id, n }) => id === "one" && n === 1));
    await written.accepted;
    const leads = [main, other].map((one) => one.session.status.leads);
    await main.session.close();
    await window.page.whenStatus("other", (status) => status.leads && status.phase === "live");
    await other.session.run("counter.add", { key: ["one"], by: 1 }).accepted;
    return leads;
  });
  assert.deepEqual(result, [true, false]);
});

test("lock, wipe and a change of mode reach every tab within 2 s, and each knows the reason of its end", { timeout: 120_000 }, async (t) => {
  const world = await writingWorld(t);
  const pages = await openTabs(world, 3);
  const reach = async (act, phase) => {
    const at = Date.now();
    await pages[1].evaluate(act);
    await Promise.all([pages[0], pages[2]].map((page) => inPhase(page, phase)));
    const took = Date.now() - at;
    console.log(`# ${phase} in every tab after ${took} ms`);
    assert.ok(took <= REACH_MS, `${phase} took ${took} ms`);
    return Promise.all(pages.map((page) => page.evaluate(() => window.page.sessions.main.session.status.reason)));
  };
  await reach(() => window.page.sessions.main.session.setMode("avion"), "avion");
  assert.deepEqual(await reach(() => window.page.sessions.main.session.setMode("synced"), "live"), [null, null, null]);
  assert.deepEqual(await reach(() => window.page.sessions.main.session.lock(), "closed"), Array(3).fill("locked"));
  const error = await pages[0].evaluate(() => window.page.sessions.main.session.get("Counter", ["x"]).catch(window.page.plainError));
  assert.equal(error.code, "closed");
  assert.match(error.message, /the session is locked/);
  for (const page of pages) await openWriter(page, world.session, { classes: ["Counter"] });
  assert.deepEqual(await reach(() => window.page.sessions.main.session.wipe(), "closed"), Array(3).fill("wiped"));
  assert.deepEqual(await pages[0].evaluate(async () => (await indexedDB.databases()).map(({ name }) => name)), []);
});

test("without words a lock reaches every tab, too", { timeout: 90_000 }, async (t) => {
  const world = await writingWorld(t);
  const pages = await openTabs(world, 2, WITHOUT["without BroadcastChannel"]);
  await pages[1].evaluate(() => window.page.sessions.main.session.lock());
  await inPhase(pages[0], "closed");
  assert.equal(await pages[0].evaluate(() => window.page.sessions.main.session.status.reason), "locked");
});

test("a passphrase changed in one tab is changed again in another", { timeout: 60_000 }, async (t) => {
  const world = await writingWorld(t);
  world.session.passphrase = "the first one";
  const pages = await openTabs(world, 2);
  const change = (page, old, next) =>
    page.evaluate(([a, b]) => window.page.sessions.main.session.changePassphrase(a, b).then(() => "", ({ code }) => code), [old, next]);
  assert.equal(await change(pages[1], "the first one", "the second one"), "");
  assert.equal(await change(pages[0], "the first one", "x"), "wrong_passphrase");
  assert.equal(await change(pages[0], "the second one", "the third one"), "");
  for (const page of pages) await page.evaluate(() => window.page.sessions.main.session.close());
  await openWriter(pages[0], { ...world.session, passphrase: "the third one" }, { classes: ["Counter"] });
});

/** A world whose browser caches pages that are left, as a user's does. */
async function keepingWorld(t) {
  const server = await writingServer(t);
  const site = await startSite(t, { isKept: true });
  const browser = await openBrowser(t, { ignoreDefaultArgs: ["--disable-back-forward-cache"] });
  const page = await browser.page(site.url);
  return { site, browser, page, session: { org: "demo", schema: writingSchema, server: server.url } };
}

/** Leaves the page, which the browser caches; returns a function that goes back to it. */
async function leave(page, site) {
  await page.evaluate(() => {
    addEventListener("pageshow", ({ persisted }) => {
      window.wasKept = persisted;
    });
  });
  await page.goto(`${site.url}?elsewhere`);
  return async () => {
    await page.goBack({ waitUntil: "commit" });
    // A page that was not cached has no such property.
    await page.waitForFunction(() => window.wasKept);
  };
}

test("a page in the browser's cache of pages lets another tab lead, and comes back live", { timeout: 60_000 }, async (t) => {
  const world = await keepingWorld(t);
  const [first, second] = await openTabs(world, 2);
  assert.equal(await leader([first, second]), first);
  const back = await leave(first, world.site);
  assert.equal(await leader([second]), second);
  await add(second, ["away"]);
  assert.equal(await accepted(second), true);
  await back();
  await counters(first, { away: 1 });
  await inPhase(first, "live");
  await add(first, ["away"]);
  assert.equal(await accepted(first), true);
  await counters(second, { away: 2 });
});

test("a lock that is said while a page is in the browser's cache of pages reaches it when it comes back", { timeout: 60_000 }, async (t) => {
  const world = await keepingWorld(t);
  const [first, second] = await openTabs(world, 2);
  const back = await leave(first, world.site);
  await second.evaluate(() => window.page.sessions.main.session.lock());
  await back();
  await inPhase(first, "closed");
});

test("a newer version of the code takes the store, and the older one lets go of the lead", { timeout: 60_000 }, async (t) => {
  const world = await writingWorld(t);
  const [first] = await openTabs(world, 1);
  const newer = await world.browser.page(world.site.url);
  await newer.evaluate(async () => {
    const [{ name, version }] = await window.page.stores();
    (await window.page.connect(name, version + 1, () => {})).close();
  });
  const error = await first.evaluate(() => window.page.whenStatus("main", (status) => status.error?.code === "store_too_new").then((status) => status.error));
  assert.match(error.cure, /Reload/);
  // The lock of the lead is released in the background.
  await first.evaluate(async () => {
    const [{ name }] = await window.page.stores();
    await navigator.locks.request(`${name}-lead`, () => {});
  });
});

test("a tab whose application knows more than that of the leading tab takes the lead, and both are live", { timeout: 60_000 }, async (t) => {
  const world = await writingWorld(t);
  const older = { ...world.session.schema };
  delete older.First;
  await openWriter(world.page, { ...world.session, schema: older }, { classes: ["Counter"] });
  const newer = await world.browser.page(world.site.url);
  await openWriter(newer, world.session, { classes: ["Counter"] });
  await newer.evaluate(() => window.page.whenStatus("main", ({ leads, phase }) => leads && phase === "live"));
  await world.page.evaluate(() => window.page.whenStatus("main", ({ leads }) => !leads));
  await newer.evaluate(() => {
    window.page.sessions.main.session.live("First", {}, () => {});
  });
  await add(newer, ["x"]);
  await add(world.page, ["x"]);
  await Promise.all([newer, world.page].map((page) => counters(page, { x: 2 })));
  assert.equal(await accepted(newer), true);
  // The older one goes on as a tab that follows.
  await inPhase(world.page, "live");
  const found = await newer.evaluate(() => window.page.loaded("main", "First", {}).then((docs) => docs.length));
  assert.equal(found, 1);
});
