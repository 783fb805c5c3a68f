// Bytes on the wire (R90, R91): a proxy counts those of a whole class, and then those of lists of its collections. The
// first documents of a large load are timed on a slow line.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { byName, packages, schema } from "../support/packages.mjs";
import { startProxy } from "../support/proxy.mjs";
import { packagesServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

/** 1.6 Mbit/s and 150 ms. */
const LINE = { offline: false, latency: 150, downloadThroughput: 200_000, uploadThroughput: 200_000 };

/** The largest sections and their packages. */
function largestSections(count) {
  const sections = Object.entries(grouped());
  return sections.sort(([, a], [, b]) => b.length - a.length).slice(0, count);
}

function grouped() {
  const groups = {};
  for (const one of packages) (groups[one.section] ??= []).push(one);
  return groups;
}

test("a class crosses once, and lists of its collections with no documents", { timeout: 120_000 }, async (t) => {
  const server = await packagesServer(t);
  // Otherwise the end of the import would arrive again with the changes.
  await server.whenSettled("demo");
  const [proxy, site, browser] = [await startProxy(t, server), await startSite(t), await openBrowser(t)];
  proxy.encodings = "gzip, deflate, br, zstd";
  const options = { org: "demo", schema, server: proxy.url, passphrase: "a passphrase" };
  const page = await browser.page(site.url);
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Network.enable");
  await devtools.send("Network.emulateNetworkConditions", LINE);
  const first = await page.evaluate(async (o) => {
    const session = await window.page.start("main", o);
    const opened = performance.now();
    await new Promise((resolve) => {
      session.live("Package", {}, (docs) => docs.length > 0 && resolve());
    });
    return performance.now() - opened;
  }, options);
  await devtools.send("Network.emulateNetworkConditions", { ...LINE, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  const whole = await page.evaluate(() => window.page.loaded("main", "Package", {}));
  assert.equal(whole.length, packages.length);
  const forClass = proxy.bytesSince(0);

  // With no network, each list is ready and complete.
  await server.stop();
  const asked = proxy.requests.length;
  const sections = largestSections(5);
  for (const [section, expected] of sections) {
    const docs = await page.evaluate((section) => window.page.loaded("main", "Package", { section }), section);
    assert.deepEqual(docs, expected.sort(byName), section);
  }
  await server.start();
  await page.evaluate(() => window.page.whenStatus("main", ({ phase }) => phase === "live"));
  const forLists = proxy.bytesSince(asked);
  const [documents, megabytes] = [sections.reduce((sum, [, all]) => sum + all.length, 0), (bytes) => (bytes / 1e6).toFixed(2)];
  console.log(
    `# proof: bytes | a class crosses once, lists of its collections with no documents | ${packages.length} documents, then ` +
      `5 lists of ${documents} | ${megabytes(forClass)} MB, then ${forLists} bytes`,
  );
  console.log(`# the first documents after ${Math.round(first)} ms on 1.6 Mbit/s and 150 ms`);
  assert.ok(forClass <= 3_600_000, `${forClass} bytes for the class`);
  assert.ok(forLists <= 2_000, `${forLists} bytes for five lists`);
  await page.evaluate(() => window.page.sessions.main.session.close());
});
