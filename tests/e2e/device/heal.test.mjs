// The database is dropped behind the session. If the browser drops it while it is open, it gets the session's contents
// back. If no session is open, the next opening reports the loss. If another page deletes it, the session ends.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { startSite } from "../support/site.mjs";

async function setUp(t) {
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  await page.evaluate(async () => {
    const { makePageServer } = await import("/page-server.js");
    const { open, defineSchema, done, stores } = window.page;
    const schema = defineSchema({ Note: { key: ["id"], properties: { text: "string" } } });
    window.server = makePageServer();
    window.begin = (options = {}) =>
      open({ org: "heal", schema, server: window.server.adapter, key: new Uint8Array(32), ...options });
    window.drop = async () => {
      const [{ name }] = await stores();
      await done(indexedDB.deleteDatabase(name));
      return name;
    };
    // Two writes wait on the device.
    window.waiting = async () => {
      const flying = await window.begin({ mode: "avion" });
      for (const id of ["c", "d"]) await flying.put("Note", { id, text: "y" }).saved;
      await flying.close();
    };
    const session = await window.begin();
    await session.collection("Note", {}).whenReady();
    for (const id of ["a", "b"]) await session.put("Note", { id, text: "x" }).accepted;
    await session.flush();
    await session.close();
  });
  return page;
}

test("a database that the browser drops under an open session gets back what the session holds", { timeout: 60_000 }, async (t) => {
  const page = await setUp(t);
  await page.evaluate(async () => {
    window.session = await window.begin();
    window.states = [];
    window.session.status.subscribe(({ storage }) => window.states.at(-1) !== storage && window.states.push(storage));
  });
  const cdp = await page.context().newCDPSession(page);
  await cdp.send("Storage.clearDataForOrigin", { origin: new URL(page.url()).origin, storageTypes: "indexeddb" });
  const result = await page.evaluate(async () => {
    const { session, states } = window;
    const written = session.put("Note", { id: "c", text: "y" });
    const saved = await written.saved;
    await written.accepted;
    await new Promise((resolve) => session.live("Note", {}, (docs) => docs.length === 3 && resolve()));
    await session.flush();
    await session.close();
    const after = await window.begin({ mode: "avion" });
    const docs = await after.collection("Note", {}).whenReady();
    const { storage, error } = after.status.value;
    await after.close();
    return { saved, last: states.at(-1), docs: docs.map(({ id }) => id), storage, error };
  });
  assert.deepEqual(result, { saved: "device", last: "ok", docs: ["a", "b", "c"], storage: "ok", error: null });
});

test("a database that another page deletes ends the session, and is not made anew", { timeout: 60_000 }, async (t) => {
  const page = await setUp(t);
  const result = await page.evaluate(async () => {
    const session = await window.begin();
    const over = new Promise((resolve) => session.status.subscribe(({ phase }) => phase === "closed" && resolve()));
    session.put("Note", { id: "c", text: "y" });
    await window.drop();
    await over;
    return { code: await session.get("Note", ["a"]).catch(({ code }) => code), left: await window.page.stores() };
  });
  assert.deepEqual(result, { code: "closed", left: [] });
});

test("a database that is gone at the opening takes what waits from the copy beside it", { timeout: 60_000 }, async (t) => {
  const page = await setUp(t);
  const result = await page.evaluate(async () => {
    await window.waiting();
    await window.drop();
    const flying = await window.begin({ mode: "avion" });
    const waiting = flying.pending().map(({ name }) => name);
    const { error, damaged } = flying.status.value;
    await flying.close();
    const session = await window.begin();
    await new Promise((resolve) => session.live("Note", {}, (docs, { ready }) => ready && docs.length === 4 && resolve()));
    await new Promise((resolve) => session.status.subscribe((s) => s.storage === "ok" && s.pending === 0 && s.error === null && resolve()));
    await session.flush();
    await session.close();
    return { waiting, code: error?.code, damaged };
  });
  assert.deepEqual(result, {
    waiting: ["doc.put", "doc.put"],
    code: "local_data_lost",
    damaged: { documents: 0, collections: 0, operations: 0 },
  });
});

test("a database that is gone with the copy of its journal tells how many operations were pending", { timeout: 60_000 }, async (t) => {
  const page = await setUp(t);
  const result = await page.evaluate(async () => {
    await window.waiting();
    const name = await window.drop();
    await window.page.alter(`${name}-mark`, "j", (journal) => journal.clear(), await window.page.beside());
    const session = await window.begin();
    const { storage, error, damaged } = session.status.value;
    const docs = await session.collection("Note", {}).whenReady();
    await session.wipe();
    return { storage, code: error?.code, message: error?.message, damaged, docs: docs.length, left: (await window.page.allDatabases()).length };
  });
  const { message, ...rest } = result;
  assert.deepEqual(rest, {
    storage: "lost",
    code: "local_data_lost",
    damaged: { documents: 0, collections: 0, operations: 2 },
    docs: 2,
    left: 0,
  });
  assert.match(message, /2 operations were pending/);
});

test("what stands beside a store keeps nobody from opening it", { timeout: 60_000 }, async (t) => {
  const page = await setUp(t);
  const result = await page.evaluate(async () => {
    const [{ name }] = await window.page.stores();
    await window.page.forgetMark(name);
    // Made, and never filled.
    (await window.page.connect(`${name}-mark`, 1, () => {}, await window.page.beside())).close();
    const session = await window.begin();
    const { storage, error } = session.status.value;
    await session.flush();
    await session.close();
    return { storage, error, tables: Object.keys((await window.page.dump())[`${name}-mark`].tables) };
  });
  assert.deepEqual(result, { storage: "ok", error: null, tables: ["i", "j", "m"] });
});
