// The pauses between attempts to move files: never shorter than the back-off, whatever a server asks for.
import assert from "node:assert/strict";
import { test } from "node:test";

import { askedIn, faultOf } from "../../../js/dist/files/faults.js";
import { pausesOf } from "../../../js/dist/files/retry.js";

const NOW = Date.parse("Sun, 06 Nov 1994 08:49:37 GMT");

test("Retry-After is seconds or a date, as the core reads it", () => {
  const headers = [
    [" 120 ", 120],
    ["0", 0],
    ["Sun, 06 Nov 1994 08:49:47 GMT", 10],
    ["Sun, 06 Nov 1994 08:49:27 GMT", 0],
    ["", undefined],
    ["-5 s", undefined],
    ["soon", undefined],
    ["-5", undefined],
    [null, undefined],
  ];
  for (const [header, seconds] of headers) assert.equal(askedIn(header, NOW), seconds, String(header));
});

test("a pause is at least that of the back-off, and at most an hour", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "Date"], now: NOW });
  t.mock.method(Math, "random", () => 1);
  const pauses = pausesOf(new AbortController().signal);
  const cases = [
    [undefined, 100],
    [0, 100],
    [-60, 100],
    [NaN, 100],
    ["3", 100],
    [0.05, 100],
    [7, 7_000],
    [1e9, 3_600_000],
  ];
  for (const [retryAfter, ms] of cases) {
    let isOver = false;
    const pause = pauses.after(faultOf(503, { code: "unavailable", retryAfter }), 0).then(() => (isOver = true));
    t.mock.timers.tick(ms - 1);
    await Promise.resolve();
    assert.ok(!isOver, `${retryAfter}: earlier than after ${ms} ms`);
    t.mock.timers.tick(1);
    await pause;
  }
});
