// The package in Node over fake-indexeddb, which applications use in tests: a store is made, closed and opened again.
import assert from "node:assert/strict";
import { test } from "node:test";

import "fake-indexeddb/auto";

import { makePageServer } from "../e2e/support/in-page/page-server.js";

test("a store is opened, closed and opened again under fake-indexeddb", async () => {
  const { defineSchema, open, wipe } = await import("escale");
  const schema = defineSchema({ Note: { key: ["id"], properties: { text: "string" } } });
  const { adapter, executed } = makePageServer();
  const options = { org: "fake", schema, server: adapter, key: new Uint8Array(32) };
  const first = await open(options);
  const notes = first.collection("Note", {});
  await notes.whenReady();
  const operation = first.put("Note", { id: "a", text: "x" });
  assert.equal(await operation.saved, "device");
  await operation.accepted;
  await first.flush();
  await first.close();

  for (const mode of ["avion", "synced"]) {
    const again = await open({ ...options, mode });
    assert.deepEqual(await again.get("Note", ["a"]), { id: "a", text: "x" }, mode);
    assert.equal(again.status.storage, "ok", mode);
    await again.put("Note", { id: mode, text: "y" }).saved;
    await again.close();
  }
  const last = await open(options);
  const ids = await new Promise((resolve) => {
    last.live("Note", {}, (docs) => docs.length === 3 && resolve(docs.map(({ id }) => id)));
  });
  assert.deepEqual(ids, ["a", "avion", "synced"]);
  assert.equal(new Set(executed).size, executed.length);
  await last.close();
  await wipe({ org: "fake" });
});
