// docs/mutants.md is made from docs/mutants.data, and no mistake survives without a reason.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { judgedText, pageOf, readData } from "../../scripts/mutants-page.mjs";

const read = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

test("the page of planted mistakes is made of its data", () => {
  const page = read("docs/mutants.md");
  assert.equal(pageOf(page, readData(read("docs/mutants.data"))), page);
});

test("every mistake that survived has its reason", () => {
  const { survivors } = readData(read("docs/mutants.data"));
  const without = survivors.filter(({ reason }) => !reason || reason === "not looked into yet");
  assert.deepEqual(without, []);
});

test("a survivor keeps its reason in a later run, and a mistake that is found loses its line", () => {
  const survivor = { file: "a.rs", within: "f", was: "a || b", is: "a && b", end: "missed" };
  const other = { ...survivor, was: "a < b", is: "a <= b" };
  const about = { sample: "two", unviable: 0, date: "2026-01-01" };
  const first = readData(judgedText([survivor, other], { ...about, before: { survivors: [] } }));
  assert.equal(first.survivors.length, 2);
  const known = first.survivors.map((one) => ({ ...one, reason: `for ${one.was}` }));
  const judged = [survivor, { ...other, end: "caught" }];
  const second = readData(judgedText(judged, { ...about, before: { survivors: known } }));
  assert.deepEqual(second.survivors.map(({ was, reason }) => [was, reason]), [["a || b", "for a || b"]]);
});
