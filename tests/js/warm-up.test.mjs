// What `warmUp` does with its worker, and that nothing ever comes of what goes wrong there.
import assert from "node:assert/strict";
import { test } from "node:test";

import { warmUpWith } from "../../js/dist/warm-up-with.js";

const module = { compiled: true };
const wasm = { start: async () => ({}), module };

/** A worker that does `then` with what it is sent. */
function worker(then) {
  const made = {
    sent: [],
    ended: 0,
    postMessage: (data) => {
      made.sent.push(data);
      queueMicrotask(() => then(made));
    },
    terminate: () => (made.ended += 1),
  };
  return made;
}

const event = () => ({ prevented: false, preventDefault() { this.prevented = true; } });

test("the worker is given the page's module, and ended once it has done", async () => {
  const made = worker((it) => it.onmessage({ data: true }));
  assert.equal(await warmUpWith(wasm, () => made), true);
  assert.deepEqual([made.sent, made.ended], [[module], 1]);
});

test("whatever goes wrong says false, and ends the worker", async (t) => {
  const told = event();
  const failing = worker((it) => it.onmessage({ data: false }));
  const broken = worker((it) => it.onerror(told));
  assert.equal(await warmUpWith(wasm, () => failing), false);
  assert.equal(await warmUpWith(wasm, () => broken), false);
  assert.ok(told.prevented, "the page's own handlers hear nothing of it");
  const refuse = () => {
    throw new Error("the policy forbids it");
  };
  assert.equal(await warmUpWith(wasm, refuse), false);
  assert.equal(await warmUpWith({ ...wasm, start: refuse }, () => assert.fail("no wasm, no worker")), false);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const silent = worker(() => t.mock.timers.tick(10_000));
  assert.equal(await warmUpWith(wasm, () => silent), false);
  assert.deepEqual([failing.ended, broken.ended, silent.ended], [1, 1, 1]);
});
