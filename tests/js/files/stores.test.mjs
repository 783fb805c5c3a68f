// The suite of every store of records: the database and its twin in memory.
import assert from "node:assert/strict";
import { test } from "node:test";

import { IDBFactory } from "fake-indexeddb";

import { DatabaseStore } from "../../../js/dist/files/database.js";
import { MemoryStore } from "../../../js/dist/files/store.js";
import { codeOf } from "./support.mjs";

const bytes = (...values) => new Uint8Array(values);
const STORES = { database: () => new DatabaseStore(new IDBFactory(), "x-files"), memory: () => new MemoryStore(1_000) };

for (const [name, make] of Object.entries(STORES)) {
  test(`${name}: records are read as they were written, and are the caller's own`, async () => {
    const store = make();
    const given = bytes(1, 2, 3);
    assert.equal(await store.write({ put: [["c", "a", given], ["d", "a", bytes(9)], ["c", "empty", bytes()]] }), true);
    given[0] = 7;
    const read = await store.read("c", "a");
    assert.deepEqual([...read], [1, 2, 3]);
    read[1] = 7;
    assert.deepEqual([...(await store.read("c", "a"))], [1, 2, 3]);
    assert.deepEqual([...(await store.read("d", "a"))], [9]);
    assert.equal((await store.read("c", "empty")).length, 0);
    assert.equal(await store.read("c", "b"), undefined);
    assert.deepEqual((await store.names("c")).sort(), ["a", "empty"]);
    store.end();
  });

  test(`${name}: a change happens only if each condition holds, and then as a whole`, async () => {
    const store = make();
    await store.write({ put: [["d", "x", bytes(1)], ["c", "k", bytes(5)]] });
    const put = [["d", "x", bytes(2)], ["c", "new", bytes(3)]];
    const remove = [["c", "k"]];
    const refused = [
      { was: [["x", bytes(0)]] },
      { was: [["x", undefined]] },
      { was: [["y", bytes(1)]] },
      { was: [["x", bytes(1)], ["x", bytes(1, 1)]] },
      { have: ["k", "gone"] },
      { only: new Set(["y"]) },
    ];
    for (const condition of refused) {
      assert.equal(await store.write({ put, remove, ...condition, isDurable: true }), false, JSON.stringify(condition));
      assert.deepEqual([[...(await store.read("d", "x"))], await store.names("c")], [[1], ["k"]]);
    }
    const fine = { was: [["x", bytes(1)], ["y", undefined]], have: ["k"], only: new Set(["x", "z"]) };
    assert.equal(await store.write({ put, remove, ...fine }), true);
    assert.deepEqual([[...(await store.read("d", "x"))], await store.names("c")], [[2], ["new"]]);
    const clear = { clear: true, put: [["d", "z", bytes(4)]] };
    assert.equal(await store.write({ ...clear, was: [["x", undefined]] }), false);
    assert.deepEqual([await store.names("c"), await store.names("d")], [["new"], ["x"]]);
    assert.equal(await store.write({ ...clear, was: [["x", bytes(2)]] }), true);
    assert.deepEqual([await store.names("c"), await store.names("d")], [[], ["z"]]);
    store.end();
  });

  test(`${name}: after its end each call fails as closed`, async () => {
    const store = make();
    await store.write({ put: [["c", "a", bytes(1)]] });
    store.end();
    for (const call of [() => store.read("c", "a"), () => store.names("c"), () => store.write({})]) {
      assert.equal(await codeOf(call()), "closed");
    }
  });
}

test("memory: it holds so many bytes, and no more", async () => {
  const store = new MemoryStore(10);
  await store.write({ put: [["c", "a", new Uint8Array(8)]] });
  assert.equal(await codeOf(store.write({ put: [["c", "b", new Uint8Array(3)]] })), "storage_full");
  // The same record once more, and one in place of another.
  await store.write({ put: [["c", "a", new Uint8Array(10)]] });
  await store.write({ put: [["c", "b", new Uint8Array(10)]], remove: [["c", "a"]] });
  assert.deepEqual(await store.names("c"), ["b"]);
});

test("database: if the browser closes it, the next call opens it again", async () => {
  const databases = new IDBFactory();
  const opened = [];
  const open = databases.open.bind(databases);
  databases.open = (...args) => {
    const request = open(...args);
    request.addEventListener("success", () => opened.push(request.result));
    return request;
  };
  const store = new DatabaseStore(databases, "x-files");
  await store.write({ put: [["c", "a", bytes(1)]] });
  opened[0].close();
  assert.deepEqual([...(await store.read("c", "a"))], [1]);
  opened[1].close();
  opened[1].onclose();
  assert.deepEqual(await store.names("c"), ["a"]);
  assert.equal(opened.length, 3);
});

test("database: a store that another tab deletes does not come back", async () => {
  const databases = new IDBFactory();
  const store = new DatabaseStore(databases, "x-files");
  await store.write({ put: [["c", "a", bytes(1)]] });
  await new Promise((resolve, reject) => Object.assign(databases.deleteDatabase("x-files"), { onsuccess: resolve, onerror: reject }));
  assert.equal(await codeOf(store.write({ put: [["c", "a", bytes(1)]] })), "closed");
  assert.deepEqual(await databases.databases(), []);
});

test("database: that of a newer version is left alone", async () => {
  const databases = new IDBFactory();
  await new Promise((resolve, reject) => Object.assign(databases.open("x-files", 2), { onsuccess: resolve, onerror: reject }));
  assert.equal(await codeOf(new DatabaseStore(databases, "x-files").names("c")), "store_too_new");
});
