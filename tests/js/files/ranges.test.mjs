// Ranges of files, next to a plain slice, from a seed; and streams of any chunking. `ESCALE_SEED` repeats a run.
import assert from "node:assert/strict";
import { test } from "node:test";

import { count, startSeed } from "../../../testkit/effort.mjs";
import { bytesOf, codeOf, Device, drain, filesServer, isEqual, MIB } from "./support.mjs";

const SEED = startSeed();

/** Numbers from a seed (mulberry32). */
function randomOf(seed) {
  let state = seed >>> 0;
  return (bound) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  };
}

/** A stream that gives the bytes in pieces of any length, some of them empty. */
function streamOf(bytes, below) {
  let at = 0;
  return new ReadableStream({
    pull(controller) {
      const length = below(3) === 0 ? below(4) : below(3 * MIB);
      controller.enqueue(bytes.slice(at, at + length));
      at += length;
      if (at >= bytes.length) controller.close();
    },
  });
}

test(`a range is the slice of the file, from the device and from the server (ESCALE_SEED=${SEED})`, async (t) => {
  const below = randomOf(SEED);
  const server = await filesServer(t);
  const author = new Device(server.url);
  t.after(() => author.end());
  const page = await author.open();
  for (let round = 0; round < count("RANGES", 8); round++) {
    const size = [below(2_000), MIB, MIB + below(5), 2 * MIB, below(5 * MIB)][below(5)];
    const bytes = bytesOf(size, below(2 ** 31));
    const ref = await page.files.add(below(2) ? streamOf(bytes, below) : new Blob([bytes]));
    assert.equal(ref.size, size);
    await page.word(ref.sha);
    const reader = new Device(server.url);
    const other = await reader.open();
    for (let n = 0; n < 12; n++) {
      const edge = () => Math.max(0, Math.min(size, MIB * below(6) + below(3) - 1));
      const [from, to] = (below(2) ? [edge(), edge()] : [below(size + 1), below(size + 10)]).sort((a, b) => a - b);
      for (const { files } of [page, other]) {
        assert.ok(isEqual(await drain(files.read(ref, { from, to })), bytes.subarray(from, to)), `${size}: ${from} to ${to}`);
      }
    }
    assert.ok(isEqual(await other.files.bytes(ref), bytes));
    reader.end();
  }
});

test("a range loads its chunks alone, and a reader that stops loads no more", async (t) => {
  const server = await filesServer(t);
  const author = new Device(server.url);
  const page = await author.open();
  const bytes = bytesOf(12 * MIB);
  const ref = await page.files.add(bytes);
  await page.word(ref.sha);
  const device = new Device(server.url);
  t.after(() => (author.end(), device.end()));
  const { files } = await device.open();
  assert.ok(isEqual(await drain(files.read(ref, { from: 5 * MIB - 1, to: 5 * MIB + 1 })), bytes.subarray(5 * MIB - 1, 5 * MIB + 1)));
  assert.equal(files.state(ref).here, 2 * MIB);
  const reader = files.read(ref, { from: 6 * MIB }).getReader();
  await reader.read();
  await reader.cancel();
  assert.ok(files.state(ref).here < 8 * MIB);
});

test("a range that is none is refused, and a file that is too long for one piece", async (t) => {
  const device = new Device(undefined);
  t.after(() => device.end());
  const { files } = await device.open();
  const ref = await files.add(bytesOf(10));
  for (const range of [{ from: -1 }, { from: 1.5 }, { from: 3, to: 2 }, { to: NaN }, { from: "1" }]) {
    assert.throws(() => files.read(ref, range), { code: "bad_option" });
  }
  for (const bad of [undefined, {}, { sha: ref.sha }, { sha: "x", size: 1 }, { sha: `${ref.sha.slice(0, 42)}B`, size: 1 }, { sha: ref.sha, size: 2 ** 36 }]) {
    assert.throws(() => files.read(bad), { code: "bad_option" });
  }
  assert.equal(await codeOf(files.bytes({ ...ref, size: 65 * MIB })), "too_large");
  for (const bad of [undefined, 7, "text", {}]) assert.equal(await codeOf(files.add(bad)), "bad_option");
  const broken = new ReadableStream({ pull: (controller) => controller.error(new Error("the disk")) });
  assert.equal(await codeOf(files.add(broken)), "storage_failed");
});
