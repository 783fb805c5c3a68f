// Ids of documents.
import assert from "node:assert/strict";
import { test } from "node:test";

import { newId } from "../../../js/dist/base/id.js";
import { defineSchema } from "../../../js/dist/schema/schema.js";
import { openFake } from "../fake-core.mjs";

/** Runs with the clock at a time. */
function at(ms, run) {
  const { now } = Date;
  Date.now = () => ms;
  try {
    return run();
  } finally {
    Date.now = now;
  }
}

test("an id is a UUID of version 7, and every other bit of it is drawn", () => {
  let [none, all] = [(1n << 128n) - 1n, 0n];
  const ids = Array.from({ length: 400 }, () => at(1_700_000_000_123, newId));
  for (const id of ids) {
    assert.match(id, /^[0-9a-f]{12}7[0-9a-f]{3}[89ab][0-9a-f]{15}$/);
    assert.equal(parseInt(id.slice(0, 12), 16), 1_700_000_000_123, "its time");
    none &= BigInt(`0x${id}`);
    all |= BigInt(`0x${id}`);
  }
  const drawn = (1n << 76n) - 1n - (0b11n << 62n);
  assert.deepEqual([none & drawn, all & drawn], [0n, drawn]);
  assert.equal(new Set(ids).size, ids.length);
});

test("the bits next to the version and the variant are no copies of others", () => {
  const seen = { version: new Set(), variant: new Set() };
  for (let count = 0; count < 2_000; count++) {
    const id = newId();
    seen.version.add(id.slice(13, 15));
    seen.variant.add(id.slice(16, 18));
  }
  assert.ok(seen.version.size > 200, `${seen.version.size} of 256`);
  assert.equal(seen.variant.size, 64, "4 digits of the variant, each with 16 others");
});

test("ids sort by the millisecond at which they were made", () => {
  const times = [0, 1, 255, 256, 65_535, 2 ** 40, 1_700_000_000_000, 1_700_000_000_001, 2 ** 48 - 1];
  const ids = times.map((ms) => at(ms, newId));
  assert.deepEqual(ids.toSorted(), ids);
});

test("an id needs no secure context: `crypto.randomUUID` is not there", () => {
  const { randomUUID } = crypto;
  Object.defineProperty(crypto, "randomUUID", { value: undefined, configurable: true });
  try {
    assert.equal(newId().length, 32);
  } finally {
    Object.defineProperty(crypto, "randomUUID", { value: randomUUID, configurable: true });
  }
});

test("a date and a key that is a number are refused with their cure", async () => {
  const schema = defineSchema({ Order: { key: ["number"] } });
  const { session } = await openFake(schema);
  const refusal = (code, message) => ({ code, message });
  assert.throws(
    () => session.put("Order", { number: "1", due: new Date(0) }),
    refusal("bad_value", "data.due holds a Date: store its toISOString(), or its getTime()"),
  );
  assert.throws(
    () => session.put("Order", { number: "1", dates: [new Date(0)] }),
    refusal("bad_value", "data.dates holds a Date: store its toISOString(), or its getTime()"),
  );
  await assert.rejects(session.get("Order", [5]), { code: "bad_key", message: /String\(5\) for a number/ });
  await session.close();
});
