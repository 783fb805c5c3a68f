/** @jest-environment jest-fixed-jsdom */
import { webcrypto } from "node:crypto";

import "fake-indexeddb/auto";

import { again, first } from "./src/app.js";

// The application's server hashes keys; jsdom has no `crypto.subtle`.
Object.defineProperty(globalThis, "crypto", { value: webcrypto });

test("a session", async () => {
  expect(document.body).toBeDefined();
  expect(await first()).toEqual({ listed: ["theirs"], saved: "device" });
  expect(await again()).toEqual({ listed: ["ours", "theirs"] });
});
