// Queries over the finished package, in Node over fake-indexeddb: from the device, live, and after a reopening.
import assert from "node:assert/strict";
import { test } from "node:test";

import "fake-indexeddb/auto";

import { makePageServer } from "../../e2e/support/in-page/page-server.js";

/** Collects the calls of a callback; `next` waits for the call of that number. */
function heard() {
  const calls = [];
  let wake = () => {};
  const next = (number) =>
    new Promise((resolve) => {
      wake = () => calls.length >= number && resolve(calls[number - 1]);
      wake();
    });
  return { calls, next, callback: (value) => (calls.push(value), wake()) };
}

const numbers = (docs) => docs.map(({ id }) => Number(id));

test("queries page through documents, live lists follow them, and both work offline", async () => {
  const { defineSchema, EscaleError, open, wipe } = await import("escale");
  const schema = defineSchema({
    Book: {
      key: ["id"],
      collections: { shelf: { key: ["shelf"], mutable: true } },
      indexes: { pages: "integer", title: "string", words: "string[]", code: "hash" },
    },
    Note: { key: ["id"], collections: { shelf: { key: ["shelf"] } } },
  });
  const { adapter } = makePageServer(schema);
  const options = { org: "queries", schema, server: adapter, key: new Uint8Array(32) };
  let session = await open(options);
  await session.collection("Book", {}).whenReady();
  const titles = ["\u{c9}t\u{e9}", "\u{e9}t\u{e9}", "zoo", "\u{1f600}", "\u{fffd}", "a"];
  session.batch((tx) => {
    for (let n = 0; n < 60; n++) {
      const id = String(n).padStart(2, "0");
      tx.put("Book", { id, shelf: n % 2 ? "odd" : "even", pages: n % 7, title: titles[n % 6], words: [`w${n % 3}`, "all"], code: `c${n % 5}` });
    }
  });
  session.put("Book", { id: "none", shelf: "odd" });
  await session.flush();
  await session.close();

  session = await open({ ...options, mode: "avion" });
  const books = session.query("Book");
  assert.equal(await books.count(), 61);
  assert.equal(await books.where("pages", ">=", 0).count(), 60, "a book without pages is not in the index");
  assert.deepEqual(numbers(await books.where("pages", "==", 3).where("words", "contains", "w0").docs()), [3, 24, 45]);
  assert.deepEqual(numbers(await books.where("code", "in", ["c1", "c4"]).limit(4).docs()), [1, 4, 6, 9]);
  const byTitle = await books.orderBy("title", "desc").docs();
  assert.deepEqual([...new Set(byTitle.map(({ title }) => title))], ["\u{1f600}", "\u{fffd}", "\u{e9}t\u{e9}", "zoo", "a", "\u{c9}t\u{e9}"].sort((a, b) => b.codePointAt(0) - a.codePointAt(0)));
  assert.equal(await books.where("title", "startsWith", "\u{e9}").count(), 10);

  // Page by page, nothing is repeated or skipped, while documents change behind the cursor.
  const listed = [];
  let page = books.orderBy("pages").limit(7);
  for (let docs = await page.docs(); docs.length > 0; docs = await page.after(docs.at(-1)).docs()) {
    listed.push(...docs);
    assert.equal(await session.put("Book", { ...listed[0], shelf: "moved" }).saved, "device");
  }
  assert.equal(new Set(numbers(listed)).size, 60);
  assert.ok(listed.every((book, place) => place === 0 || listed[place - 1].pages <= book.pages));

  // A match must be subscribed to, and the error says so.
  const notes = session.query("Note").in({ shelf: "odd" });
  await assert.rejects(notes.docs(), (error) => error instanceof EscaleError && error.code === "bad_option" && /live\(\) or collection\(\)/.test(error.message));
  assert.throws(() => notes.live(() => {}), { code: "bad_option" });
  assert.equal(await books.in({ shelf: "even" }).count(), 29, "the whole class is loaded");
  for (const [ask, code] of [
    [() => books.where("shelf", "==", "odd").docs(), "unknown_index"],
    [() => books.where("pages", "startsWith", "1").docs(), "bad_option"],
    [() => books.where("pages", "==", "1").docs(), "bad_option"],
    [() => books.orderBy("words").docs(), "bad_option"],
    [() => books.orderBy("pages").after({ id: "none" }).docs(), "bad_option"],
    [() => books.orderBy("pages").after({ pages: 1 }).docs(), "bad_key"],
  ]) {
    await assert.rejects(async () => ask(), { name: "EscaleError", code });
  }

  // A live list and a live count, each called once for a burst.
  const top = heard();
  const count = heard();
  const stop = books.orderBy("pages", "desc").limit(3).live(top.callback);
  books.where("pages", ">", 5).liveCount(count.callback);
  const [first, atFirst] = [await top.next(1), await count.next(1)];
  assert.deepEqual([first.map(({ pages }) => pages), atFirst], [[6, 6, 6], 8]);
  session.batch((tx) => {
    for (let n = 0; n < 5; n++) tx.put("Book", { id: `new${n}`, shelf: "odd", pages: 100 + n });
  });
  const second = await top.next(2);
  assert.deepEqual([second.map(({ id }) => id), await count.next(2)], [["new4", "new3", "new2"], 13]);
  session.delete("Book", ["new4"]);
  const third = await top.next(3);
  assert.deepEqual(third.map(({ id }) => id), ["new3", "new2", "new1"]);
  assert.equal(third[0], second[1], "an unchanged document is the same object");
  stop();
  session.delete("Book", ["new3"]);
  await count.next(4);
  assert.deepEqual([top.calls.length, count.calls], [3, [8, 13, 12, 11]]);
  await session.close();

  // A subscribed match: only its members are listed.
  session = await open(options);
  await session.collection("Book", { shelf: "odd" }).whenReady();
  const members = await session.query("Book").in({ shelf: "odd" }).orderBy("pages").docs();
  assert.ok(members.length > 0 && members.every(({ shelf }) => shelf === "odd"));
  await session.wipe({ drafts: "delete" });
  await wipe({ org: "queries" });
});

test("an index of booleans answers equality and order, on the device and again after a change", async () => {
  const { defineSchema, open } = await import("escale");
  const schema = defineSchema({ Todo: { key: ["id"], indexes: { done: "boolean", due: "integer" } } });
  const { adapter } = makePageServer(schema);
  const session = await open({ org: "booleans", schema, server: adapter, mode: "incognito" });
  await session.collection("Todo", {}).whenReady();
  session.batch((tx) => {
    for (let n = 0; n < 9; n++) tx.put("Todo", { id: `0${n}`, done: n % 3 === 0, due: 9 - n });
    tx.put("Todo", { id: "none" });
  });
  const todos = session.query("Todo");
  assert.deepEqual(numbers(await todos.where("done", "==", true).docs()), [0, 3, 6]);
  assert.deepEqual(numbers(await todos.where("done", "==", false).orderBy("due").limit(3).docs()), [8, 7, 5]);
  const all = await todos.orderBy("done").docs();
  assert.deepEqual(all.map(({ done }) => done), [...Array(6).fill(false), ...Array(3).fill(true)]);
  const next = await todos.orderBy("done").after(all[5]).docs();
  assert.deepEqual(next.map(({ id }) => id), all.slice(6).map(({ id }) => id));
  const unfinished = heard();
  todos.where("done", "==", false).liveCount(unfinished.callback);
  assert.equal(await unfinished.next(1), 6);
  session.patch("Todo", ["01"], { done: true });
  assert.equal(await unfinished.next(2), 5);
  for (const operand of ["true", 1]) {
    await assert.rejects(todos.where("done", "==", operand).docs(), { code: "bad_option", message: /index done/ });
  }
  await assert.rejects(todos.where("done", "<", true).docs(), { code: "bad_option" });
  await session.close();
});
