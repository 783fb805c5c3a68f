// Bytes of another realm, as jsdom's test environments have them: `instanceof Uint8Array` is false for all of them.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createContext, runInContext } from "node:vm";

import "fake-indexeddb/auto";

import { makePageServer } from "../e2e/support/in-page/page-server.js";

const realm = createContext({});
const { Uint8Array: ForeignBytes, Promise: ForeignPromise } = runInContext("({ Uint8Array, Promise })", realm);
const foreignBytes = (bytes) => ForeignBytes.from(bytes);
const foreignBuffer = (buffer) => foreignBytes(new Uint8Array(buffer)).buffer;

/** A value with all its bytes in the other realm. */
function foreign(value) {
  if (value instanceof ArrayBuffer) return foreignBuffer(value);
  if (value instanceof Uint8Array) return foreignBytes(value);
  return Array.isArray(value) ? value.map(foreign) : value;
}

/** From now on the database and the browser's ciphers give bytes and promises of the other realm. */
function leaveRealm() {
  for (const prototype of [IDBRequest.prototype, IDBCursor.prototype]) {
    for (const name of ["result", "key", "primaryKey", "value"]) {
      const own = Object.getOwnPropertyDescriptor(prototype, name);
      if (own?.get) Object.defineProperty(prototype, name, { ...own, get() { return foreign(own.get.call(this)); } });
    }
  }
  for (const name of ["decrypt", "deriveBits", "importKey"]) {
    const own = crypto.subtle[name].bind(crypto.subtle);
    crypto.subtle[name] = (...given) => new ForeignPromise((resolve, reject) => own(...given).then((value) => resolve(foreign(value)), reject));
  }
}

test("a store keeps and gives its documents with bytes of another realm", async () => {
  const { defineSchema, open, wipe } = await import("escale");
  leaveRealm();
  assert.ok(!(foreignBytes([1]) instanceof Uint8Array));
  const schema = defineSchema({ Note: { key: ["id"], properties: { text: "string" } } });
  const { adapter } = makePageServer();
  for (const secret of [{ key: foreignBytes(new Uint8Array(32)) }, { passphrase: "a passphrase" }]) {
    const options = { org: "realms", schema, server: adapter, ...secret };
    const first = await open(options);
    await first.collection("Note", {}).whenReady();
    await first.put("Note", { id: "a", text: "x" }).accepted;
    // It rests on the device alone.
    assert.equal(await first.put("Note", { id: "b", text: "y" }).saved, "device");
    await first.flush();
    await first.close();
    const again = await open({ ...options, mode: "avion" });
    assert.deepEqual(await again.get("Note", ["a"]), { id: "a", text: "x" });
    assert.deepEqual(await again.get("Note", ["b"]), { id: "b", text: "y" });
    const { storage, damaged } = again.status.value;
    assert.deepEqual([storage, damaged], ["ok", { documents: 0, collections: 0, operations: 0 }]);
    await again.close();
    await wipe({ org: "realms" });
  }
});
