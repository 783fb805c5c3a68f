// Writes the tables of docs/reliability.md, made from docs/reliability.data and the history of git. `node
// scripts/proofs/write-page.mjs [LOG]` first copies the `proof:` lines of a log into the data; each replaces an earlier
// one with its name.
//
// A line of the data: name | date | commit | cores | command | work done | violations | seconds. Runs from before
// commits were recorded have `-` for it.
import { availableParallelism } from "node:os";
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

import { gitOf, headOf, olderText } from "./older.mjs";
import { ROWS } from "./rows.mjs";
import { PROOFS, proofOf, shownCommand } from "./table.mjs";

export const [DATA, PAGE] = ["docs/reliability.data", "docs/reliability.md"];
const TABLE = ["<!-- table -->\n", "<!-- end of the table -->\n"];
const OLDER = ["<!-- older runs -->\n", "<!-- end of the older runs -->\n"];

const isOf = (proof) => (id) => (proof.endsWith("*") ? id.startsWith(proof.slice(0, -1)) : id === proof);

/** The row that a proof belongs to. */
const rowOf = (id) => ROWS.find(({ proofs = [] }) => proofs.some((proof) => isOf(proof)(id)));

/** The runs of the data, by name. */
export function runsOf(data) {
  const lines = data.split("\n").filter((line) => line && !line.startsWith("#"));
  return lines.map((line) => {
    const fields = line.split(" | ");
    if (fields.length !== 8) throw new Error(`eight fields expected: ${line}`);
    const [id, date, commit, cores, command, done, violations, seconds] = fields;
    if (!rowOf(id)) throw new Error(`no row of scripts/proofs/rows.mjs names the proof ${id}`);
    return { id, date, commit, cores, command, done, violations: Number(violations), seconds: Number(seconds) };
  });
}

const PROOF = /^(?:.* )?proof: (\S+) \| [^|]+ \| ([^|]+) \| violations (\d+) \| ([\d.]+) s$/gm;

/** The `proof:` lines of a log, each `{ line, id, done, violations, seconds }`. */
export function proofsOf(log) {
  return [...log.matchAll(PROOF)].map(([line, id, done, violations, seconds]) => ({
    line, id, done: done.trim(), violations: Number(violations), seconds: Number(seconds),
  }));
}

/** The counts of two pieces together, or undefined if they do not count alike: "5 kills, 40 saved". */
export function sumOf(a, b) {
  const [left, right] = [a, b].map((text) => text.split(", ").map((part) => /^(\d+) (\D+)$/.exec(part)));
  const isAlike = left.length === right.length && left.every((one, at) => one && one[2] === right[at]?.[2]);
  return isAlike ? left.map(([, n, unit], at) => `${Number(n) + Number(right[at][1])} ${unit}`).join(", ") : undefined;
}

/**
 * The data with the proofs of a log. Pieces of one proof are added up. Throws if there is none, or if one found a
 * violation.
 */
export function taken(data, log, { date, commit = "-", cores, command }) {
  const proofs = proofsOf(log);
  if (proofs.length === 0) throw new Error("the log holds no line that begins with `proof:`");
  const broken = proofs.filter(({ violations }) => violations !== 0);
  if (broken.length > 0) throw new Error(`a run with violations proves nothing: ${broken.map(({ line }) => line).join("; ")}`);
  // A long run may be done in pieces, one after the other in one log. Counts with the same units are added up.
  const sums = new Map();
  for (const { id, done, seconds } of proofs) {
    const earlier = sums.get(id);
    const sum = earlier && sumOf(earlier.done, done);
    sums.set(id, { done: sum ?? done, seconds: sum ? earlier.seconds + seconds : seconds });
  }
  const fresh = new Map(
    [...sums].map(([id, { done, seconds }]) => {
      if (!rowOf(id)) throw new Error(`no row of scripts/proofs/rows.mjs names the proof ${id}`);
      return [id, [id, date, commit, cores, command || shownCommand(proofOf(id)), done, "0", seconds.toFixed(1)].join(" | ")];
    }),
  );
  const lines = data.split("\n").filter(Boolean);
  const heads = lines.filter((line) => line.startsWith("#"));
  const kept = lines.filter((line) => !line.startsWith("#") && !fresh.has(line.split(" | ")[0]));
  return [...heads, ...[...kept, ...fresh.values()].sort(), ""].join("\n");
}

const time = (seconds) => (seconds < 120 ? `${seconds} s` : seconds < 7_200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3_600).toFixed(1)} h`);
const grouped = (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ",");
const figures = (text) => text.replace(/\d{5,}/g, grouped);
const violations = (count) => (count === 0 ? "none" : `**${count}**`);

/** One line for the runs of a row. If many have the same unit, it gives their sum. */
function told(runs) {
  const counts = runs.map(({ done }) => /^(\d+) (\D+)$/.exec(done));
  if (runs.length < 3 || counts.some((count) => !count || count[2] !== counts[0][2])) {
    return runs.map(({ id, done }) => (runs.length === 1 ? figures(done) : `${id}: ${figures(done)}`)).join("; ");
  }
  const numbers = counts.map(([, number]) => Number(number));
  const sum = numbers.reduce((a, b) => a + b);
  return `${runs.length} targets, ${grouped(sum)} ${counts[0][2]}, of each ${grouped(Math.min(...numbers))} at least`;
}

/** The command of a row's full run. */
export const commandOf = (proof) => shownCommand(PROOFS.find(({ writes }) => writes.some(isOf(proof))));

function rowText({ promise, tests, command: ofTests, proofs }, runs) {
  const command = proofs ? commandOf(proofs[0]) : ofTests;
  const where = tests.map((test) => `\`${test}\``).join(", ");
  const own = runs.filter(({ id }) => proofs?.some((proof) => isOf(proof)(id)));
  if (!proofs) return `| ${promise} | ${where} | \`${command}\` | with each run of the tests | | |`;
  if (own.length === 0) return `| ${promise} | ${where} | \`${command}\` | *no full run is recorded* | | |`;
  const commands = [...new Set(own.map((run) => run.command))].map((one) => `\`${one}\``).join("; ");
  const dates = [...new Set(own.map(({ date, commit, cores }) => `${date}, ${commit === "-" ? "" : `${commit}, `}${cores} cores`))].join("; ");
  const [seconds, found] = [own.reduce((sum, run) => sum + run.seconds, 0), own.reduce((sum, run) => sum + run.violations, 0)];
  return `| ${promise} | ${where} | ${commands} | ${told(own)}; ${time(Math.round(seconds * 10) / 10)} | ${violations(found)} | ${dates} |`;
}

/** The table made from the data, with the fuzz targets listed separately. */
export function tableOf(data) {
  const runs = runsOf(data);
  const head = "| promise | tests | command | figures of a full run | violations | when, where |\n|---|---|---|---|---|---|";
  const targets = runs.filter(({ id }) => id.startsWith("fuzz-")).map(({ id, done, violations: found, seconds }) => {
    const [count] = /^\d+/.exec(done);
    const rate = grouped(Math.round(Number(count) / seconds));
    return `| ${id.slice(5)} | ${grouped(count)} | ${time(seconds)} | ${rate} | ${violations(found)} |`;
  });
  const fuzz = ["| fuzz target | executions | time | a second | violations |", "|---|---|---|---|---|", ...targets];
  return [head, ...ROWS.map((row) => rowText(row, runs)), ...(targets.length > 0 ? ["", ...fuzz] : [])].join("\n") + "\n";
}

const between = (page, [from, to], text) => {
  const [before, rest] = page.split(from);
  const [, after] = (rest ?? "").split(to);
  if (after === undefined) throw new Error(`${PAGE} has no place for ${from.trim()}`);
  return `${before}${from}${text}${to}${after}`;
};

/** The page with another table. */
export const pageWith = (page, table) => between(page, TABLE, table);

/** The page with another section of older runs. */
export const pageWithOlder = (page, older) => between(page, OLDER, older);

/** Writes the page from the data and the history of git. The section of older runs stays if there is no history. */
export function writePage(data, folder = ".") {
  const path = `${folder}/${PAGE}`;
  const page = pageWith(readFileSync(path, "utf8"), tableOf(data));
  const older = olderText(runsOf(data), gitOf(folder));
  writeFileSync(path, older === undefined ? page : pageWithOlder(page, older));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const [, , log] = process.argv;
  let data = readFileSync(DATA, "utf8");
  if (log) {
    const { COMMAND: command, COMMIT } = process.env;
    const commit = COMMIT || headOf(gitOf("."))?.commit;
    const run = { date: new Date().toISOString().slice(0, 10), commit, cores: availableParallelism(), command };
    data = taken(data, readFileSync(log, "utf8"), run);
    writeFileSync(DATA, data);
  }
  writePage(data);
}
