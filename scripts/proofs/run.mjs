// `make proof`: runs the long proofs of table.mjs, and records each in docs/reliability.data once all its pieces are done.
//
//     PART=3/40 ONLY=sim,soak PLAN=1 KILLS=3 node scripts/proofs/run.mjs
//
// PART runs one of so many parts, ONLY some proofs; PLAN prints the pieces and runs nothing. A count such as KILLS makes
// a trial: it runs, and is not recorded. Its state is in target/proof, a log and a result for each piece. A piece is done again
// once a file that its proof rests on has changed.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { createWriteStream, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { gitOf, headOf } from "./older.mjs";
import { chosen, minutesOf, partsNeeded, piecesOf } from "./parts.mjs";
import { PROOFS, shownCommand, VARIABLES } from "./table.mjs";
import { DATA, proofsOf, runsOf, taken, writePage } from "./write-page.mjs";

const OWN = ["PART", "ONLY", "PLAN", "FROM", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "COMMAND", "ESCALE_EFFORT", "ESCALE_SEED", "ESCALE_SEEDS"];
const hours = (minutes) => (minutes < 90 ? `${Math.ceil(minutes)} min` : `${(minutes / 60).toFixed(1)} h`);

/** The pieces that the environment asks for, and whether they have the counts of a full run. */
export function planOf(proofs, env) {
  const variables = [...VARIABLES, ...proofs.flatMap(({ counts }) => Object.keys(counts))];
  const given = Object.fromEntries(
    variables.filter((variable) => env[variable]).map((variable) => {
      if (!/^\d+$/.test(env[variable])) throw new Error(`${variable} is a number: ${env[variable]}`);
      return [variable, Number(env[variable])];
    }),
  );
  const only = env.ONLY ? env.ONLY.split(",") : undefined;
  for (const name of only ?? []) {
    if (!proofs.some((proof) => proof.name === name)) throw new Error(`no proof is called ${name}: ${proofs.map((proof) => proof.name).join(", ")}`);
  }
  const wanted = proofs.filter(({ name }) => !only || only.includes(name));
  const all = wanted.flatMap((proof) => piecesOf(proof, given));
  const isTrial = ({ proof }) => Object.keys(proof.counts).some((variable) => given[variable] !== undefined);
  return { all, pieces: chosen(all, env.PART), isTrial };
}

/** The tree of the files at the head, as one hash; undefined if the working tree differs from it. */
function treeOf(git, files) {
  if (git("status", "--porcelain", "--", ...files) !== "") return undefined;
  const tree = git("ls-tree", "-r", "HEAD", "--", ...files);
  return tree && createHash("sha256").update(tree).digest("hex");
}

/** Runs a command; its output goes to the terminal and to a log. Resolves to its exit status. */
function run(command, { folder, log, env }) {
  const child = spawn("bash", ["-c", `set -o pipefail; ${command}`], { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
  const file = createWriteStream(log);
  for (const [from, to] of [[child.stdout, process.stdout], [child.stderr, process.stderr]]) {
    from.on("data", (bytes) => {
      to.write(bytes);
      file.write(bytes);
    });
  }
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status, signal) => file.end(() => resolve(signal ? 1 : status)));
  });
}

/** The faults of a piece's log, which are lines that are missing or have violations; and the lines to record. */
function judged({ proof, counts }, log, seconds) {
  if (proof.done) {
    // The command prints no such line: that it ended well is the proof.
    return { faults: [], lines: `proof: ${proof.writes[0]} | as the row says | ${proof.done(counts)} | violations 0 | ${seconds.toFixed(1)} s\n` };
  }
  const lines = proofsOf(log).filter(({ id }) => proof.writes.includes(id));
  const missing = proof.writes.filter((id) => !lines.some((line) => line.id === id));
  const broken = lines.filter(({ violations }) => violations !== 0);
  return {
    faults: [...missing.map((id) => `it printed no line of ${id}`), ...broken.map(({ line }) => line)],
    lines: lines.map(({ line }) => `${line.slice(line.indexOf("proof:"))}\n`).join(""),
  };
}

/** The pieces that are done, `{ tree, commit, lines }` by their ids: a file for each, so that machines can share them. */
function doneIn(state) {
  const files = readdirSync(state).filter((file) => file.endsWith(".json"));
  return Object.fromEntries(files.map((file) => [file.slice(0, -5), JSON.parse(readFileSync(join(state, file), "utf8"))]));
}

/** Runs the pieces that the environment asks for in a repository. Resolves to the failures, each a sentence. */
export async function prove({ proofs = PROOFS, folder = process.cwd(), env = process.env, now = () => new Date() }) {
  const git = gitOf(folder);
  const { all, pieces, isTrial } = planOf(proofs, env);
  const needed = partsNeeded(all);
  console.log(`${pieces.length} of ${all.length} pieces, about ${hours(minutesOf(pieces))} on two cores. In ${needed} parts or more, as in PART=1/${needed}, none takes over an hour.`);
  if (env.PLAN) {
    for (const { id, minutes, command } of pieces) console.log(`${hours(minutes).padStart(8)}  ${id.padEnd(24)} ${command}`);
    return [];
  }
  const state = join(folder, "target/proof");
  mkdirSync(state, { recursive: true });
  const done = doneIn(state);
  const others = Object.entries(env).filter(([name]) => ![...OWN, ...VARIABLES].includes(name));
  // Some proofs are parts of `make test`, which would play the same histories again.
  const childEnv = { ...Object.fromEntries(others), ESCALE_SEEDS: "new" };
  const failures = [];
  const play = async (piece) => {
    console.log(`-- ${piece.id}: ${piece.command}`);
    const [log, began] = [join(state, `${piece.id}.log`), Date.now()];
    const status = await run(piece.command, { folder, log, env: childEnv });
    const { faults, lines } = judged(piece, readFileSync(log, "utf8"), (Date.now() - began) / 1_000);
    if (status !== 0) faults.unshift(`the command ended with ${status}`);
    return { faults: faults.map((fault) => `${piece.id}: ${fault} (${log})`), lines };
  };
  for (const piece of pieces) {
    if (isTrial(piece)) {
      failures.push(...(await play(piece)).faults);
      console.log(`-- ${piece.id} was a trial, with other counts than a full run: it is not recorded`);
      continue;
    }
    const { id, proof } = piece;
    const tree = treeOf(git, proof.rests);
    if (tree === undefined) {
      failures.push(`${id}: a row names a commit, and these files differ from it or have none: ${proof.rests.join(" ")}`);
      continue;
    }
    if (done[id]?.tree === tree) {
      console.log(`-- ${id} was done at ${done[id].commit}`);
    } else {
      const { commit } = headOf(git);
      const { faults, lines } = await play(piece);
      if (treeOf(git, proof.rests) !== tree) faults.push(`${id}: its files changed while it ran`);
      failures.push(...faults);
      if (faults.length > 0) continue;
      done[id] = { tree, commit, lines };
      writeFileSync(join(state, `${id}.json`), JSON.stringify(done[id]));
    }
    record(proof, { all, done, tree, folder, now });
  }
  return failures;
}

/** Writes the row of a proof once all its pieces are done with the same files. */
function record(proof, { all, done, tree, folder, now }) {
  const own = all.filter((piece) => piece.proof === proof);
  const left = own.filter(({ id }) => done[id]?.tree !== tree);
  if (left.length > 0) {
    console.log(`-- ${proof.name}: ${own.length - left.length} of ${own.length} pieces are done`);
    return;
  }
  const { commit } = done[own.at(-1).id];
  const data = readFileSync(join(folder, DATA), "utf8");
  const recorded = runsOf(data).filter((run) => proof.writes.includes(run.id) && run.commit === commit);
  // A row that is recorded keeps its date.
  if (recorded.length === proof.writes.length) return;
  const command = own.length === 1 ? shownCommand(proof) : `${shownCommand(proof)}, in ${own.length} pieces`;
  const run = { date: now().toISOString().slice(0, 10), commit, cores: availableParallelism(), command };
  const more = taken(data, own.map(({ id }) => done[id].lines).join(""), run);
  writeFileSync(join(folder, DATA), more);
  writePage(more, folder);
  console.log(`-- ${proof.name} is recorded in ${DATA}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  try {
    const failures = await prove({});
    for (const failure of failures) console.error(`failed: ${failure}`);
    process.exitCode = failures.length > 0 ? 1 : 0;
  } catch (error) {
    console.error(`error: ${error.message}`);
    process.exitCode = 1;
  }
}
