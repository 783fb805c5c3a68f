// docs/reliability.md is made from its data, and for each promise it names an existing test and command.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { ROWS } from "../../scripts/proofs/rows.mjs";
import { commandOf, pageWith, runsOf, sumOf, tableOf, taken } from "../../scripts/proofs/write-page.mjs";

const at = (path) => new URL(`../../${path}`, import.meta.url);
const read = (path) => readFileSync(at(path), "utf8");
const RUN = { date: "2026-01-02", commit: "0123abcd", cores: 4, command: "" };

test("the page is what the data give", () => {
  const page = read("docs/reliability.md");
  assert.equal(page, pageWith(page, tableOf(read("docs/reliability.data"))), "run: make reliability");
});

test("no run that is recorded found a violation", () => {
  const broken = runsOf(read("docs/reliability.data")).filter(({ violations }) => violations !== 0);
  assert.deepEqual(broken, []);
});

test("each promise names tests and a command that are there", () => {
  const makefile = read("Makefile");
  for (const { promise, tests, proofs, command = commandOf(proofs[0]) } of ROWS) {
    assert.ok(tests.length > 0, promise);
    for (const path of tests) assert.ok(existsSync(at(path)), `${promise}: ${path}`);
    const [, target] = /^make ([\w-]+)/.exec(command) ?? [];
    if (target) assert.ok(makefile.includes(`\n${target}:`), `${promise}: ${command}`);
  }
});

test("a log's proofs take the place of earlier ones, and are told", () => {
  const first = taken("# head\n", "noise\nproof: sim | all rules | 100 seeds | violations 0 | 1.5 s\n# proof: kill | kept | 7 kills | violations 0 | 60.0 s\n", RUN);
  assert.equal(first, "# head\nkill | 2026-01-02 | 0123abcd | 4 | make kill KILLS=300 | 7 kills | 0 | 60.0\nsim | 2026-01-02 | 0123abcd | 4 | make sim SEEDS=1000000 | 100 seeds | 0 | 1.5\n");
  const second = taken(first, "proof: sim | all rules | 200000 seeds | violations 0 | 300.0 s\n", { ...RUN, command: "make sim SEEDS=200000" });
  assert.match(second, /^# head\nkill .*\nsim \| 2026-01-02 \| 0123abcd \| 4 \| make sim SEEDS=200000 \| 200000 seeds \| 0 \| 300.0\n$/);
  const table = tableOf(second);
  assert.match(table, /\| `make sim SEEDS=200000` \| 200,000 seeds; 5 min \| none \| 2026-01-02, 0123abcd, 4 cores \|/);
  assert.match(table, /\| \*no full run is recorded\* \|/);
});

test("the pieces of a long run are added up, and what does not count alike is not", () => {
  const piece = (n) => `proof: sim | all rules | ${n} seeds | violations 0 | 30.4 s\n`;
  assert.match(taken("", `${piece(500000)}between\n${piece(250000)}${piece(250000)}`, RUN), /\| 1000000 seeds \| 0 \| 91.2\n/);
  const kills = (n) => `proof: kill | kept | ${n} kills, ${n * 9} saved | violations 0 | ${n}.0 s\n`;
  assert.match(taken("", kills(5) + kills(7), RUN), /\| 12 kills, 108 saved \| 0 \| 12.0\n/);
  const scenarios = "proof: faults | kept | 80 scenarios x 6 kinds, 17 faults | violations 0 | 4.0 s\n";
  assert.match(taken("", scenarios + scenarios, RUN), /\| 80 scenarios x 6 kinds, 17 faults \| 0 \| 4.0\n/);
  assert.throws(() => taken("", piece(1) + piece(2).replace("violations 0", "violations 1"), RUN), /violations/);
});

test("fuzz targets are summed in the table and told one by one", () => {
  const log = ["frame", "header", "inbox"].map((name, i) => `proof: fuzz-${name} | no bytes | ${(i + 1) * 1000000} executions | violations 0 | 10.0 s`);
  const table = tableOf(taken("", log.join("\n"), RUN));
  assert.match(table, /3 targets, 6,000,000 executions, of each 1,000,000 at least; 30 s/);
  assert.match(table, /\| inbox \| 3,000,000 \| 10 s \| 300,000 \| none \|/);
});

test("a run with violations, an empty log and an unknown proof are refused", () => {
  assert.throws(() => taken("", "proof: sim | all rules | 100 seeds | violations 2 | 1.5 s\n", RUN), /violations/);
  assert.throws(() => taken("", "all went well\n", RUN), /no line/);
  assert.throws(() => taken("", "proof: unheard | of | 1 thing | violations 0 | 1 s\n", RUN), /unheard/);
});

test("counts are added up if each has its number first and the same unit", () => {
  assert.equal(sumOf("100 kills, 3679 operations saved", "50 kills, 21 operations saved"), "150 kills, 3700 operations saved");
  for (const [a, b] of [["1 seed", "2 kills"], ["1 seed", "1 seed, 1 kill"], ["2.00 MiB", "2.00 MiB"], ["1 x 6 kinds", "1 x 6 kinds"]]) {
    assert.equal(sumOf(a, b), undefined, `${a} and ${b}`);
  }
});

test("a run without a commit is told by its date alone", () => {
  const table = tableOf(taken("", "proof: sim | all rules | 5 seeds | violations 0 | 1.0 s\n", { ...RUN, commit: "-" }));
  assert.match(table, /\| none \| 2026-01-02, 4 cores \|/);
});
