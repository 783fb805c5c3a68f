// Web Locks, and browsers without them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { locked } from "../../../js/dist/platform/lock.js";
import { provide } from "../../../js/dist/testing/environment.js";

// Node has none of its own.
provide();

/** The locks are those given, until the test ends. */
function withLocks(t, locks) {
  const own = Object.getOwnPropertyDescriptor(navigator, "locks");
  Object.defineProperty(navigator, "locks", { value: locks, configurable: true });
  t.after(() => (own ? Object.defineProperty(navigator, "locks", own) : delete navigator.locks));
}

test("work runs with its lock, under the options given, and its result is that of the lock", async (t) => {
  const asked = [];
  withLocks(t, { request: async (name, options, run) => (asked.push([name, options]), run({ name })) });
  const options = { mode: "shared" };
  assert.equal(await locked("x/add", options, async (lock) => lock.name), "x/add");
  assert.deepEqual(asked, [["x/add", options]]);
  await assert.rejects(locked("x", {}, () => Promise.reject(new RangeError("no"))), RangeError);
});

test("without locks work runs at once", async (t) => {
  withLocks(t, undefined);
  assert.equal(await locked("x", { ifAvailable: true }, (lock) => Boolean(lock)), true);
});

test("two with the same lock run one after the other, and one that does not wait gets none", async () => {
  const order = [];
  let release;
  const first = locked("one", {}, () => new Promise((resolve) => (release = () => (order.push("first"), resolve()))));
  const second = locked("one", {}, () => void order.push("second"));
  const other = locked("other", {}, () => void order.push("other"));
  await other;
  assert.equal(await locked("one", { ifAvailable: true }, (lock) => lock), null);
  release();
  await Promise.all([first, second]);
  assert.deepEqual(order, ["other", "first", "second"]);
});
