// The documents of the fixtures: one with every kind of value, at the edges of their encodings.
// `tests/wire/fixtures.rs` builds the same.

const INTEGERS = [
  0, 1, 127, 128, 255, 256, 65_535, 65_536, 4_294_967_295, 4_294_967_296, 9_007_199_254_740_991, -1, -32, -33, -128,
  -129, -32_768, -32_769, -2_147_483_648, -2_147_483_649, -9_007_199_254_740_991,
];

export function document() {
  const bytes = (length) => Uint8Array.from({ length }, (_, n) => n & 255);
  return {
    integers: INTEGERS,
    floats: [0.5, -0.1, 1e300, 5e-324, 9_007_199_254_740_992],
    texts: [0, 1, 31, 32, 255, 256, 65_536].map((length) => "x".repeat(length)),
    unicode: "\u00e9\u4e2d\u{1f600}\u0000",
    nothing: null,
    flags: [true, false],
    raw: [0, 1, 255, 256, 65_536].map(bytes),
    list: Array.from({ length: 20 }, (_, n) => n),
    map: Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`k${n}`, n])),
    $bytes: "a key of its own",
  };
}

/** A small document, for the replies. */
export function small() {
  return { unicode: "\u00e9\u4e2d\u{1f600}", raw: new Uint8Array([0, 1, 2]), $bytes: "a key of its own", n: [1, -1, 0.5] };
}
