// Slow lines and busy servers, in mocked time: a chunk may take as long as a line of 800 bytes a second needs, and no longer. A
// pause is never shorter than the back-off, for any answer of the server.
import assert from "node:assert/strict";
import { test } from "node:test";

import { askedIn, faultOf } from "../../../js/dist/files/faults.js";
import { remoteOf } from "../../../js/dist/files/remote.js";
import { pausesOf } from "../../../js/dist/files/retry.js";

const CHUNK = 1 << 20;
const turn = () => new Promise((resolve) => setImmediate(resolve));

for (const [bytesPerSecond, arrives] of [[8_192, true], [1_000, true], [500, false]]) {
  test(`a chunk over ${bytesPerSecond} bytes a second ${arrives ? "arrives" : "is given up"}`, async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    let sent = 0;
    const neededMs = (CHUNK / bytesPerSecond) * 1_000;
    t.mock.method(globalThis, "fetch", (_url, { signal, body }) => {
      sent += body.length;
      return new Promise((resolve, reject) => {
        signal.addEventListener("abort", () => reject(new DOMException("given up", "AbortError")));
        setTimeout(() => resolve(new Response("{}")), neededMs);
      });
    });
    const host = { org: "demo", server: "http://localhost:7700", status: { mode: "synced", phase: "live" }, token: async () => "t" };
    const put = remoteOf(host, new AbortController().signal).put("sha", () => new Uint8Array(CHUNK));
    let outcome;
    put.then(() => (outcome = "arrived"), ({ code }) => (outcome = code));
    for (let ms = 0; ms <= neededMs + 1_000 && !outcome; ms += 1_000) {
      await turn();
      t.mock.timers.tick(1_000);
    }
    await turn();
    assert.deepEqual([outcome, sent], [arrives ? "arrived" : "offline", CHUNK]);
  });
}

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
