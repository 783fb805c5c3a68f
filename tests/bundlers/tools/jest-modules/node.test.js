import "fake-indexeddb/auto";

import { again, first } from "./src/app.js";

test("a session", async () => {
  expect(await first()).toEqual({ listed: ["theirs"], saved: "device" });
  expect(await again()).toEqual({ listed: ["ours", "theirs"] });
});
