// Tabs that open the files of a device at the same time.
import assert from "node:assert/strict";
import { test } from "node:test";

import { DatabaseStore } from "../../../js/dist/files/database.js";
import { bytesOf, Device, isEqual } from "./support.mjs";

/** Pauses the first store before its calls and after them, at the place `at`. Calls `whilePaused` there. */
function pauseAt(t, at, whilePaused) {
  let first;
  let place = 0;
  const pause = async () => {
    if (place++ === at) await whilePaused();
  };
  for (const name of ["read", "names", "write"]) {
    const call = DatabaseStore.prototype[name];
    t.mock.method(DatabaseStore.prototype, name, async function (...args) {
      first ??= this;
      if (this !== first) return call.apply(this, args);
      await pause();
      const result = await call.apply(this, args);
      await pause();
      return result;
    });
  }
}

test("a tab that opens files for the first time may pause anywhere: those that another one adds stay", async (t) => {
  let at = 0;
  for (; ; at++) {
    const device = new Device(undefined);
    let ref;
    let other;
    pauseAt(t, at, async () => {
      other = await device.open({ leads: false });
      ref = await other.files.add(bytesOf(1_000));
    });
    const paused = await device.open();
    // The opening is over before that place.
    if (!other) break;
    for (const { files } of [other, paused]) assert.ok(isEqual(await files.bytes(ref), bytesOf(1_000)), `place ${at}`);
    device.end();
    assert.ok(isEqual(await (await device.open()).files.bytes(ref), bytesOf(1_000)), `place ${at}, opened again`);
    device.end();
    t.mock.restoreAll();
  }
  assert.ok(at >= 6, `only ${at} places`);
});
