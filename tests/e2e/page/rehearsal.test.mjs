// The rehearsal of an opening, which a page asks `init` for. It finishes, leaves nothing behind, and its failure has no
// effect.
import assert from "node:assert/strict";
import { test } from "node:test";

import { packagesPage } from "../support/packages-page.mjs";

const COUNT = 20;

async function setUp(t) {
  const { page, options } = await packagesPage(t, COUNT, { passphrase: "a passphrase" });
  const opened = (how) =>
    page.evaluate(
      async (o) => {
        await window.page.start("main", o);
        return (await window.page.loaded("main", "Package", {})).length;
      },
      { ...options, ...how },
    );
  return { page, opened };
}

test("it comes to its end, and leaves no database and no lock", { timeout: 60_000 }, async (t) => {
  const { page, opened } = await setUp(t);
  const left = await page.evaluate(async () => {
    const [{ opener }, { rehearse }] = await Promise.all([import("/modules/package.js"), import("/modules/rehearsal.js")]);
    // Two at a time are as harmless as one.
    await Promise.all([rehearse(opener()), rehearse(opener())]);
    const { held, pending } = await navigator.locks.query();
    return { databases: (await window.page.allDatabases()).map(({ name }) => name), locks: [...held, ...pending].map(({ name }) => name) };
  });
  assert.deepEqual(left, { databases: [], locks: [] });
  assert.equal(await opened(), COUNT);
});

test("its databases have all that the core asks of them", { timeout: 60_000 }, async (t) => {
  const { page } = await setUp(t);
  const missing = await page.evaluate(async () => {
    const [{ opener }, { rehearse }, { memoryDatabases }] = await Promise.all(
      ["package", "rehearsal", "wasm/memory-databases"].map((name) => import(`/modules/${name}.js`)),
    );
    const missing = new Set();
    const isPlain = (value) => typeof value === "object" && value !== null && !ArrayBuffer.isView(value) && !(value instanceof ArrayBuffer) && !Array.isArray(value);
    const watched = (object) =>
      new Proxy(object, {
        get(target, name) {
          if (typeof name === "string" && name !== "then" && !(name in target)) missing.add(name);
          const value = Reflect.get(target, name, target);
          if (typeof value === "function") {
            return (...values) => {
              const given = value.apply(target, values);
              return isPlain(given) ? watched(given) : given;
            };
          }
          return isPlain(value) ? watched(value) : value;
        },
        set(target, name, value) {
          if (!(name in target)) missing.add(name);
          target[name] = value;
          return true;
        },
      });
    await rehearse(opener(), watched(memoryDatabases()));
    return [...missing];
  });
  // The core works without a list of databases if there is none.
  assert.deepEqual(missing, ["databases"]);
});

test("it needs no network", { timeout: 60_000 }, async (t) => {
  const { page } = await setUp(t);
  await page.evaluate(() => Promise.all(["package", "rehearsal"].map((name) => import(`/modules/${name}.js`))));
  const isOnline = await page.evaluate(async () => {
    const { wasm } = await import("/modules/package.js");
    await wasm.start();
    return navigator.onLine;
  });
  await page.context().setOffline(true);
  const ended = await page.evaluate(async () => {
    const [{ opener }, { rehearse }] = await Promise.all([import("/modules/package.js"), import("/modules/rehearsal.js")]);
    await rehearse(opener());
    return { isOnline: navigator.onLine, locks: (await navigator.locks.query()).held.length };
  });
  assert.deepEqual({ before: isOnline, ...ended }, { before: true, isOnline: false, locks: 0 });
});

test("what the browser's own databases do is tried with them all the same", { timeout: 60_000 }, async (t) => {
  const { page, opened } = await setUp(t);
  const tried = await page.evaluate(async () => {
    const { add } = IDBObjectStore.prototype;
    window.tried = 0;
    IDBObjectStore.prototype.add = function (value, key) {
      if (key === "trial") window.tried += 1;
      return add.call(this, value, key);
    };
    const { rehearsal } = await import("/pkg/rehearsal.js");
    await window.page.init(undefined, { rehearsal });
    return window.tried;
  });
  assert.equal(tried, 0, "the rehearsal asks the browser nothing");
  assert.equal(await opened(), COUNT);
  assert.equal(await page.evaluate(() => window.tried), 2, "the trial adds one key twice");
});

test("if it cannot be done, or is not asked for, the wasm is loaded all the same", { timeout: 60_000 }, async (t) => {
  const { page, opened } = await setUp(t);
  const asked = await page.evaluate(async () => {
    const { request } = LockManager.prototype;
    let locks = 0;
    LockManager.prototype.request = function (...values) {
      locks += 1;
      return request.apply(this, values);
    };
    const { rehearsal } = await import("/pkg/rehearsal.js");
    await window.page.init();
    const unwanted = locks;
    const bound = IDBKeyRange.bound;
    IDBKeyRange.bound = () => {
      throw new Error("no ranges here");
    };
    await window.page.init(undefined, { rehearsal });
    IDBKeyRange.bound = bound;
    LockManager.prototype.request = request;
    return { unwanted, wanted: locks };
  });
  assert.equal(asked.unwanted, 0);
  assert.ok(asked.wanted > 0, "it was begun, and failed");
  assert.equal(await opened({ mode: "synced" }), COUNT);
});
