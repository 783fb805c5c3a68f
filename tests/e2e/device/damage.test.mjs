// R14: any damage to a stored record is noticed, set aside and fetched again, and the session goes on.
import assert from "node:assert/strict";
import { test } from "node:test";

import { openBrowser } from "../support/browser.mjs";
import { byName, schema, some } from "../support/packages.mjs";
import { makeServer } from "../support/server.mjs";
import { startSite } from "../support/site.mjs";

const COUNT = 500;
const KEY = Array.from({ length: 32 }, (_, i) => i * 7);

/** A page with a closed store that holds `COUNT` packages, in several records of each table. */
async function setUp(t) {
  const server = await makeServer(t, { options: ["--page-bytes", "60000"] });
  await server.import("demo", "Package", some(COUNT));
  await server.start();
  const [site, browser] = [await startSite(t), await openBrowser(t)];
  const page = await browser.page(site.url);
  const options = { org: "demo", schema, server: server.url };
  await page.evaluate(
    async ({ options: o, key }) => {
      window.options = { ...o, key: Uint8Array.from(key) };
      window.matches = [{}, { section: "games" }, { tags: "role::program" }];
      // Names of records reveal no order (R15): the last record of each table is known by watching the writes.
      window.lastWritten = {};
      const { put } = IDBObjectStore.prototype;
      IDBObjectStore.prototype.put = function (value, key) {
        window.lastWritten[this.name] = key;
        return put.call(this, value, key);
      };
      await window.page.start("main", window.options);
      await Promise.all(window.matches.map((match) => window.page.loaded("main", "Package", match)));
      await window.page.sessions.main.session.close();
      IDBObjectStore.prototype.put = put;
      [{ name: window.database }] = await window.page.stores();
    },
    { options, key: KEY },
  );
  return { server, page };
}

/** The documents of each match, with their properties in the order in which the session gives them. */
const expected = () => {
  const inOrder = (one) => Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)));
  const all = some(COUNT).sort(byName).map(inOrder);
  const games = all.filter(({ section }) => section === "games");
  return [all, games, all.filter(({ tags }) => tags.includes("role::program"))];
};

const MANNERS = {
  altered: (list, i) => {
    const bytes = list[i][1].slice();
    bytes[Math.floor(bytes.length / 2)] ^= 0x10;
    return list.with(i, [list[i][0], bytes]);
  },
  truncated: (list, i) => list.with(i, [list[i][0], list[i][1].slice(0, list[i][1].length - 9)]),
  emptied: (list, i) => list.with(i, [list[i][0], new Uint8Array()]),
  swapped: (list, i) => {
    const other = (i + 1) % list.length;
    return list.with(i, [list[i][0], list[other][1]]).with(other, [list[other][0], list[i][1]]);
  },
  "replaced by a text": (list, i) => list.with(i, [list[i][0], "not even bytes"]),
  deleted: (list, i) => list.filter((_, at) => at !== i),
};

for (const [table, what] of [["s", "state"], ["p", "page"]]) {
  test(`each ${what} record altered, truncated, swapped or deleted is noticed and fetched again`, { timeout: 120_000 }, async (t) => {
    const { page } = await setUp(t);
    const manners = Object.entries(MANNERS).map(([name, change]) => [name, `${change}`]);
    const results = await page.evaluate(
      async ({ table: damaged, manners: list, wanted }) => {
        const { page: e2e, options: o, matches, database } = window;
        const tables = ["s", "p"];
        const before = Object.fromEntries(await Promise.all(tables.map(async (one) => [one, await e2e.records(database, one)])));
        const same = (docs, i) => JSON.stringify(docs) === JSON.stringify(wanted[i]);
        const whole = (name) =>
          Promise.all(matches.map((match, i) => e2e.whenDocs(name, "Package", match, (docs) => same(docs, i))));
        const outcomes = [];
        for (const [manner, text] of list) {
          const change = new Function(`return ${text}`)();
          for (let i = 0; i < before[damaged].length; i++) {
            // The mark in the backup database would reveal each change, by its numbers.
            await e2e.forgetMark(database);
            for (const one of tables) {
              await e2e.restore(database, one, one === damaged ? change(before[one], i) : before[one]);
            }
            await e2e.start("main", o);
            await whole("main");
            await e2e.whenStatus("main", (s) => s.phase === "live" && s.storage === "ok" && s.error === null);
            const { session, log } = e2e.sessions.main;
            const noticed = log.some((s) => s.storage === "lost" || s.error?.code === "record_damaged");
            await session.close();
            // Records that were fetched again are stored again.
            await e2e.start("after", { ...o, mode: "avion" });
            await whole("after");
            const after = e2e.sessions.after.session.status.value;
            await e2e.sessions.after.session.close();
            outcomes.push({ manner, i, noticed, left: [after.storage, after.damaged.documents, after.damaged.collections] });
          }
        }
        const last = before[damaged].findIndex(([key]) => indexedDB.cmp(key, window.lastWritten[damaged]) === 0);
        return { count: before[damaged].length, last, outcomes };
      },
      { table, manners, wanted: expected() },
    );
    console.log(`# ${results.count} ${what} records, ${results.outcomes.length} damages`);
    assert.ok(results.count > 3);
    for (const { manner, left } of results.outcomes) assert.deepEqual(left, ["ok", 0, 0], manner);
    assert.ok(results.last >= 0, "the last record written is one of those that rest");
    const unnoticed = results.outcomes.filter(({ noticed }) => !noticed).map(({ manner, i }) => [manner, i]);
    // The log without its last record is an older log, and is valid. Only the mark would reveal the loss.
    assert.deepEqual(unnoticed, table === "s" ? [["deleted", results.last]] : []);
  });
}

test("in avion damaged documents are counted, the others are there, and the next synced brings them back", { timeout: 60_000 }, async (t) => {
  const { page } = await setUp(t);
  const result = await page.evaluate(async (wanted) => {
    const { page: e2e, options: o, database } = window;
    const pages = await e2e.records(database, "p");
    await e2e.restore(database, "p", pages.slice(1));
    await e2e.start("main", { ...o, mode: "avion" });
    const { session } = e2e.sessions.main;
    const docs = await e2e.whenDocs("main", "Package", {}, (_, ready) => ready);
    const status = await e2e.whenStatus("main", ({ storage }) => storage === "lost");
    await session.setMode("synced");
    await e2e.whenDocs("main", "Package", {}, (list) => JSON.stringify(list) === JSON.stringify(wanted));
    const after = await e2e.whenStatus("main", ({ storage, phase }) => storage === "ok" && phase === "live");
    await session.close();
    return { held: docs.length, status, after };
  }, expected()[0]);
  const lost = result.status.damaged.documents;
  console.log(`# ${lost} documents of ${COUNT} lost with one page`);
  assert.ok(lost > 0 && lost < COUNT);
  assert.equal(result.held, COUNT - lost);
  assert.equal(result.status.error.code, "record_damaged");
  assert.deepEqual([result.after.damaged.documents, result.after.error], [0, null]);
});
