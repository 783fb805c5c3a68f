// A document with its items: one object, one call for a reply, one state of the server.
import assert from "node:assert/strict";
import { test } from "node:test";

import { defineSchema } from "../../../js/dist/schema/schema.js";
import { openFake, recorder, settled } from "../fake-core.mjs";

const schema = defineSchema({
  Tree: { key: ["name"] },
  Twig: { in: "Tree", key: ["tree", "name"] },
  Vine: { in: "Tree", key: ["tree"] },
});
const [tree, twigs, vine] = ['Tree/{"key":["t"]}', 'Twig/{"tree":"t"}', 'Vine/{"tree":"t"}'];
const open = async () => {
  const { session, core } = await openFake(schema);
  return { session, core, composite: session.document("Tree", ["t"], { items: ["Twig", "Vine"] }) };
};

test("document subscribes to the parent and to each class of items, by the parent's key", async () => {
  const { session, core, composite } = await open();
  const begun = () => core.calls.filter(([name]) => name === "subscribe").map(([, def]) => def);
  assert.deepEqual([composite.now, composite.ready], [{ doc: undefined, items: { Twig: [], Vine: [] } }, false]);
  assert.deepEqual(begun(), [], "nobody listens yet");
  composite.subscribe(() => {});
  assert.deepEqual(begun(), [tree, twigs, vine]);
  assert.deepEqual(composite.now, { doc: undefined, items: { Twig: [], Vine: [] } });
  session.document("Tree", ["u"], { items: ["Vine"], keep: "forever" });
  assert.deepEqual(begun().slice(3), ['Tree/{"key":["u"]}', 'Vine/{"tree":"u"}']);
});

test("one call tells all that a reply changes, and `now` is the same object until something changes", async () => {
  const { core, composite } = await open();
  const { callback, calls, seen } = recorder();
  composite.subscribe(callback);
  await calls(1);
  core.put(tree, { name: "t" });
  core.put(twigs, { tree: "t", name: "b" }, { tree: "t", name: "a" });
  core.becomeReady(tree);
  core.becomeReady(twigs);
  core.becomeReady(vine);
  const [now, state] = await calls(2);
  assert.deepEqual([now.doc.name, now.items.Twig.map(({ name }) => name), state], ["t", ["a", "b"], { ready: true, whole: true, error: undefined }]);
  assert.equal(composite.now, now);
  assert.equal(await composite.whenReady().then(({ doc }) => doc), now.doc);
  await settled();
  assert.equal(seen.length, 2);
});

test("a document that a list holds is shown while it is not loaded with its items, as with no network", async () => {
  const { session, core, composite } = await open();
  session.live("Tree", {}, () => {});
  core.put("Tree", { name: "t", height: 1 });
  core.becomeReady("Tree");
  await settled();
  const { callback, calls } = recorder();
  composite.subscribe(callback);
  const alone = (height) => [{ doc: { name: "t", height }, items: { Twig: [], Vine: [] } }, { ready: false, whole: false, error: undefined }];
  assert.deepEqual(await calls(1), alone(1));
  core.put("Tree", { name: "t", height: 2 });
  assert.deepEqual(await calls(2), alone(2));
  core.remove("Tree", "t");
  assert.equal((await calls(3))[0].doc, undefined);
  core.put(tree, { name: "t", height: 3 });
  for (const def of [tree, twigs, vine]) core.becomeReady(def);
  assert.deepEqual((await calls(4))[0].doc, { name: "t", height: 3 });
  // Once it is loaded, a change of another document is no change of it: it is not listed again.
  const listed = core.called("list whole");
  core.put("Tree", { name: "u", height: 4 });
  await settled();
  assert.equal(core.called("list whole"), listed);
});

test("a tree that comes in several replies is not whole until it is", async () => {
  const { core, composite } = await open();
  const { callback, calls } = recorder();
  for (const def of [tree, twigs, vine]) core.becomeReady(def);
  composite.subscribe(callback);
  assert.deepEqual((await calls(1))[1], { ready: true, whole: true, error: undefined });
  core.tear(true, tree, vine);
  assert.deepEqual((await calls(2))[1], { ready: true, whole: false, error: undefined });
  core.tear(false, tree, vine);
  assert.deepEqual((await calls(3))[1], { ready: true, whole: true, error: undefined });
});

test("a stopped callback, an ended subscription and a closed session are told nothing more", async () => {
  const { session, core, composite } = await open();
  const { callback, calls, seen } = recorder();
  const stop = composite.subscribe(callback);
  await calls(1);
  stop();
  core.put(tree, { name: "t" });
  await settled();
  assert.equal(seen.length, 1);
  session.unsubscribe("Twig", { tree: "t" });
  assert.deepEqual(composite.now.items.Twig, []);
  composite.subscribe(callback);
  const [now] = await calls(2);
  assert.deepEqual([now.doc, session.subscriptions().length], [{ name: "t" }, 3], "another listener begins again");
  await session.close();
  await assert.rejects(composite.whenReady(), { code: "closed" });
});

test("once the last callback has stopped, nothing is read any more, also after the subscriptions began again", async () => {
  const { session, core, composite } = await open();
  const [first, second] = [recorder(), recorder()];
  const stopFirst = composite.subscribe(first.callback);
  await first.calls(1);
  for (const [name, match] of [["Tree", { key: ["t"] }], ["Twig", { tree: "t" }], ["Vine", { tree: "t" }]]) session.unsubscribe(name, match);
  const stopSecond = composite.subscribe(second.callback);
  await second.calls(1);
  stopSecond();
  stopFirst();
  await settled();
  const reads = core.called("read");
  core.put(tree, { name: "t" });
  await settled();
  assert.equal(core.called("read"), reads);
});

test("a class that is not `in` the document's is refused by name", async () => {
  const { session } = await openFake(schema);
  assert.throws(() => session.document("Twig", ["t", "a"], { items: ["Vine"] }), { code: "bad_option", message: /Vine is not `in` Twig/ });
  assert.throws(() => session.document("Tree", ["t"], { items: ["Tree"] }), { code: "bad_option" });
});
