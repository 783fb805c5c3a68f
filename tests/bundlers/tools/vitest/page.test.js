import "fake-indexeddb/auto";
import { expect, test } from "vitest";

import { again, first } from "./src/app.js";

test("a session", async () => {
  expect(document.body).toBeDefined();
  expect(await first()).toEqual({ listed: ["theirs"], saved: "device" });
  expect(await again()).toEqual({ listed: ["ours", "theirs"] });
});
