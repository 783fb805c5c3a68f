// Tests the tests. It plants mistakes into a copy of the rules' sources, each inactive until a variable names it, and
// builds the tests once. For each mistake of a sample it runs the tests that reach it, until one fails. docs/mutants.md
// says more.
//
//     SAMPLE=300 SEED=1 SHARD=1/4 node scripts/mutants.mjs
//
// SAMPLE is the number of mistakes, all by default; SEED chooses them; SHARD plays the first quarter of these. ONLY is
// a part of file paths. SECONDS_MAX ends the run in time. AGAIN=1 uses the last build. The script writes
// docs/mutants.data, in which it keeps the existing reasons, and docs/mutants.md.
import { createHash } from "node:crypto";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync, copyFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { dirname, join, resolve } from "node:path";

import { judgedText, pageOf, readData } from "./mutants-page.mjs";

const FOLDERS = ["src/memory", "src/sync", "src/crypto", "src/storage", "src/journal", "server/src/engine", "server/src/provider"];
// Tests, and code that only tests use.
const LEFT_OUT = /tests\.rs$|conformance|provider\/memory/;
const [DATA, PAGE] = ["docs/mutants.data", "docs/mutants.md"];
const ROOT = process.cwd();
const [PLANTED, BASELINE] = ["target/mutants/planted.json", "target/mutants/baseline.json"];
const [TREE, TARGET] = [resolve("target/mutants/tree"), resolve("target/mutants/target")];

// The test programs that judge a mistake: quick ones first.
const JUDGES = [
  { name: "sim", of: "sim", args: ["r9_every"], cases: 300 },
  { name: "lib", of: "escale", args: [] },
  { name: "machine", of: "machine", args: [] },
  { name: "operations", of: "operations", args: ["--skip", "r11_exactly_once", "--skip", "drain"], cases: 40 },
  { name: "rules", of: "rules", args: ["--skip", "r14_"], cases: 24 },
  { name: "faults", of: "faults", args: ["--skip", "every_call"] },
  { name: "tabs", of: "tabs", args: [], cases: 30 },
  { name: "server-lib", of: "escale_server", args: [] },
  { name: "wire", of: "wire", args: [], cases: 40 },
  { name: "server", of: "server", args: ["--skip", "fire_", "--skip", "kill"], cases: 6 },
  { name: "tabs-more", of: "tabs", args: ["histories"], cases: 600 },
  { name: "rules-more", of: "rules", args: [], cases: 100 },
  { name: "sim-more", of: "sim", args: [], cases: 2_000 },
  { name: "faults-more", of: "faults", args: ["every_call"] },
  { name: "hostile", of: "hostile", args: [] },
];

const say = (text) => console.log(text);

function run(command, args, options = {}) {
  const done = spawnSync(command, args, { encoding: "utf8", maxBuffer: 1 << 30, ...options });
  if (done.error) throw done.error;
  return done;
}

function cargo(args, env = {}) {
  return run("cargo", args, { cwd: TREE, env: { ...process.env, CARGO_TARGET_DIR: TARGET, ...env } });
}

/** Copies the sources. A mistake may violate a lint, so lints are not denied in the copy. */
function copySources() {
  // A file that has moved since must not stay.
  rmSync(TREE, { recursive: true, force: true });
  const files = run("git", ["ls-files"]).stdout.split("\n").filter((file) => file && !/^(www|data|bench\/(?!native\/))/.test(file));
  for (const file of files.filter(existsSync)) {
    mkdirSync(join(TREE, dirname(file)), { recursive: true });
    copyFileSync(file, join(TREE, file));
  }
  const manifest = readFileSync("Cargo.toml", "utf8").replaceAll('= "deny"', '= "allow"');
  const allowed = 'arithmetic_overflow = "allow"\nunconditional_panic = "allow"\n';
  writeFileSync(join(TREE, "Cargo.toml"), manifest.replace("[workspace.lints.rust]\n", `[workspace.lints.rust]\n${allowed}`));
  writeFileSync(join(TREE, "src/lib.rs"), `${readFileSync("src/lib.rs", "utf8")}\n#[allow(missing_docs)]\npub mod mutants;\n`);
  copyFileSync("mutants/src/switch.rs", join(TREE, "src/mutants.rs"));
  return files.filter((file) => FOLDERS.some((folder) => file.startsWith(`${folder}/`)) && /\.rs$/.test(file) && !LEFT_OUT.test(file));
}

/**
 * The mistakes that caused a compiler error: those whose text contains it, otherwise the narrowest ones around it,
 * otherwise those nearby.
 */
function blamed(message, mutants) {
  const found = new Set();
  const of = (span) => mutants.filter(({ file }) => file === span.file_name);
  const isIn = ([from, to], span) => from <= span.byte_start && span.byte_end <= to;
  for (const span of message.spans.filter(({ is_primary }) => is_primary)) {
    let here = of(span).filter(({ own }) => isIn(own, span));
    if (here.length === 0) {
      const around = of(span).filter(({ around }) => isIn(around, span));
      const end = Math.min(...around.map(({ around: [, to] }) => to));
      here = around.filter(({ around: [, to] }) => to === end);
    }
    for (const { number } of here) found.add(number);
  }
  if (found.size > 0) return found;
  const lines = message.spans.flatMap(({ line_start, line_end }) => [line_start, line_end]);
  const [from, to] = [Math.min(...lines), Math.max(...lines)];
  const near = message.spans.flatMap((span) => of(span).filter(({ line, is }) => is === "nothing" && line >= from && line <= to));
  return new Set(near.map(({ number }) => number));
}

/** Plants all mistakes that compile. */
function plant(files) {
  const leftOut = new Set();
  for (;;) {
    const numbers = [...leftOut].sort((a, b) => a - b).map(String);
    const planted = run("mutants/target/debug/escale-mutants", [ROOT, TREE, ...numbers], { input: files.join("\n") });
    if (planted.status !== 0) throw new Error(planted.stderr);
    const mutants = JSON.parse(planted.stdout);
    const checked = cargo(["check", "--locked", "--workspace", "--message-format=json"]);
    if (checked.status === 0) return { mutants, unviable: leftOut.size };
    const messages = checked.stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    const errors = messages.filter(({ reason, message }) => reason === "compiler-message" && message.level === "error");
    const before = leftOut.size;
    for (const { message } of errors) for (const number of blamed(message, mutants)) leftOut.add(number);
    if (leftOut.size === before) throw new Error(errors.map(({ message }) => message.rendered).join("\n") || checked.stderr);
  }
}

/** The tests' executables, by name. */
function build() {
  const wanted = [...new Set(JUDGES.map(({ of }) => of))].filter((of) => !of.startsWith("escale"));
  const args = ["test", "--locked", "--no-run", "--workspace", "--lib", "--message-format=json", ...wanted.flatMap((of) => ["--test", of])];
  const built = cargo(args);
  if (built.status !== 0) throw new Error(built.stderr);
  const artifacts = built.stdout.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const tests = artifacts.filter(({ executable, profile }) => executable && profile.test);
  return new Map(tests.map(({ target, executable, manifest_path }) => [target.name, { executable, cwd: dirname(manifest_path) }]));
}

/** Runs one judge. Returns whether it passed, failed, or took too long. */
function judge({ of, args, cases }, tests, env, limitMs) {
  const { executable, cwd } = tests.get(of);
  const all = { ...process.env, RUST_BACKTRACE: "0", CARGO_MANIFEST_DIR: cwd, ...(cases ? { ESCALE_CASES: String(cases) } : {}), ...env };
  delete all.ESCALE_SEED;
  return new Promise((done) => {
    const child = spawn(executable, args, { cwd, env: all, stdio: ["ignore", "pipe", "ignore"], detached: true });
    let end;
    const stop = (as) => {
      if (end) return;
      end = as;
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch (error) {
        // It has just ended by itself.
        if (error.code !== "ESRCH") throw error;
      }
    };
    const timer = setTimeout(() => stop("timeout"), limitMs);
    // The first failing test is enough.
    child.stdout.on("data", (bytes) => bytes.includes("... FAILED") && stop("failed"));
    child.on("exit", (code) => {
      clearTimeout(timer);
      done(end ?? (code === 0 ? "passed" : "failed"));
    });
  });
}

/** Runs every judge without a mistake: how long it takes, and which mistakes it reaches. */
async function baseline(tests) {
  for (const one of JUDGES) {
    const file = resolve("target/mutants", `reached-${one.name}`);
    rmSync(file, { force: true });
    const began = Date.now();
    const came = await judge(one, tests, { ESCALE_REACHED: file }, 600_000);
    if (came !== "passed") throw new Error(`${one.name} ${came} without a mistake`);
    const reached = existsSync(file) ? readFileSync(file, "utf8").split("\n").filter(Boolean).map(Number) : [];
    one.known = { reached, tookMs: Date.now() - began };
    say(`${one.name}: ${((Date.now() - began) / 1000).toFixed(1)} s, comes by ${reached.length}`);
  }
  writeFileSync(BASELINE, JSON.stringify(Object.fromEntries(JUDGES.map(({ name, known }) => [name, known]))));
}

const hash = (seed, { file, within, was, is, line }) =>
  createHash("sha256").update([seed, file, within, was, is, line].join("|")).digest("hex");

/** The sample, by a hash of the seed and the mistake, so that a larger sample contains the smaller. */
function sampled(mutants) {
  const { SAMPLE, SEED = "1", SHARD = "1/1", ONLY = "" } = process.env;
  const [k, n] = SHARD.split("/").map(Number);
  const hashed = mutants.filter(({ file }) => file.includes(ONLY)).map((mutant) => ({ ...mutant, hash: hash(SEED, mutant) }));
  hashed.sort((a, b) => (a.hash < b.hash ? -1 : 1));
  return hashed.slice(0, SAMPLE ? Number(SAMPLE) : hashed.length).filter((_, i) => i % n === k - 1);
}

async function main() {
  mkdirSync(TREE, { recursive: true });
  if (run("cargo", ["build", "--manifest-path", "mutants/Cargo.toml", "--quiet"], { stdio: "inherit" }).status !== 0) process.exit(1);
  if (!process.env.AGAIN) {
    const planted = plant(copySources());
    writeFileSync(PLANTED, JSON.stringify({ ...planted, tests: [...build()] }));
  }
  const { mutants, unviable, tests: built } = JSON.parse(readFileSync(PLANTED, "utf8"));
  const tests = new Map(built);
  say(`${mutants.length} mistakes planted, ${unviable} do not compile`);
  if (!process.env.AGAIN || !existsSync(BASELINE)) await baseline(tests);
  const known = JSON.parse(readFileSync(BASELINE, "utf8"));
  for (const one of JUDGES) {
    one.reached = new Set(known[one.name].reached);
    one.limitMs = known[one.name].tookMs * 8 + 8_000;
  }
  const sample = sampled(mutants);
  const queue = [...sample];
  const began = Date.now();
  const outOfTime = () => process.env.SECONDS_MAX && Date.now() - began > Number(process.env.SECONDS_MAX) * 1000;
  const workers = Array.from({ length: availableParallelism() }, async () => {
    for (let mutant = queue.shift(); mutant && !outOfTime(); mutant = queue.shift()) {
      const judges = JUDGES.filter(({ reached }) => reached.has(mutant.number));
      mutant.end = judges.length === 0 ? "unreached" : "missed";
      for (const one of judges) {
        const awake = { ESCALE_MUTANT: String(mutant.number) };
        let came = await judge(one, tests, awake, one.limitMs);
        // A busy machine is sometimes slow: an endless run does not end with four times the limit either.
        if (came === "timeout") came = await judge(one, tests, awake, one.limitMs * 4);
        if (came !== "passed") {
          [mutant.end, mutant.by] = [came === "failed" ? "caught" : "timeout", one.name];
          break;
        }
      }
      if (mutant.end !== "caught") say(`${mutant.end}: ${mutant.file}:${mutant.line} ${mutant.within}: ${mutant.was} -> ${mutant.is}`);
    }
  });
  await Promise.all(workers);
  const judged = sample.filter(({ end }) => end);
  writeFileSync("target/mutants/judged.json", JSON.stringify(judged, null, 1));
  const before = existsSync(DATA) ? readData(readFileSync(DATA, "utf8")) : { survivors: [] };
  const { SEED = "1", SHARD = "1/1", ONLY = "" } = process.env;
  const named = `seed ${SEED}, ${SHARD === "1/1" ? "" : `shard ${SHARD}, `}${ONLY ? `${ONLY}, ` : ""}the first ${judged.length} of ${mutants.length}`;
  const data = judgedText(judged, { sample: named, unviable, date: new Date().toISOString().slice(0, 10), before });
  writeFileSync(DATA, data);
  writeFileSync(PAGE, pageOf(readFileSync(PAGE, "utf8"), readData(data)));
  say(`proof: mutants | mistakes planted one by one are found by tests | ${judged.length} mistakes`);
}

await main();
