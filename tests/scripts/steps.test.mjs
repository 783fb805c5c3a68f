// The steps of `make test`: their sums, and the rows of the times.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Runs these lines as a script of the folder `scripts`; returns its output, its status, and the rows of its times. */
function run(t, lines) {
  const target = mkdtempSync(join(tmpdir(), "escale-steps-"));
  t.after(() => rmSync(target, { recursive: true }));
  const script = `cd "${ROOT}"; . scripts/lib.sh; . scripts/steps.sh\n${lines}\nfinish`;
  const { stdout, status } = spawnSync("bash", ["-c", script, "scripts/of-a-test"], {
    encoding: "utf8",
    env: { ...process.env, CARGO_TARGET_DIR: target },
  });
  const rows = readFileSync(join(target, "times.tsv"), "utf8").trim().split("\n").map((line) => line.split("\t"));
  return { stdout, status, rows };
}

const print = (text) => `printf '%s\\n' ${text.split("\n").map((line) => `'${line}'`).join(" ")}`;

const TAP = `# Subtest: of a file
    ok 1 - a slow one
      ---
      duration_ms: 64500.2
      ...
    not ok 2 - a quick one
      ---
      duration_ms: 12.5
      ...
# pass 1
# fail 1`;

const CARGO = `     Running unittests src/lib.rs (target/debug/deps/escale-0)
test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s
     Running tests/rules/main.rs (target/debug/deps/rules-0)
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 48.31s`;

test("the sums count what runners report, a command that reports nothing as one test, and a build as none", (t) => {
  const { stdout, status } = run(t, `tests Node ${print(TAP)}\ntests Cargo ${print(CARGO)}\nstep Format true\nbuild Native true`);
  assert.equal(status, 1);
  assert.match(stdout, /\n12 passed, 1 failed\n$/);
});

test("a failed step, a failed build and a runner without a test each count as failed, and are named", (t) => {
  const { stdout, status } = run(t, "step Format false\nbuild Native false\ntests Empty true\nstep Types true");
  assert.equal(status, 1);
  assert.match(stdout, /failed: Format\nfailed: Native\nfailed: Empty\n1 passed, 3 failed\n$/);
});

test("a step whose runner reports a failed test and ends well is named", (t) => {
  const { stdout, status } = run(t, `tests Node ${print(TAP)}\nstep Cargo ${print(CARGO.replace("3 passed; 0", "2 passed; 1"))}`);
  assert.equal(status, 1);
  assert.match(stdout, /failed: Node\n {2}a quick one\nfailed: Cargo\n(?: {4}.*\n)+10 passed, 2 failed\n$/);
});

test("each step, and each test of a second or more, has a row, and the slowest are printed", (t) => {
  const { stdout, rows } = run(t, `tests Node ${print(TAP)}\ntests Cargo ${print(CARGO)}`);
  assert.deepEqual(rows, [
    ["Node", "0", "step"],
    ["a slow one", "65", "test", "Node"],
    ["Cargo", "0", "step"],
    ["tests/rules/main.rs", "48", "test", "Cargo"],
  ]);
  assert.match(stdout, /The slowest tests, in seconds:\n {4}65 {2}a slow one\n {4}48 {2}tests\/rules\/main.rs\n/);
});

const FAILED_CARGO = `     Running tests/rules/main.rs (target/debug/deps/rules-0)
test r1_it_holds ... ok
test r2_it_breaks ... FAILED

failures:

---- r2_it_breaks stdout ----
ESCALE_SEED=17

thread 'r2_it_breaks' panicked at tests/rules/main.rs:3:5:
left is not right

failures:
    r2_it_breaks

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.20s`;

const FAILED_TAP = `# ESCALE_SEED=3
ok 1 - a good one
# ESCALE_SEED=5
not ok 2 - a bad one
  ---
  location: 'a.test.mjs:1:1'
  error: 'one is not two'
  code: 'ERR_ASSERTION'
  ...
# pass 1
# fail 1`;

test("the end names each failed test, its seed and the beginning of its message", (t) => {
  const lines = (text) => print(text.replaceAll("'", "`"));
  const { stdout } = run(t, `tests Cargo ${lines(FAILED_CARGO)}\ntests Node ${lines(FAILED_TAP)}`);
  const end = stdout.slice(stdout.indexOf("failed: Cargo"));
  assert.equal(
    end,
    [
      "failed: Cargo",
      "  r2_it_breaks",
      "    ESCALE_SEED=17",
      "    thread `r2_it_breaks` panicked at tests/rules/main.rs:3:5:",
      "    left is not right",
      "failed: Node",
      "  a bad one",
      "    # ESCALE_SEED=5",
      "      error: `one is not two`",
      "2 passed, 2 failed",
      "",
    ].join("\n"),
  );
});
