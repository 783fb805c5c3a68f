// A database: a transaction has happened as a whole, or not at all, and says why.
import assert from "node:assert/strict";
import { test } from "node:test";

import { IDBFactory } from "fake-indexeddb";

import { openDatabase, settled, transact } from "../../../js/dist/platform/database.js";

const put = (database, ...records) =>
  transact(database, "readwrite", "relaxed", async (transaction) => {
    for (const [table, key, value] of records) transaction.objectStore(table).put(value, key);
  });
const read = (database, table, key) => transact(database, "readonly", "relaxed", async (transaction) => settled(transaction.objectStore(table).get(key)));

test("a database is made with its tables, and opened again as it is", async () => {
  const databases = new IDBFactory();
  const first = await openDatabase(databases, "one", "a", "b");
  assert.deepEqual([...first.objectStoreNames], ["a", "b"]);
  await put(first, ["a", 1, "x"], ["b", "k", "y"]);
  first.close();
  const again = await openDatabase(databases, "one", "a", "b");
  assert.deepEqual([await read(again, "a", 1), await read(again, "b", "k"), await read(again, "b", "z")], ["x", "y", undefined]);
});

test("a database of a newer version is refused by its name", async () => {
  const databases = new IDBFactory();
  await settled(databases.open("one", 2));
  await assert.rejects(openDatabase(databases, "one", "a"), { name: "VersionError" });
});

test("a transaction gives the result of its work, once it is complete", async () => {
  const database = await openDatabase(new IDBFactory(), "one", "a");
  const seen = [];
  const result = await transact(database, "readwrite", "strict", async (transaction) => {
    transaction.addEventListener("complete", () => seen.push("complete"));
    transaction.objectStore("a").put(5, 1);
    const value = await settled(transaction.objectStore("a").get(1));
    seen.push("work");
    return value + 1;
  });
  assert.deepEqual([result, seen], [6, ["work", "complete"]]);
});

test("nothing has happened of a transaction whose work fails, and the error is that of the work", async () => {
  const database = await openDatabase(new IDBFactory(), "one", "a", "b");
  await put(database, ["a", 1, "old"]);
  const failed = transact(database, "readwrite", "relaxed", async (transaction) => {
    transaction.objectStore("a").delete(1);
    transaction.objectStore("b").put("new", 2);
    throw new RangeError("no more");
  });
  await assert.rejects(failed, { name: "RangeError", message: "no more" });
  assert.deepEqual([await read(database, "a", 1), await read(database, "b", 2)], ["old", undefined]);
});

test("a request that fails names its error, whether the work waits for it or not", async () => {
  const database = await openDatabase(new IDBFactory(), "one", "a");
  await put(database, ["a", 1, "old"]);
  for (const isAwaited of [true, false]) {
    const failed = transact(database, "readwrite", "relaxed", async (transaction) => {
      const request = transaction.objectStore("a").add("twice", 1);
      if (isAwaited) await settled(request);
    });
    await assert.rejects(failed, { name: "ConstraintError" }, String(isAwaited));
  }
  assert.equal(await read(database, "a", 1), "old");
});

test("a transaction that the browser ends is an error, too", async () => {
  const database = await openDatabase(new IDBFactory(), "one", "a");
  const ended = transact(database, "readwrite", "relaxed", async (transaction) => {
    transaction.objectStore("a").put("new", 1);
    transaction.abort();
  });
  await assert.rejects(ended, { name: "AbortError" });
  assert.equal(await read(database, "a", 1), undefined);
});
