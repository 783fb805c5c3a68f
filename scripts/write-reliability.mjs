// Writes the table of docs/reliability.md, made from docs/reliability.data. `node scripts/write-reliability.mjs [LOG]`
// first copies the `proof:` lines of a log into the data; each replaces an earlier one with its name.
//
// A line of the data: name | date | cores | command | work done | violations | seconds.
import { availableParallelism } from "node:os";
import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

import { ROWS } from "./reliability-rows.mjs";

const [DATA, PAGE] = ["docs/reliability.data", "docs/reliability.md"];
const MARKS = ["<!-- table -->\n", "<!-- end of the table -->\n"];

const isOf = (proof) => (id) => (proof.endsWith("*") ? id.startsWith(proof.slice(0, -1)) : id === proof);

/** The row that a proof belongs to. */
const rowOf = (id) => ROWS.find(({ proofs = [] }) => proofs.some((proof) => isOf(proof)(id)));

/** The runs of the data, by name. */
export function runsOf(data) {
  const lines = data.split("\n").filter((line) => line && !line.startsWith("#"));
  return lines.map((line) => {
    const fields = line.split(" | ");
    if (fields.length !== 7) throw new Error(`seven fields expected: ${line}`);
    const [id, date, cores, command, done, violations, seconds] = fields;
    if (!rowOf(id)) throw new Error(`no row of scripts/reliability-rows.mjs names the proof ${id}`);
    return { id, date, cores, command, done, violations: Number(violations), seconds: Number(seconds) };
  });
}

/**
 * The data with the proofs of a log. Pieces of one proof are added up. Throws if there is none, or if one found a
 * violation.
 */
export function taken(data, log, { date, cores, command }) {
  const proofs = [...log.matchAll(/^(?:.* )?proof: (\S+) \| [^|]+ \| ([^|]+) \| violations (\d+) \| ([\d.]+) s$/gm)];
  if (proofs.length === 0) throw new Error("the log holds no line that begins with `proof:`");
  const broken = proofs.filter(([, , , violations]) => violations !== "0");
  if (broken.length > 0) throw new Error(`a run with violations proves nothing: ${broken.map(([line]) => line).join("; ")}`);
  // A long run may be done in pieces, one after the other in one log. Counts with the same unit are added up.
  const sums = new Map();
  for (const [, id, what, , seconds] of proofs) {
    const [earlier, done] = [sums.get(id), what.trim()];
    const [a, b] = [earlier?.done, done].map((text) => /^(\d+) (\D+)$/.exec(text ?? ""));
    const isMore = a && b && a[2] === b[2];
    sums.set(id, {
      done: isMore ? `${Number(a[1]) + Number(b[1])} ${b[2]}` : done,
      seconds: isMore ? (Number(earlier.seconds) + Number(seconds)).toFixed(1) : seconds,
    });
  }
  const fresh = new Map(
    [...sums].map(([id, { done, seconds }]) => {
      const row = rowOf(id);
      if (!row) throw new Error(`no row of scripts/reliability-rows.mjs names the proof ${id}`);
      return [id, [id, date, cores, command || row.command, done, "0", seconds].join(" | ")];
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

function rowText({ promise, tests, command, proofs }, runs) {
  const where = tests.map((test) => `\`${test}\``).join(", ");
  const own = runs.filter(({ id }) => proofs?.some((proof) => isOf(proof)(id)));
  if (!proofs) return `| ${promise} | ${where} | \`${command}\` | with each run of the tests | | |`;
  if (own.length === 0) return `| ${promise} | ${where} | \`${command}\` | *no full run is recorded* | | |`;
  const commands = [...new Set(own.map((run) => run.command))].map((one) => `\`${one}\``).join("; ");
  const dates = [...new Set(own.map(({ date, cores }) => `${date}, ${cores} cores`))].join("; ");
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

/** The page with another table. */
export function pageWith(page, table) {
  const [before, rest] = page.split(MARKS[0]);
  const [, after] = (rest ?? "").split(MARKS[1]);
  if (after === undefined) throw new Error(`${PAGE} has no place for the table`);
  return `${before}${MARKS[0]}${table}${MARKS[1]}${after}`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const [, , log] = process.argv;
  if (log) {
    const run = { date: new Date().toISOString().slice(0, 10), cores: availableParallelism(), command: process.env.COMMAND };
    writeFileSync(DATA, taken(readFileSync(DATA, "utf8"), readFileSync(log, "utf8"), run));
  }
  writeFileSync(PAGE, pageWith(readFileSync(PAGE, "utf8"), tableOf(readFileSync(DATA, "utf8"))));
}
