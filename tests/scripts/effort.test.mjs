// The dial of the random tests in JavaScript.
import assert from "node:assert/strict";
import { test } from "node:test";

import { count, startSeed } from "../../testkit/effort.mjs";

test("the dial is ten times the usual number, and a test's own variable counts more", () => {
  assert.equal(count("KILLS", 3, {}), 3);
  assert.equal(count("KILLS", 3, { KILLS: "", ESCALE_EFFORT: "" }), 3);
  assert.equal(count("KILLS", 3, { ESCALE_EFFORT: "proof" }), 30);
  assert.equal(count("KILLS", 3, { ESCALE_EFFORT: "proof", KILLS: "7" }), 7);
});

test("a misspelt effort and a count that is no number are errors, and no short run", () => {
  assert.throws(() => count("KILLS", 3, { ESCALE_EFFORT: "profo" }), /ESCALE_EFFORT is proof/);
  assert.throws(() => count("KILLS", 3, { KILLS: "many" }), /KILLS is a number/);
});

test("the same seeds are played in `make test`, a given one before others, and new ones in a run alone", () => {
  assert.equal(startSeed({ ESCALE_SEEDS: "same" }), 1);
  assert.equal(startSeed({ ESCALE_SEEDS: "same", ESCALE_SEED: "17" }), 17);
  assert.equal(startSeed({ ESCALE_SEED: "0" }), 0);
  for (const env of [{}, { ESCALE_SEEDS: "new" }]) assert.ok(new Set(Array.from({ length: 10 }, () => startSeed(env))).size > 1);
  assert.throws(() => startSeed({ ESCALE_SEEDS: "sane" }), /ESCALE_SEEDS is same, new/);
  assert.throws(() => startSeed({ ESCALE_SEED: "one" }), /ESCALE_SEED is a number/);
});
