// The core's output, read by @msgpack/msgpack: `node --test tests/msgpack/*.test.mjs`.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { decode } from "@msgpack/msgpack";

import { document, small } from "./document.mjs";

const fixture = (name) => new Uint8Array(readFileSync(new URL(`../fixtures/msgpack/${name}`, import.meta.url)));

test("a document of ours reads as the same document", () => {
  assert.deepStrictEqual(decode(fixture("ours-document.bin")), document());
});

test("a request of ours reads as the protocol says", () => {
  assert.deepStrictEqual(decode(fixture("ours-request.bin")), {
    p: 1,
    session: "session",
    ops: [],
    subs: [
      ["Article", 0],
      ["Article@E8QD73URYucI8dur4zj-2Q", 1_700_000_000_000],
      ["Article/auteurs@BTziUq_SSySPM1Z0dmeokg", 5, "cursor"],
    ],
  });
});

test("a reply of ours reads in both formats", () => {
  const reply = decode(fixture("ours-reply.bin"));
  const [part] = reply.parts;
  assert.deepStrictEqual(reply.epoch, [1_600_000_000_000, "random"]);
  assert.deepStrictEqual([reply.now, reply.delta, reply.seq], [1_700_000_000_000, 2_000, 4]);
  assert.deepStrictEqual(part.left, [["c", 9]]);
  assert.deepStrictEqual(part.present, ["a", "d"]);
  assert.deepStrictEqual([part.rows[0].maxLife, part.rows[1].deleted, "next" in part], [28_333_333, true, false]);
  assert.deepStrictEqual(decode(part.rows[0].data), small());

  const json = JSON.parse(new TextDecoder().decode(fixture("ours-reply.json")));
  const { data } = json.parts[0].rows[0];
  assert.deepStrictEqual(data, {
    unicode: small().unicode,
    raw: { $bytes: "AAEC" },
    $$bytes: "a key of its own",
    n: [1, -1, 0.5],
  });
});
