// One round trip per pull: after one preflight request, the browser does not send another before each request.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { schema, some } from "../support/packages.mjs";
import { startProxy } from "../support/proxy.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

test("five requests of a session take one preflight", { timeout: 60_000 }, async (t) => {
  const server = await makeServer(t);
  await server.import("demo", "Package", some(3));
  await server.start();
  const [site, browser, proxy] = [await startSite(t), await openBrowser(t), await startProxy(t, server)];
  const page = await browser.page(site.url);
  await page.evaluate(async (options) => {
    const session = await window.page.start("main", { ...options, key: new Uint8Array(32) });
    await window.page.loaded("main", "Package", {});
    for (let n = 0; n < 5; n++) await session.put("Package", { name: `new ${n}`, section: "games" }).accepted;
  }, { org: "demo", schema, server: proxy.url });
  assert.ok(proxy.requests.length >= 5, `${proxy.requests.length} requests`);
  assert.equal(proxy.preflights, 1, `of ${proxy.requests.length} requests`);
});
