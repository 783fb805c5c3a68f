// A first load that is interrupted continues from its cursor.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { byName, schema, some } from "../support/packages.mjs";
import { startProxy } from "../support/proxy.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const COUNT = 2_000;

for (const cut of ["the page is closed", "the network goes"]) {
  test(`a first load goes on from its cursor when ${cut} in the middle`, { timeout: 60_000 }, async (t) => {
    const server = await makeServer(t, { options: ["--page-bytes", "100000"] });
    await server.import("demo", "Package", some(COUNT));
    await server.start();
    const [proxy, site, browser] = [await startProxy(t, server), await startSite(t), await openBrowser(t)];
    const options = { org: "demo", schema, server: proxy.url, passphrase: "a passphrase" };
    let page = await browser.page(site.url);

    // Two pages pass, and nothing after them.
    const third = new Promise((resolve) => {
      proxy.cuts = () => {
        const pages = proxy.requests.filter(({ reply }) => reply?.parts.some(({ rows }) => rows?.length)).length;
        if (pages < 2) return false;
        resolve();
        return true;
      };
    });
    await page.evaluate(async (o) => {
      const session = await window.page.start("main", o);
      session.live("Package", {}, () => {});
    }, options);
    await third;
    if (cut === "the page is closed") {
      await page.close();
      page = await browser.page(site.url);
      proxy.cuts = () => false;
      await page.evaluate((o) => window.page.start("main", o).then(() => {}), options);
    } else {
      await page.evaluate(() => window.page.whenStatus("main", ({ phase }) => phase === "offline"));
      proxy.cuts = () => false;
    }
    const docs = await page.evaluate(() => window.page.loaded("main", "Package", {}));
    assert.deepEqual(docs, some(COUNT).sort(byName));

    const answered = proxy.requests.filter(({ reply }) => reply);
    const again = answered[2];
    assert.ok(again.subs.every(([, v, cursor]) => v === 0 && typeof cursor === "string"), "it asks on with a cursor");
    const rows = answered.map(({ reply }) => reply.parts.flatMap((part) => (part.rows ?? []).map(({ pk }) => pk)));
    const seen = new Map();
    rows.forEach((pks, reply) => pks.forEach((pk) => seen.set(pk, [...(seen.get(pk) ?? []), reply])));
    const repeated = [...seen.values()].filter((replies) => replies.length > 1);
    const inFlight = repeated.filter(([reply]) => reply === 1);
    console.log(`# ${answered.length} pages, ${repeated.length} rows transferred twice`);
    assert.equal(seen.size, COUNT);
    assert.equal(repeated.length, inFlight.length, "no row is transferred twice but those of the page in flight");
    if (cut === "the network goes") assert.equal(repeated.length, 0);
    await page.evaluate(() => window.page.sessions.main.session.close());
  });
}
