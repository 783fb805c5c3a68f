import { expect, test } from "vitest";

import { first } from "./src/app.js";

test("a session", async () => {
  expect(document.body).toBeDefined();
  expect(await first("incognito")).toEqual({ listed: ["theirs"], saved: "memory" });
});
