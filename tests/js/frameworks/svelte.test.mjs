// The stores of `escale/svelte`, by the functions of `svelte/store`.
import assert from "node:assert/strict";
import { test } from "node:test";
import { derived, get } from "svelte/store";

import { defOf, idle, opened, putPackage, treeText } from "./page.mjs";

import { count, document, live, pending, query, refused, status } from "../../../js/dist/svelte.js";

const games = { section: "games" };

test("a store calls at once, then at each change, and never twice with the same value", async () => {
  const { session, core } = await opened();
  const list = live(session, "Package", games, { keep: 0 });
  const seen = [];
  const stop = list.subscribe((value) => seen.push(value));
  assert.deepEqual(seen, [{ docs: [], ready: false, error: undefined }]);
  core.put(defOf(games), { name: "a" });
  core.becomeReady(defOf(games));
  await idle();
  assert.equal(get(list), seen.at(-1));
  assert.deepEqual([seen.at(-1).docs.length, seen.at(-1).ready], [1, true]);
  assert.equal(new Set(seen).size, seen.length);
  assert.equal(get(derived(list, ({ docs }) => docs.length)), 1);
  stop();
  await idle();
  assert.deepEqual(session.subscriptions(), []);
});

test("1,000 subscriptions that come and go leave nothing", async () => {
  const { session, core, listeners } = await opened();
  const before = listeners();
  for (let n = 0; n < 1_000; n++) {
    const stores = [
      live(session, "Package", { section: `s${n}` }, { keep: 0 }),
      document(session, "Package", [`p${n}`], { keep: 0 }),
      query(session.query("Package").where("size", ">", n)),
      status(session),
      pending(session),
      refused(session),
    ];
    for (const store of stores) get(store);
    // No more than a thousand at once.
    if (n % 100 === 0) await idle();
  }
  await idle();
  assert.equal(core.called("subscribe"), 2_000);
  assert.deepEqual(session.subscriptions(), []);
  assert.equal(listeners(), before);
});

test("a document has its items, a query its count, and both end with their subscribers", async () => {
  const { session, core } = await opened();
  const [tree, number] = [document(session, "Package", ["a"], { items: ["File"], keep: 0 }), count(session.query("Package"))];
  const [trees, numbers] = [[], []];
  const stops = [tree.subscribe((value) => trees.push(value)), number.subscribe((value) => numbers.push(value))];
  assert.deepEqual([treeText(trees[0]), numbers[0]], ["undefined  false", { count: 0, ready: false, error: undefined }]);
  putPackage(core);
  core.put("Package", { name: "c" }, { name: "b" });
  await idle();
  assert.deepEqual([treeText(trees.at(-1)), numbers.at(-1).count], ["a x,y true", 2]);
  assert.equal(get(tree), trees.at(-1), "the same object until something changes");
  for (const stop of stops) stop();
  await idle();
  assert.deepEqual(session.subscriptions(), ["Package"], "which the core itself holds");
  const asked = session.query("Package");
  await session.close();
  assert.equal(get(document(session, "Package", ["a"], { items: ["File"] })).error.code, "closed");
  assert.equal(get(count(asked)).error.code, "closed");
});

test("a query is asked again, and a session that closes is the error of its lists", async () => {
  const { session, core } = await opened();
  core.put("Package", { name: "a" });
  const found = [];
  const stop = query(session.query("Package")).subscribe(({ docs }) => found.push(docs.length));
  await idle();
  core.put("Package", { name: "b" });
  await idle();
  assert.deepEqual(found, [0, 1, 2]);
  stop();
  const list = live(session, "Package", games);
  const seen = [];
  list.subscribe(({ error }) => seen.push(error?.code));
  await session.close();
  assert.equal(seen.at(-1), "closed");
  assert.equal(get(live(session, "Package", games)).error.code, "closed");
  assert.equal(get(status(session)).phase, "closed");
});
