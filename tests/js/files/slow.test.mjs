// A chunk over a slow line, in mocked time: it may take as long as a line of 800 bytes a second needs, and no longer.
import assert from "node:assert/strict";
import { test } from "node:test";

import { remoteOf } from "../../../js/dist/files/remote.js";

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
