// The share of each byte in a compressed file (scripts/wasm/gzip-cost.mjs).
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { deflateRawSync } from "node:zlib";

import { bitsOf } from "../../scripts/wasm/gzip-cost.mjs";

const sum = (costs) => costs.reduce((total, cost) => total + cost, 0) / 8;

test("the shares of all bytes are the compressed file, but for the headers of its blocks", () => {
  const source = readFileSync(new URL("../../scripts/wasm/gzip-cost.mjs", import.meta.url));
  const cases = { stored: randomBytes(100_000), fixed: Buffer.from("a few words"), dynamic: Buffer.concat(Array(40).fill(source)), empty: Buffer.alloc(0) };
  for (const [name, bytes] of Object.entries(cases)) {
    const [shares, compressed] = [bitsOf(bytes), deflateRawSync(bytes, { level: 9 }).length];
    assert.equal(shares.length, bytes.length);
    assert.ok(shares.every((bits) => bits > 0), name);
    assert.ok(sum(shares) <= compressed && sum(shares) >= compressed - 200, `${name}: ${sum(shares)} of ${compressed}`);
  }
});

test("a second copy costs what it adds", () => {
  const bytes = randomBytes(10_000);
  const shares = bitsOf(Buffer.concat([bytes, bytes]));
  assert.ok(sum(shares.subarray(0, 10_000)) > 9_900);
  assert.ok(sum(shares.subarray(10_000)) < 200);
});
