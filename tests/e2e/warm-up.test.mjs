// Warming up ahead: the worker really opens a session, leaves nothing behind, and is missed by nobody.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "./support/browser.mjs";
import { schema, some } from "./support/packages.mjs";
import { makeServer } from "./support/server.mjs";
import { startSite } from "./support/site.mjs";

const COUNT = 20;

async function setUp(t, policy) {
  const server = await makeServer(t);
  await server.import("demo", "Package", some(COUNT));
  await server.start();
  const [site, browser] = [await startSite(t, { policy }), await openBrowser(t)];
  const page = await browser.page(site.url);
  const warm = () => page.evaluate(async () => (await import("/pkg/warm-up.js")).warmUp());
  const left = () => page.evaluate(async () => (await window.page.allDatabases()).map(({ name }) => name));
  const opened = () =>
    page.evaluate(
      async (options) => {
        await window.page.start("main", options);
        return (await window.page.loaded("main", "Package", {})).length;
      },
      { org: "demo", schema, server: server.url, passphrase: "a passphrase" },
    );
  return { warm, left, opened };
}

test("a page that warms up has no database of it afterwards, and opens a session", { timeout: 60_000 }, async (t) => {
  const { warm, left, opened } = await setUp(t);
  assert.equal(await warm(), true);
  assert.deepEqual(await left(), []);
  assert.equal(await warm(), true, "once is enough");
  assert.equal(await opened(), COUNT);
});

test("under a policy without workers nothing is warmed up, and a session opens", { timeout: 60_000 }, async (t) => {
  const { warm, left, opened } = await setUp(t, "worker-src 'none'");
  assert.equal(await warm(), false);
  assert.deepEqual(await left(), []);
  assert.equal(await opened(), COUNT);
});
