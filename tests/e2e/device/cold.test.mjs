// 20,000 documents: subscribed, opened cold, closed, opened again. The times are printed, never judged.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { byName, packages, schema } from "../support/packages.mjs";
import { startProxy } from "../support/proxy.mjs";
import { packagesServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const print = (what, times) => {
  const list = Object.entries(times).map(([name, value]) => `${name} ${typeof value === "number" ? `${Math.round(value)} ms` : value}`);
  console.log(`# ${what}: ${list.join(", ")}`);
};

/** Opens in avion and reads everything; returns the times. */
const openAgain = (page, options) =>
  page.evaluate(async (o) => {
    const { rehearsal } = await import("/pkg/rehearsal.js");
    const t0 = performance.now();
    await window.page.init(undefined, { rehearsal });
    const t1 = performance.now();
    const session = await window.page.start("main", { ...o, mode: "avion" });
    const t2 = performance.now();
    const docs = await window.page.whenDocs("main", "Package", {}, (list, ready) => ready && list.length > 0);
    const t3 = performance.now();
    await session.close();
    const t4 = performance.now();
    window.names = docs.map(({ name, summary }) => [name, summary]);
    return { "wasm started": t1 - t0, "session open": t2 - t1, "all documents read": t3 - t2, closed: t4 - t3 };
  }, options);

test("20,000 documents are subscribed to, opened cold, closed and opened again", { timeout: 180_000 }, async (t) => {
  const server = await packagesServer(t);
  await server.whenSettled("demo");
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const options = { org: "demo", schema, server: server.url, passphrase: "correct horse battery staple" };
  let page = await browser.page(site.url);
  const loaded = await page.evaluate(async (o) => {
    const t0 = performance.now();
    const session = await window.page.start("main", o);
    const t1 = performance.now();
    const docs = await window.page.loaded("main", "Package", {});
    const t2 = performance.now();
    await window.page.whenStatus("main", ({ phase, storage }) => phase === "live" && storage === "ok");
    await session.flush();
    const { store } = await session.inspect({ limit: 0 });
    const t3 = performance.now();
    await session.close();
    const t4 = performance.now();
    const records = Object.values(store.counts).reduce((sum, n) => sum + n, 0);
    return {
      count: docs.length,
      times: { "session open": t1 - t0, "all documents shown": t2 - t1, "all at rest, and inspected": t3 - t2, closed: t4 - t3 },
      rest: { records, bytes: store.bytes },
    };
  }, options);
  assert.equal(loaded.count, packages.length);
  print("first load", loaded.times);
  console.log(`# at rest: ${loaded.rest.records} records, ${loaded.rest.bytes} bytes`);
  assert.ok(loaded.rest.records < packages.length / 10, "documents rest many to a record");

  await browser.close();
  await browser.open();
  page = await browser.page(site.url);
  print("cold, in a new browser", await openAgain(page, options));
  const expected = [...packages].sort(byName).map(({ name, summary }) => [name, summary]);
  assert.deepEqual(await page.evaluate(() => window.names), expected);
  print("again, in the same page", await openAgain(page, options));
  assert.deepEqual(await page.evaluate(() => window.names), expected);

  // With the server, only changes are pulled: none. A proxy sees the messages.
  const proxy = await startProxy(t, server);
  const again = await page.evaluate(async (o) => {
    const t0 = performance.now();
    const session = await window.page.start("main", o);
    await window.page.whenStatus("main", ({ phase }) => phase === "live");
    const t1 = performance.now();
    const held = (await window.page.loaded("main", "Package", {})).length;
    await session.close();
    return { held, times: { "live again": t1 - t0 } };
  }, { ...options, server: proxy.url });
  const { requests } = proxy;
  print("in step with the server", { ...again.times, requests: `${requests.length}`, transferred: `${proxy.bytesSince(0)} bytes` });
  assert.equal(again.held, packages.length);
  assert.ok(requests.every(({ subs }) => subs.length === 1 && subs[0].length === 2 && subs[0][0] === "Package" && subs[0][1] > 0));
  // A request that the session's end interrupted has no reply.
  const replies = requests.flatMap(({ reply }) => reply ?? []);
  assert.ok(replies.length > 0);
  for (const { parts } of replies) {
    const [{ def, rows = [], left = [], ...others }] = parts;
    assert.deepEqual([def, rows, left, others], ["Package", [], [], { total: 0 }], "nothing is transferred");
  }
});
