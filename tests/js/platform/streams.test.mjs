// The pieces of a stream.
import assert from "node:assert/strict";
import { test } from "node:test";

import { partsOf } from "../../../js/dist/platform/streams.js";

/** A stream of these, which notes that nobody reads on. */
function streamOf(values, seen) {
  return new ReadableStream({
    pull(controller) {
      const value = values.shift();
      if (value instanceof Error) controller.error(value);
      else if (value === undefined) controller.close();
      else controller.enqueue(value);
    },
    cancel: () => void seen.push("cancelled"),
  }, { highWaterMark: 0 });
}

test("a stream is read to its end, and is not cancelled", async () => {
  const seen = [];
  for await (const part of partsOf(streamOf(["a", "b"], seen))) seen.push(part);
  assert.deepEqual(seen, ["a", "b"]);
});

test("the source learns of a reader that stops before the end", async () => {
  const seen = [];
  const values = ["a", "b", "c"];
  for await (const part of partsOf(streamOf(values, seen))) {
    seen.push(part);
    break;
  }
  assert.deepEqual([seen, values], [["a", "cancelled"], ["b", "c"]]);
});

test("a stream that fails fails its reader", async () => {
  const seen = [];
  const read = async () => {
    for await (const part of partsOf(streamOf(["a", new RangeError("cut")], seen))) seen.push(part);
  };
  await assert.rejects(read(), { name: "RangeError", message: "cut" });
  assert.deepEqual(seen, ["a"]);
});
