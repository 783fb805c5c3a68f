// Nobody waits for a rehearsal that fails or never ends. Its effects are tested in a browser.
import assert from "node:assert/strict";
import { test } from "node:test";

import { rehearsal, rehearse } from "../../js/dist/rehearsal.js";

const nothing = () => assert.fail("nothing is opened");

test("without IndexedDB, as in Node, there is none", async () => {
  await assert.rejects(rehearse(nothing), /IndexedDB/);
  await rehearsal(nothing);
});

test("one that does not come to its end is left to itself", async (t) => {
  globalThis.indexedDB = {};
  const { navigator } = globalThis;
  Object.defineProperty(globalThis, "navigator", { value: { locks: {} }, configurable: true, writable: true });
  t.after(() => {
    delete globalThis.indexedDB;
    Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true, writable: true });
  });
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let isOver = false;
  const waiting = rehearsal(() => new Promise(() => {})).then(() => (isOver = true));
  t.mock.timers.tick(4_999);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isOver, false);
  t.mock.timers.tick(1);
  await waiting;
});
