// Pauses, in mocked time.
import assert from "node:assert/strict";
import { test } from "node:test";

import { backOff, sleep, wake } from "../../../js/dist/platform/retry.js";

const turn = () => new Promise((resolve) => setImmediate(resolve));

/** The window's events, and the timers, until the test ends. */
function page(t) {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const window = new EventTarget();
  const listeners = new Set();
  for (const [name, note] of [["addEventListener", (end) => listeners.add(end)], ["removeEventListener", (end) => listeners.delete(end)]]) {
    const own = globalThis[name];
    globalThis[name] = (type, end) => (note(end), window[name](type, end));
    t.after(() => (globalThis[name] = own));
  }
  return { listeners, online: () => window.dispatchEvent(new Event("online")) };
}

/** A sleep, and whether it is over. */
function sleeping(...args) {
  const state = { isOver: false };
  void sleep(...args).then(() => (state.isOver = true));
  return state;
}

test("a sleep ends after its time", async (t) => {
  page(t);
  const sleepers = new Set();
  const state = sleeping(sleepers, 1_000);
  t.mock.timers.tick(999);
  await turn();
  assert.deepEqual([state.isOver, sleepers.size], [false, 1]);
  t.mock.timers.tick(1);
  await turn();
  assert.deepEqual([state.isOver, sleepers.size], [true, 0]);
});

test("all sleepers are woken, and those of another set sleep on", async (t) => {
  page(t);
  const [here, there] = [new Set(), new Set()];
  const [one, two, other] = [sleeping(here, 1_000), sleeping(here, 2_000), sleeping(there, 1_000)];
  wake(here);
  await turn();
  assert.deepEqual([one.isOver, two.isOver, other.isOver, here.size], [true, true, false, 0]);
  wake(here);
});

test("the network wakes those that wait for it, and no others; no listener is left", async (t) => {
  const { listeners, online } = page(t);
  const sleepers = new Set();
  const [patient, hopeful] = [sleeping(sleepers, 1_000), sleeping(sleepers, 1_000, true)];
  assert.equal(listeners.size, 1);
  online();
  await turn();
  assert.deepEqual([patient.isOver, hopeful.isOver, listeners.size, sleepers.size], [false, true, 0, 1]);
  const late = sleeping(sleepers, 10, true);
  t.mock.timers.tick(10);
  await turn();
  assert.deepEqual([late.isOver, listeners.size], [true, 0]);
});

test("where there are no events of the network, a sleep takes its time", async (t) => {
  const { addEventListener, removeEventListener } = globalThis;
  t.after(() => Object.assign(globalThis, { addEventListener, removeEventListener }));
  t.mock.timers.enable({ apis: ["setTimeout"] });
  globalThis.addEventListener = globalThis.removeEventListener = undefined;
  const state = sleeping(new Set(), 10, true);
  t.mock.timers.tick(10);
  await turn();
  assert.equal(state.isOver, true);
});

test("each pause is twice the one before, up to the longest", () => {
  assert.deepEqual([0, 1, 2, 3, 4, 2_000].map((failures) => backOff(100, 1_000, failures)), [100, 200, 400, 800, 1_000, 1_000]);
});
