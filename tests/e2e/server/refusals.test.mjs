// Refused openings: each has its error code, and none of them writes anything.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { schema, some } from "../support/packages.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const PASSPHRASE = "the right passphrase";

async function setUp(t, documents = some(50)) {
  const server = await makeServer(t);
  await server.import("demo", "Package", documents);
  await server.start();
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  const options = { org: "demo", schema, server: server.url, passphrase: PASSPHRASE };
  const make = () =>
    page.evaluate(async (o) => {
      await window.page.start("main", o);
      await window.page.loaded("main", "Package", {});
      await window.page.sessions.main.session.close();
    }, options);
  return { server, site, browser, page, options, make };
}

const dump = (page) => page.evaluate(() => window.page.dump());
const refused = (page, options) => page.evaluate((o) => window.page.tryToStart("other", o), options);

function assertNamed(error, code) {
  assert.equal(error?.code, code, JSON.stringify(error));
  assert.equal(error.name, "EscaleError");
  assert.ok(error.message.length > 10 && error.cure.length > 10, JSON.stringify(error));
}

test("a wrong passphrase is refused and writes nothing", { timeout: 60_000 }, async (t) => {
  const { page, options, make } = await setUp(t);
  await make();
  const before = await dump(page);
  for (const mode of ["synced", "avion"]) {
    assertNamed(await refused(page, { ...options, mode, passphrase: "the wrong passphrase" }), "wrong_passphrase");
  }
  const withKey = await page.evaluate(
    (o) => window.page.tryToStart("other", { ...o, passphrase: undefined, key: new Uint8Array(32) }),
    options,
  );
  assertNamed(withKey, "wrong_passphrase");
  assert.deepEqual(await dump(page), before);
  assert.equal(await refused(page, { ...options, mode: "avion" }), null, "the right one opens");
});

test("avion with no store is refused and makes none", { timeout: 60_000 }, async (t) => {
  const { page, options } = await setUp(t);
  assertNamed(await refused(page, { ...options, mode: "avion" }), "no_store");
  assert.deepEqual(await page.evaluate(() => indexedDB.databases()), []);
});

test("a header altered anywhere is a damaged store, and nothing is written", { timeout: 60_000 }, async (t) => {
  const { page, options, make } = await setUp(t);
  await make();
  const length = await page.evaluate(async () => {
    [{ name: window.database }] = await window.page.stores();
    window.header = await window.page.records(window.database, "h");
    return window.header[0][1].length;
  });
  const changes = [0, 4, 5, 10, 40, length - 40, length - 1].map((at) => ({ at })).concat([{ to: 0 }, { to: 20 }, { to: length - 1 }]);
  for (const change of changes) {
    await page.evaluate(async ({ at, to }) => {
      const [[key, value]] = window.header;
      const bytes = value.slice(0, to);
      if (at !== undefined) bytes[at] ^= 1;
      await window.page.restore(window.database, "h", [[key, bytes]]);
    }, change);
    const before = await dump(page);
    for (const mode of ["synced", "avion"]) {
      assertNamed(await refused(page, { ...options, mode }), "store_damaged");
      assert.deepEqual(await dump(page), before, JSON.stringify(change));
    }
  }
  await page.evaluate(() => window.page.restore(window.database, "h", window.header));
  assert.equal(await refused(page, { ...options, mode: "avion" }), null, "put back, it opens");
});

test("a store of a newer version is refused and left untouched", { timeout: 60_000 }, async (t) => {
  const { page, options, make } = await setUp(t);
  await make();
  await page.evaluate(async () => {
    const [{ name, version }] = await window.page.stores();
    const database = await window.page.connect(name, version + 1, (upgraded) => upgraded.createObjectStore("new"));
    database.close();
  });
  const before = await dump(page);
  for (const mode of ["synced", "avion"]) {
    assertNamed(await refused(page, { ...options, mode }), "store_too_new");
  }
  assert.deepEqual(await dump(page), before);
});

test("a schema that contradicts the store is refused and writes nothing", { timeout: 60_000 }, async (t) => {
  const { page, options, make } = await setUp(t);
  await make();
  const before = await dump(page);
  const other = { ...schema, Package: { ...schema.Package, key: ["sha256"] } };
  for (const mode of ["synced", "avion"]) {
    assertNamed(await refused(page, { ...options, mode, schema: other }), "schema_mismatch");
  }
  assert.deepEqual(await dump(page), before);
  assert.equal(await refused(page, { ...options, mode: "avion" }), null, "the store's own schema opens it");
});

test("a page whose policy forbids wasm says so, and what to allow", { timeout: 60_000 }, async (t) => {
  const { browser, options } = await setUp(t);
  const strict = await startSite(t, { policy: "script-src 'self'" });
  const page = await browser.page(strict.url);
  const error = await refused(page, options);
  assertNamed(error, "wasm_forbidden");
  assert.match(error.cure, /wasm-unsafe-eval/);
  const allowing = await startSite(t, { policy: "script-src 'self' 'wasm-unsafe-eval'" });
  assert.equal(await refused(await browser.page(allowing.url), options), null);
});

test("without a secure context only incognito opens", { timeout: 60_000 }, async (t) => {
  const { browser, site, options } = await setUp(t);
  const insecure = await openBrowser(t, {
    args: [...browser.args, "--host-resolver-rules=MAP elsewhere.test 127.0.0.1"],
  });
  const page = await insecure.page(site.url.replace("localhost", "elsewhere.test"));
  assert.equal(await page.evaluate(() => window.isSecureContext), false);
  assertNamed(await refused(page, options), "insecure_context");
  assert.equal(await refused(page, { ...options, mode: "incognito" }), null);
});
