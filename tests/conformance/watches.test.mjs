// Watches of messages that none of the servers sends.
import assert from "node:assert/strict";
import { test } from "node:test";

import { shaS } from "../../conformance/src/names.mjs";
import { Watcher, WATCHES } from "../../conformance/src/watch/index.mjs";

const def = `Entry/in@${shaS("a")}`;
const row = (v) => ({ pk: shaS("a/1"), v, data: { account: "a", number: "1", release: 1 } });
const push = (part) => ({ epoch: [1, "x"], now: 1e12, delta: 2000, seq: 0, parts: [part] });

/** The mistakes that the watches find in a pushed part, by the watch. */
function found(part) {
  const watcher = new Watcher();
  watcher.frame({ form: "json", frames: [] }, { form: "json", mistakes: [], reply: push(part) });
  const failed = [...watcher.found].filter(([, { failures }]) => failures.length);
  return { failed: failed.map(([id]) => id), seen: watcher.found.get("watch.pushed-numbers").seen };
}

test("a pushed part of a numbered class has from and n, and its rows are between them", () => {
  assert.deepEqual(found({ def, from: 3, n: 5, rows: [row(4)] }), { failed: [], seen: 1 });
  assert.deepEqual(found({ def, from: 3, n: 5 }), { failed: [], seen: 1 });
  for (const part of [{ def, n: 5, rows: [] }, { def, from: 3, rows: [] }, { def, from: 3, n: 5, rows: [row(3)] }, { def, from: 3, n: 5, rows: [row(6)] }]) {
    assert.deepEqual(found(part), { failed: ["watch.pushed-numbers"], seen: 1 }, JSON.stringify(part));
  }
});

test("a reply names one of the three roles, and one of the levels", () => {
  const { test: fields } = WATCHES.find(({ id }) => id === "watch.fields");
  const mistakes = (more) => fields({ status: 200, reply: { p: 1, epoch: [1, "x"], now: 1e12, delta: 2000, ...more } });
  for (const fine of [{}, { role: "read" }, { role: "admin", restriction: 2 }]) assert.deepEqual(mistakes(fine), []);
  assert.deepEqual(mistakes({ role: "owner" }), ["role is not what the table says"]);
  assert.deepEqual(mistakes({ restriction: 4 }), ["restriction is not what the table says"]);
});

test("a push of another class, and a message without parts, do not concern the watch of numbers", () => {
  assert.deepEqual(found({ def: "Note", rows: [] }), { failed: [], seen: 0 });
});
