// The demonstration if a store does not open, and how a visitor erases it: a forgotten passphrase, a damaged store,
// another tab.
import assert from "node:assert/strict";
import { test } from "node:test";

import { MemoryServer } from "../support/memory-server.mjs";
import { inSection } from "../support/packages.mjs";
import { PASSPHRASE, SCREENS, serveDemonstration, visit, Visitor } from "../support/visitor.mjs";

const SECTION = "games";
const COUNT = inSection(SECTION).length;
const NEXT = "another passphrase";

/** A visitor who followed a section and locked the session. */
async function setUp(t, screen) {
  const memory = new MemoryServer(inSection(SECTION));
  const site = await serveDemonstration(t);
  const visitor = await Visitor.at(t, site.of(), screen, (context) => memory.putOn(context));
  await visitor.openFirst("synced");
  await follow(visitor);
  await visitor.act("lock");
  return visitor;
}

async function follow(visitor) {
  await visitor.choose(`section-${SECTION}`);
  await visitor.seesFollowed(`section-${SECTION}`, COUNT);
  await visitor.sees("Live");
}

/** The names of the stores, without the databases next to them. */
const stores = async (visitor) => (await databases(visitor)).filter((name) => !name.endsWith("-files"));
const databases = (visitor) => visitor.page.evaluate(async () => (await indexedDB.databases()).map(({ name }) => name).filter((name) => !name.endsWith("-mark")));
const problem = (visitor, code) => visitor.page.locator(`[data-testid="error"][data-code="${code}"]`);

/** Erases with the button that the problem offers, after cancelling once. */
async function erase(visitor) {
  await visitor.on("remedy-erase").click();
  await visitor.look("the question before erasing");
  await visitor.on("erase-cancel").click();
  assert.equal((await stores(visitor)).length, 1, "nothing is erased unasked");
  await visitor.on("remedy-erase").click();
  await visitor.on("erase-confirm").click();
}

/** Checks that nothing is left, and opens again under another passphrase. */
async function beginsAnew(visitor) {
  await visitor.page.locator(".notice", { hasText: "Erased" }).waitFor();
  assert.deepEqual(await databases(visitor), []);
  await visitor.look("the first screen, erased");
  await visitor.open("synced", NEXT);
  await visitor.on("empty").waitFor();
  await follow(visitor);
}

visit("a phone", "a forgotten passphrase: what rests can be erased, and a new store opens", { timeout: 60_000 }, async (t, options) => {
  const visitor = await setUp(t, options);
  await visitor.open("synced", "not the passphrase");
  await problem(visitor, "wrong_passphrase").waitFor();
  await visitor.look("the wrong passphrase");
  await erase(visitor);
  await beginsAnew(visitor);
  assert.deepEqual(visitor.errors, []);
});

test("a damaged store: it can be erased, and everything is loaded again", { timeout: 60_000 }, async (t) => {
  const visitor = await setUp(t, SCREENS["a phone"]);
  await visitor.page.evaluate(async () => {
    const { name } = (await indexedDB.databases()).find((one) => !/-(mark|files)$/.test(one.name));
    const settled = (request) =>
      new Promise((resolve, reject) => {
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
      });
    const database = await settled(indexedDB.open(name));
    const table = database.transaction("h", "readwrite").objectStore("h");
    const [key] = await settled(table.getAllKeys());
    const header = await settled(table.get(key));
    header[10] ^= 1;
    await settled(table.put(header, key));
    database.close();
  });
  for (const mode of ["avion", "synced"]) {
    await visitor.open(mode);
    await problem(visitor, "store_damaged").waitFor();
    await visitor.look("the damaged store");
  }
  await erase(visitor);
  await beginsAnew(visitor);
  assert.deepEqual(visitor.errors, []);
});

test("while another tab has the store open it is not erased, and that tab goes on", { timeout: 60_000 }, async (t) => {
  const visitor = await setUp(t);
  // The wrong passphrase is reported first; then another tab takes the store.
  await visitor.open("synced", "not the passphrase");
  await problem(visitor, "wrong_passphrase").waitFor();
  const other = await visitor.another();
  await other.open("synced", PASSPHRASE);
  await other.seesFollowed(`section-${SECTION}`, COUNT);
  await erase(visitor);
  await visitor.on("toast").filter({ hasText: "Another tab has this store open" }).waitFor();
  assert.ok(await problem(visitor, "wrong_passphrase").isVisible());
  assert.equal((await stores(visitor)).length, 1);
  await other.sees("Live");
  await other.seesListed(COUNT);
  await other.act("lock");
  await visitor.on("remedy-erase").click();
  await visitor.on("erase-confirm").click();
  await beginsAnew(visitor);
  assert.deepEqual([visitor.errors, other.errors], [[], []]);
});

test("each tab says why the session is over: it was locked, or the device was wiped", { timeout: 60_000 }, async (t) => {
  const visitor = await setUp(t);
  const other = await visitor.another();
  const tabs = [visitor, other];
  for (const [act, word] of [["lock", "Locked"], ["wipe", "Wiped"]]) {
    for (const tab of tabs) {
      await tab.open("synced");
      await tab.seesFollowed(`section-${SECTION}`, COUNT);
    }
    await visitor.act(act);
    if (act === "wipe") await visitor.on("wipe-confirm").click();
    for (const tab of tabs) await tab.page.locator(".notice", { hasText: `${word}:` }).waitFor();
  }
  assert.deepEqual(await stores(visitor), []);
  assert.deepEqual([visitor.errors, other.errors], [[], []]);
});
