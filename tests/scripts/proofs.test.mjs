// `make proof`: its table, how it is cut, and its runs in a repository of their own, whose Makefile has quick proofs.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { chosen, minutesOf, PART_MINUTES_MAX, PIECE_MINUTES_MAX, partsNeeded, partsOf, piecesOf } from "../../scripts/proofs/parts.mjs";
import { ROWS } from "../../scripts/proofs/rows.mjs";
import { PROOFS, TARGETS } from "../../scripts/proofs/table.mjs";
import { randomFrom } from "../e2e/support/in-page/random.js";
import { count, startSeed } from "../../testkit/effort.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const PIECES = PROOFS.flatMap((proof) => piecesOf(proof));

test("each proof has a row, each row a proof, and what a proof rests on is there", () => {
  const written = PROOFS.flatMap(({ writes }) => writes);
  assert.equal(new Set(written).size, written.length, "two proofs write one row");
  assert.equal(new Set(PROOFS.map(({ name }) => name)).size, PROOFS.length);
  const rows = ROWS.flatMap(({ proofs = [] }) => proofs).flatMap((id) => (id === "fuzz-*" ? TARGETS.map((target) => `fuzz-${target}`) : [id]));
  assert.deepEqual([...written].sort(), [...rows].sort());
  for (const { name, rests } of PROOFS) for (const path of rests) assert.ok(existsSync(join(ROOT, path)), `${name}: ${path}`);
});

test("a command runs a target of the Makefile, or tests that are there", () => {
  const makefile = readFileSync(join(ROOT, "Makefile"), "utf8");
  for (const { id, command, counts } of PIECES) {
    const [, target] = /(?:^|[^\w])make ([\w-]+)/.exec(command);
    assert.ok(makefile.includes(`\n${target}:`), `${id}: ${command}`);
    for (const number of Object.values(counts)) assert.ok(command.includes(`=${number}`), `${id}: ${command} plays ${number}`);
    const [, binary] = /--package escale .*--test (\w+)/.exec(command) ?? [];
    if (binary) assert.ok(existsSync(join(ROOT, `tests/${binary}/main.rs`)), `${id}: ${command}`);
  }
});

test("a full run has the numbers that the project asks for", () => {
  const countsOf = (name) => PROOFS.find((proof) => proof.name === name).counts;
  assert.equal(countsOf("sim").SEEDS, 1_000_000);
  assert.deepEqual([countsOf("kill").KILLS, countsOf("kill-firefox").KILLS, countsOf("kill-server").KILLS], [300, 300, 500]);
  assert.equal(countsOf("failovers").FAILOVERS, 150);
  assert.equal(countsOf("cluster").ROUNDS, 200);
  assert.equal(countsOf("kill-files").FILM_MIB, 1024);
  for (const target of TARGETS) assert.equal(countsOf(`fuzz-${target}`).RUNS, 10_000_000);
});

test("the pieces of a proof have all of its counts, one after the other", () => {
  for (const proof of PROOFS) {
    const own = piecesOf(proof);
    for (const { counts } of own) {
      for (const [variable, number] of Object.entries(proof.counts)) if (variable !== proof.cut) assert.equal(counts[variable], number);
    }
    if (!proof.cut) continue;
    assert.equal(own.reduce((sum, { counts }) => sum + counts[proof.cut], 0), proof.counts[proof.cut], proof.name);
    assert.ok(own.every(({ minutes }) => minutes <= PIECE_MINUTES_MAX), proof.name);
  }
  const froms = piecesOf(PROOFS[0]).map(({ command }) => Number(/FROM=(\d+)/.exec(command)[1]));
  const sums = piecesOf(PROOFS[0]).map(({ counts }) => counts.SEEDS).map((_, at, all) => all.slice(0, at).reduce((a, b) => a + b, 0));
  assert.deepEqual(froms, sums);
});

test("parts are complete and balanced, for any pieces and any number of parts", (t) => {
  const seed = startSeed();
  t.diagnostic(`ESCALE_SEED=${seed}`);
  for (let history = 0; history < count("CUTS", 300); history++) {
    const below = randomFrom(seed + history);
    const pieces = Array.from({ length: 1 + below(60) }, (_, id) => ({ id, minutes: 1 + below(50) }));
    const of = 1 + below(15);
    const parts = Array.from({ length: of }, (_, at) => chosen(pieces, `${at + 1}/${of}`));
    const at = `ESCALE_SEED=${seed + history}`;
    assert.deepEqual(parts.flat().map(({ id }) => id).sort((a, b) => a - b), pieces.map(({ id }) => id), `${at}: each piece once`);
    for (const part of parts) assert.deepEqual(part, [...part].sort((a, b) => a.id - b.id), `${at}: in their order`);
    const [least, most] = [Math.min(...parts.map(minutesOf)), Math.max(...parts.map(minutesOf))];
    assert.ok(most - least <= Math.max(...pieces.map(({ minutes }) => minutes)), `${at}: ${least} to ${most} minutes`);
    const needed = partsNeeded(pieces);
    assert.ok(partsOf(pieces, needed).every((part) => minutesOf(part) <= PART_MINUTES_MAX), `${at}: ${needed} parts`);
  }
});

test("the whole can be cut into parts of at most an hour, and a wrong part is an error", () => {
  const needed = partsNeeded(PIECES);
  for (const part of partsOf(PIECES, needed)) assert.ok(minutesOf(part) <= PART_MINUTES_MAX);
  for (const wrong of ["0/3", "4/3", "3", "1/0", "a/b"]) assert.throws(() => chosen(PIECES, wrong), /PART=3\/12/, wrong);
});

/** A repository whose Makefile has quick proofs. `prove` runs the command in it. */
function repository(t, makefile) {
  const folder = mkdtempSync(join(tmpdir(), "escale-proof-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const git = (...args) => execFileSync("git", ["-c", "user.name=a", "-c", "user.email=a@b", ...args], { cwd: folder, encoding: "utf8" }).trim();
  const write = (path, text) => {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  const commit = (path, text) => {
    write(path, text);
    git("add", "-A");
    git("commit", "-q", "-m", path);
    return git("log", "-1", "--format=%h");
  };
  const read = (path) => (existsSync(join(folder, path)) ? readFileSync(join(folder, path), "utf8") : "");
  const prove = (env) => {
    const plain = Object.fromEntries(Object.entries(process.env).filter(([name]) => /^(PATH|HOME)$/.test(name)));
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, "scripts/proofs/run.mjs")], {
      cwd: folder, encoding: "utf8", env: { ...plain, ...env },
    });
    return { status, output: stdout + stderr };
  };
  git("init", "-q");
  write(".gitignore", "target\n");
  write("docs/reliability.data", "# head\n");
  write("docs/reliability.md", "<!-- table -->\n<!-- end of the table -->\n<!-- older runs -->\n<!-- end of the older runs -->\n");
  write("Makefile", makefile);
  const first = commit("src/lib.rs", "1");
  return { folder, commit, write, read, prove, first };
}

const line = (id, done) => `@echo 'proof: ${id} | kept | ${done} | violations 0 | 2.0 s'`;
const SOAK = `soak:\n\t@echo run >>target/runs\n\t${line("soak", "$(ROUNDS) operations")}\n`;
const rowsOf = (data) => data.split("\n").filter((row) => row && !row.startsWith("#"));

test("a run is recorded with its commit, once, and repeated after a change of what it rests on", (t) => {
  const { commit, read, prove, first } = repository(t, SOAK);
  const runs = () => read("target/runs").split("run").length - 1;
  assert.deepEqual([prove({ ONLY: "soak" }).status, runs()], [0, 1]);
  assert.match(read("docs/reliability.data"), new RegExp(`\nsoak \\| [\\d-]+ \\| ${first} \\| \\d+ \\| make soak ROUNDS=300 \\| 300 operations \\| 0 \\| 2.0\n`));
  assert.match(read("docs/reliability.md"), new RegExp(`300 operations; 2 s \\| none \\| [\\d-]+, ${first}, `));
  commit("docs/notes.md", "nothing rests on it");
  assert.deepEqual([prove({ ONLY: "soak" }).status, runs()], [0, 1], "what is recorded is not played again");
  const second = commit("src/lib.rs", "2");
  assert.deepEqual([prove({ ONLY: "soak" }).status, runs()], [0, 2]);
  assert.deepEqual(rowsOf(read("docs/reliability.data")).map((row) => row.split(" | ")[2]), [second]);
});

test("a proof in pieces goes on where it stopped, in parts too, and is recorded when all are done", (t) => {
  const kill = `kill-firefox:\n\t@echo run >>target/runs\n\t@test ! -e target/broken\n\t${line("kill-firefox", "$(KILLS) kills, 7 saved")}\n`;
  const { folder, read, prove, write } = repository(t, kill);
  const runs = () => read("target/runs").split("run").length - 1;
  const one = prove({ ONLY: "kill-firefox", PART: "1/3" });
  assert.match(one.output, /1 of 3 pieces are done/);
  assert.deepEqual([one.status, runs(), rowsOf(read("docs/reliability.data"))], [0, 1, []]);
  write("target/broken", "");
  const two = prove({ ONLY: "kill-firefox" });
  assert.deepEqual([two.status, runs(), rowsOf(read("docs/reliability.data"))], [1, 3, []], two.output);
  rmSync(join(folder, "target/broken"));
  assert.deepEqual([prove({ ONLY: "kill-firefox" }).status, runs()], [0, 5]);
  assert.match(read("docs/reliability.data"), /make kill-firefox KILLS=300, in 3 pieces \| 300 kills, 21 saved \| 0 \| 6.0\n/);
});

test("a proof that fails, finds a violation or says nothing is not recorded, and the command fails; the others go on", (t) => {
  const makefile = [
    `soak:\n\t${line("soak", "1 operation")}\n\t@false\n`,
    `hostile:\n\t@echo 'proof: hostile | kept | 5 replies | violations 1 | 2.0 s'\n`,
    "flips:\n\t@echo well\n",
    `quotas:\n\t${line("quota", "30 sizes")}\n`,
  ].join("\n");
  const { read, prove } = repository(t, makefile);
  const { status, output } = prove({ ONLY: "soak,hostile,flips,quotas" });
  assert.equal(status, 1);
  assert.match(output, /failed: soak: the command ended with 2/);
  assert.match(output, /failed: hostile: proof: hostile .* violations 1/);
  assert.match(output, /failed: flips: it printed no line of flips/);
  assert.deepEqual(rowsOf(read("docs/reliability.data")).map((row) => row.split(" | ")[0]), ["quota"]);
});

test("a trial with other counts runs and is not recorded", (t) => {
  const { read, prove } = repository(t, SOAK);
  const { status, output } = prove({ ONLY: "soak", ROUNDS: "2" });
  assert.equal(status, 0);
  assert.match(output, /2 operations[^]*soak was a trial/);
  assert.deepEqual(rowsOf(read("docs/reliability.data")), []);
  assert.equal(prove({ ONLY: "soak", ROUNDS: "many" }).status, 1);
});

test("files that differ from their commit are not proved, nor those that change during the run", (t) => {
  const changing = `soak:\n\t@echo more >>js/src/a.ts\n\t${line("soak", "1 operation")}\n`;
  const { commit, read, prove, write } = repository(t, changing);
  commit("js/src/a.ts", "");
  const during = prove({ ONLY: "soak" });
  assert.match(during.output, /soak: its files changed while it ran/);
  const after = prove({ ONLY: "soak" });
  assert.match(after.output, /these files differ from it/);
  commit("js/src/a.ts", "more");
  write("js/src/new.ts", "not in the commit");
  assert.match(prove({ ONLY: "soak" }).output, /these files differ from it/);
  assert.deepEqual([during.status, after.status, rowsOf(read("docs/reliability.data"))], [1, 1, []]);
});

test("the page says which runs are older than the newest change of the files that they rest on", (t) => {
  const { folder, commit, read, prove } = repository(t, SOAK);
  const write = () => execFileSync(process.execPath, [join(ROOT, "scripts/proofs/write-page.mjs")], { cwd: folder });
  prove({ ONLY: "soak" });
  commit("docs/notes.md", "nothing rests on it");
  write();
  assert.match(read("docs/reliability.md"), /every run is newer than all changes of the files/);
  const newest = commit("src/lib.rs", "2");
  write();
  assert.match(read("docs/reliability.md"), new RegExp(`1 of 1 runs are older[^]*\\| soak \\| [\\d-]+ \\| [\\d-]+, ${newest} \\|`));
  // A commit that this history does not have: then the dates decide.
  const row = (date) => `# head\nsoak | ${date} | fedcba98 | 2 | make soak ROUNDS=300 | 1 operation | 0 | 1.0\n`;
  commit("docs/reliability.data", row("2000-01-01"));
  write();
  assert.match(read("docs/reliability.md"), /1 of 1 runs are older/);
  commit("docs/reliability.data", row("2999-01-01"));
  write();
  assert.match(read("docs/reliability.md"), /every run is newer/);
});

test("an unknown proof is an error, and a plan runs nothing", (t) => {
  const { read, prove } = repository(t, SOAK);
  const { status, output } = prove({ ONLY: "soap" });
  assert.equal(status, 1);
  assert.match(output, /no proof is called soap: sim, /);
  const plan = prove({ PLAN: "1", PART: "1/2" });
  assert.equal(plan.status, 0);
  assert.match(plan.output, / sim-1-of-6 +make sim SEEDS=166666 FROM=0\n/);
  assert.equal(read("target/runs"), "");
});
