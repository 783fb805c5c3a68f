// Files between devices, over the real server: added, sent before the reference, read elsewhere (R23, R24, R26).
import assert from "node:assert/strict";
import { test } from "node:test";

import { bytesOf, Device, drain, filesServer, isEqual, MIB } from "./support.mjs";

for (const length of [0, 1, 3_000, MIB - 1, MIB, MIB + 1, 5 * MIB + 17]) {
  test(`a file of ${length} bytes is added, sent, and read on another device`, async (t) => {
    const server = await filesServer(t);
    const [one, other] = [new Device(server.url), new Device(server.url)];
    t.after(() => (one.end(), other.end()));
    const bytes = bytesOf(length);
    const here = await one.open();
    const ref = await here.files.add(bytes, { type: "image/png", name: "x.png" });
    assert.deepEqual([ref.size, ref.type, ref.name], [length, "image/png", "x.png"]);
    assert.equal(here.files.state(ref).phase, "here");
    const [word] = await here.word(ref.sha);
    assert.equal(word.verdict, "there");
    assert.equal(typeof word.epoch[0], "number");
    const there = await other.open({ leads: false });
    assert.ok(isEqual(await there.files.bytes(ref), bytes));
    // From the device, from now on.
    await server.stop();
    assert.ok(isEqual(await drain(there.files.read(ref)), bytes));
    assert.ok(isEqual(await drain(here.files.read(ref)), bytes));
  });
}
