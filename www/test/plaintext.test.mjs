// Goal: "0 hits" is honest. The search finds a text in every stored form, at every position in the bytes.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, test } from "node:test";
import { loader } from "./load.mjs";

const load = await loader(after);
const { byteString, fromHex, needle, occurrences, toHex } = await load("/src/plaintext.ts");

const TEXT = "Real-time strategy g\u00e4me";
/** Bytes that look random, the same in every run. */
const noise = (length) =>
  Buffer.concat(Array.from({ length: Math.ceil(length / 32) }, (_, i) => createHash("sha256").update(`${i}`).digest())).subarray(0, length);
const searched = (bytes, text = TEXT) => occurrences(needle(text), byteString(bytes));

test("a text is found as UTF-8, UTF-16 and hexadecimal, at any place", () => {
  const forms = [
    Buffer.from(TEXT),
    Buffer.from(TEXT, "utf16le"),
    Buffer.from(Buffer.from(TEXT).toString("hex")),
    Buffer.from(Buffer.from(TEXT).toString("hex").toUpperCase()),
  ];
  for (const form of forms) {
    for (let before = 0; before < 4; before++) {
      assert.equal(searched(Buffer.concat([Buffer.alloc(before, 0xff), form, Buffer.alloc(9_000, 0xff)])), 1);
    }
  }
});

test("a text inside a longer base64 is found, however it is aligned", () => {
  for (const encoding of ["base64", "base64url"]) {
    for (let before = 0; before < 6; before++) {
      for (let behind = 0; behind < 3; behind++) {
        const whole = Buffer.concat([Buffer.alloc(before, 0xa7), Buffer.from(TEXT), Buffer.alloc(behind, 0x5b)]);
        assert.ok(searched(Buffer.from(whole.toString(encoding))) >= 1, `${encoding}, ${before} before, ${behind} behind`);
      }
    }
  }
});

test("noise holds nothing, and every occurrence counts", () => {
  assert.equal(searched(noise(200_000)), 0);
  assert.equal(searched(Buffer.from("abcdef".repeat(3)), "abcdef"), 3);
});

test("a text too short to mean anything is refused", () => {
  assert.equal(needle("0ad"), undefined);
  assert.ok(needle("0ad-d"));
});

test("hexadecimal goes both ways", () => {
  const bytes = new Uint8Array(noise(33));
  assert.deepEqual(fromHex(toHex(bytes)), bytes);
});
