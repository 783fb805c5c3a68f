// Waiting that ends, and errors that say why: `ready`, `whenReady`, the bound of subscriptions, the fields of errors.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";

import { defineSchema } from "../../../js/dist/schema/schema.js";
import { openFake, recorder, settled } from "../fake-core.mjs";

const schema = defineSchema({
  Package: { key: ["name"], collections: { section: { key: ["section"] } }, indexes: { size: "integer" } },
  Note: { key: ["id"] },
});
const offline = { code: "offline", kind: "X", retryable: true, message: "no network", cure: "wait" };

test("ready says whether the documents are the result of a complete load", async () => {
  const { session, core } = await openFake(schema);
  const collection = session.collection("Package", {});
  collection.subscribe(() => {});
  core.put("Package", { name: "a" });
  await settled();
  assert.deepEqual([collection.docs.length, collection.ready], [1, false]);
  core.becomeReady("Package");
  await collection.whenReady();
  assert.equal(collection.ready, true);
});

test("in avion whenReady rejects if nothing was ever loaded, and waits again in synced", async () => {
  const { session, core } = await openFake(schema, { mode: "avion" });
  const collection = session.collection("Package", {});
  await assert.rejects(collection.whenReady(), { name: "EscaleError", code: "not_loaded", retryable: true });
  await assert.rejects(collection.whenReady(), { code: "not_loaded" });
  core.tell({ mode: "synced" });
  const again = collection.whenReady();
  core.becomeReady("Package");
  assert.deepEqual(await again, []);
});

test("in avion whenReady resolves with what an earlier session loaded", async () => {
  const { session, core } = await openFake(schema, { mode: "avion" });
  core.becomeReady("Package");
  assert.deepEqual(await session.collection("Package", {}).whenReady(), []);
});

test("a session that changes to avion ends the waiting", async () => {
  const { session, core } = await openFake(schema);
  const waiting = session.collection("Package", {}).whenReady();
  core.tell({ mode: "avion" });
  await assert.rejects(waiting, { code: "not_loaded" });
});

test("whenReady ends with its signal, by the signal's reason, and leaves no listener", async () => {
  const { session, core } = await openFake(schema);
  const collection = session.collection("Package", {});
  const controller = new AbortController();
  const { signal } = controller;
  const waiting = collection.whenReady({ signal });
  controller.abort(new Error("left"));
  await assert.rejects(waiting, { message: "left" });
  await assert.rejects(collection.whenReady({ signal }), { message: "left" });
  const other = new AbortController().signal;
  const resolved = collection.whenReady({ signal: other });
  assert.equal(getEventListeners(other, "abort").length, 1);
  core.becomeReady("Package");
  assert.deepEqual(await resolved, []);
  for (const used of [signal, other]) assert.equal(getEventListeners(used, "abort").length, 0);
});

test("whenReady rejects offline if it is told to, with the session's error as the cause", async () => {
  const { session, core } = await openFake(schema);
  const collection = session.collection("Package", {});
  const patient = collection.whenReady();
  const hasty = collection.whenReady({ offline: "reject" });
  core.tell({ phase: "offline", error: offline });
  await assert.rejects(hasty, (error) => error.code === "not_loaded" && error.cause.code === "offline");
  await assert.rejects(collection.whenReady({ offline: "reject" }), { code: "not_loaded" });
  core.becomeReady("Package");
  assert.deepEqual(await patient, []);
  assert.deepEqual(await collection.whenReady({ offline: "reject" }), [], "loaded: the network does not matter");
});

test("subscribe of a collection calls at once if the documents are at hand", async () => {
  const { session, core } = await openFake(schema);
  const collection = session.collection("Package", {});
  const early = recorder();
  collection.subscribe(early.callback);
  assert.equal(early.seen.length, 0, "nothing was read yet");
  core.put("Package", { name: "a" });
  await early.calls(1);
  const late = recorder();
  collection.subscribe(late.callback)();
  assert.deepEqual(late.seen, [[collection.docs, { ready: false, whole: false, error: undefined }]]);
  await settled();
  assert.equal(late.seen.length, 1);
});

test("an unknown class and an unknown index are named at the call, with those that exist", async () => {
  const { session } = await openFake(schema);
  assert.throws(() => session.live("Pakage", {}, () => {}), { code: "unknown_class", message: /Pakage.*Package, Note/ });
  const query = session.query("Package");
  assert.throws(() => query.where("section", "==", "x"), { code: "unknown_index", message: /section.*size/ });
  assert.throws(() => query.orderBy("toString"), { code: "unknown_index", message: /toString/ });
  assert.throws(() => session.query("Note").where("size", ">", 1), { code: "unknown_index", message: /none/ });
});

test("JSON of an error has its message", async () => {
  const { session } = await openFake(schema);
  const error = await session.get("Pakage", []).catch((caught) => caught);
  const { name, code, kind, retryable, message, cure } = error;
  assert.deepEqual(JSON.parse(JSON.stringify(error)), { name, code, kind, retryable, message, cure });
});

test("the adapter's own error is the cause of the status's error", async () => {
  const boom = new Error("boom");
  const server = { calls: 0, sync: async () => Promise.reject(boom), listen() {} };
  const { session, core } = await openFake(schema, { server });
  const wrapped = core.options.server;
  await assert.rejects(wrapped.sync({}), boom);
  core.tell({ phase: "offline", error: { ...offline, message: "the adapter failed with Error" } });
  assert.equal(session.status.error.cause, boom);
  core.tell({ error: { ...offline, code: "storage_full", message: "no room" } });
  assert.equal(session.status.error.cause, undefined, "the adapter has no part in it");
});

test("an adapter keeps its `this`, its results, and its lack of listen", async () => {
  const server = { reply: { p: 1 }, sync() { return Promise.resolve(this.reply); } };
  const { core } = await openFake(schema, { server });
  assert.equal(await core.options.server.sync({}), server.reply);
  assert.equal("listen" in core.options.server, false);
});
