// A device without room: the session says so, and goes on in memory until there is room again.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { byName, schema, some } from "../support/packages.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const COUNT = 300;

async function setUp(t, quotaSize) {
  const server = await makeServer(t);
  await server.import("demo", "Package", some(COUNT));
  await server.start();
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  const devtools = await browser.context.newCDPSession(page);
  const { origin } = new URL(site.url);
  if (quotaSize) await devtools.send("Storage.overrideQuotaForOrigin", { origin, quotaSize });
  await page.evaluate(async (o) => {
    window.options = { ...o, key: new Uint8Array(32) };
    await window.page.start("main", window.options);
    await window.page.loaded("main", "Package", {});
    await window.page.whenStatus("main", ({ phase }) => phase === "live");
  }, { org: "demo", schema, server: server.url });
  return { server, page, devtools, origin };
}

const whenAll = (page, name, summary) =>
  page.evaluate(
    ([session, text]) => window.page.whenDocs(session, "Package", {}, (docs) => docs.length > 0 && docs.every((doc) => doc.summary === text)),
    [name, summary],
  );
const whenStorage = (page, storage) =>
  page.evaluate((wanted) => window.page.whenStatus("main", (status) => status.storage === wanted), storage);
const withSummary = (summary) => some(COUNT).map((one) => ({ ...one, summary }));

test("on a full device the session goes on in memory, and writes once there is room", { timeout: 90_000 }, async (t) => {
  // Room for the store, and for some of the documents.
  const { server, page, devtools, origin } = await setUp(t, 60_000);
  const { error } = await whenStorage(page, "full");
  assert.equal(error.code, "storage_full");
  assert.ok(error.cure.length > 10);
  await server.import("demo", "Package", withSummary("in memory only"));
  assert.deepEqual(await whenAll(page, "main", "in memory only"), withSummary("in memory only").sort(byName));
  await devtools.send("Storage.overrideQuotaForOrigin", { origin });
  await whenStorage(page, "ok");
  await page.evaluate(async () => {
    await window.page.sessions.main.session.close();
    await window.page.start("after", { ...window.options, mode: "avion" });
  });
  assert.deepEqual(await whenAll(page, "after", "in memory only"), withSummary("in memory only").sort(byName));
});
