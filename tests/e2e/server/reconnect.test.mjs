// The server stops and comes back. The phases follow by themselves, and no hint from the time between is missed.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { byName, schema, some } from "../support/packages.mjs";
import { startProxy } from "../support/proxy.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const COUNT = 80;

async function setUp(t, mode) {
  const server = await makeServer(t);
  await server.import("demo", "Package", some(COUNT));
  await server.start();
  const [proxy, site, browser] = [await startProxy(t, server), await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  await page.evaluate(async (o) => {
    await window.page.start("main", { ...o, key: o.mode === "incognito" ? undefined : new Uint8Array(32) });
    await window.page.loaded("main", "Package", {});
  }, { org: "demo", schema, server: proxy.url, mode });
  await whenPhase(page, "live");
  return { server, proxy, browser, page };
}

const whenPhase = (page, phase) =>
  page.evaluate((wanted) => window.page.whenStatus("main", (status) => status.phase === wanted), phase);
const whenAll = (page, summary) =>
  page.evaluate(
    (text) => window.page.whenDocs("main", "Package", {}, (docs) => docs.every((doc) => doc.summary === text)),
    summary,
  );
const withSummary = (summary) => some(COUNT).map((one) => ({ ...one, summary }));

for (const mode of ["synced", "incognito"]) {
  test(`in ${mode}, a server that dies and comes back is followed, offline and live again`, { timeout: 60_000 }, async (t) => {
    const { server, page } = await setUp(t, mode);
    for (const [round, signal] of [["one", "SIGKILL"], ["two", "SIGTERM"]]) {
      const offline = whenPhase(page, "offline");
      await server.stop(signal);
      const { error } = await offline;
      assert.ok(error === null || error.code === "offline", JSON.stringify(error));
      // Changed while no session could be informed.
      await server.import("demo", "Package", withSummary(round));
      await server.start();
      await whenPhase(page, "live");
      assert.deepEqual(await whenAll(page, round), withSummary(round).sort(byName));
    }
    // And `live` really means live.
    await server.import("demo", "Package", withSummary("three"));
    await whenAll(page, "three");
    await page.evaluate(() => window.page.sessions.main.session.close());
  });
}

test("a socket that breaks while requests pass loses no hint", { timeout: 60_000 }, async (t) => {
  const { server, proxy, page } = await setUp(t, "synced");
  for (let n = 0; n < 5; n++) {
    // At the same time, so that the hint goes into the broken socket.
    const imported = server.import("demo", "Package", withSummary(`round ${n}`));
    proxy.cutAll();
    await imported;
    await whenAll(page, `round ${n}`);
  }
  await whenPhase(page, "live");
});

test("a device without network waits for it, and goes on at once", { timeout: 60_000 }, async (t) => {
  const { server, browser, page } = await setUp(t, "synced");
  await browser.context.setOffline(true);
  await whenPhase(page, "offline");
  await server.import("demo", "Package", withSummary("meanwhile"));
  await browser.context.setOffline(false);
  await whenAll(page, "meanwhile");
  await whenPhase(page, "live");
});

test("a server restored from a copy is loaded anew, and what it lost is gone here too", { timeout: 60_000 }, async (t) => {
  const { server, page } = await setUp(t, "synced");
  // Written after the copy was made, and so lost with the rest.
  const copy = await server.copyData();
  await server.import("demo", "Package", [{ ...some(1)[0], name: "written-after-the-copy" }]);
  await page.evaluate((count) => window.page.whenDocs("main", "Package", {}, (docs) => docs.length === count).then(() => {}), COUNT + 1);
  await server.stop();
  await server.restoreData(copy);
  const [before] = JSON.parse(await server.command("epoch"));
  const [after] = JSON.parse(await server.command("epoch", "--renew"));
  assert.ok(after > before);
  await server.import("demo", "Package", withSummary("restored"));
  await server.start();
  assert.deepEqual(await whenAll(page, "restored"), withSummary("restored").sort(byName));
  await whenPhase(page, "live");
  await page.evaluate(() => window.page.sessions.main.session.setMode("avion"));
  assert.deepEqual(await whenAll(page, "restored"), withSummary("restored").sort(byName));
});
