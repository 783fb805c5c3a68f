// Writes results as a table for bench/results/tables.md, and as plots for 10,000 documents. To report a recorded run:
//
//     node runner/report.mjs results/documents-10000.json
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import { itemsText } from "./items-report.mjs";
import { queriesText } from "./queries-report.mjs";
import { cell, median, ratiosOf, short } from "./ratios.mjs";
import { SYSTEMS } from "./systems.mjs";

/** The reported figures. */
export const FIGURES = [
  { key: "arrive", name: "W1 bulk arrival, in batches of 500", goal: 0.3 },
  { key: "first", name: "W2 cold open, first collection listed", goal: 0.8 },
  { key: "all", name: "W2 cold open, all readable", goal: 0.4 },
  { key: "warm", name: "W3 list a collection of 100, warm", goal: 0.02 },
  { key: "update", name: "W4 1,000 updates in batches of 100", goal: 0.44 },
  { key: "read", name: "W5 read 1,000 at random", goal: 0.03 },
  { key: "bytes", name: "W7 bytes at rest", goal: 0.5 },
];

/** Figures without a goal: the effects of updates. */
const LATER = [
  { key: "later", name: "1,000 updates, of 24,000 more" },
  { key: "bytesLater", name: "bytes at rest after these 25,000" },
];

export function table(report) {
  const head = `| | ${FIGURES.map(({ name }) => name).join(" | ")} |`;
  const rows = SYSTEMS.filter(({ id }) => report.results.some(({ system }) => system === id)).map(({ id, name, isEncrypted }) => {
    const cells = FIGURES.map(({ key }) => cell(ratiosOf(report, id, key)));
    return `| ${name}${isEncrypted ? ", sealed" : ""} | ${cells.join(" | ")} |`;
  });
  const goals = `| *the goal* | ${FIGURES.map(({ goal }) => goal).join(" | ")} |`;
  return [head, `|---|${FIGURES.map(() => "---").join("|")}|`, ...rows, goals].join("\n");
}

const kb = (bytes) => `${Math.round(bytes / 1000)} KB`;

/** The table of a page's loaded bytes, of memory relative to the data's bytes, and of the effects of updates. */
export function sizesTable(report) {
  const measured = LATER.filter(({ key }) => report.results.some((result) => result[key]));
  const rows = SYSTEMS.filter(({ id }) => report.sizes[id]).map(({ id, name }) => {
    const { minified, gzip, brotli } = report.sizes[id];
    const memory = report.results.filter(({ system }) => system === id).map((result) => result.memory / report.dataBytes);
    const later = measured.map(({ key }) => ratiosOf(report, id, key)).map((found) => (found ? short(found.median) : "-"));
    const told = [kb(minified), kb(gzip), kb(brotli), memory.length > 0 ? short(median(memory)) : "-", ...later];
    return `| ${name} | ${told.join(" | ")} |`;
  });
  const head = ["W8 minified", "gzip", "brotli", "W9 memory", ...measured.map(({ name }) => name)];
  return [`| | ${head.join(" | ")} |`, `|---|${head.map(() => "---").join("|")}|`, ...rows].join("\n");
}

/** The text about the measurements of Escale alone. */
export function aloneText(report) {
  const of = (take) => median(report.alone.map(take));
  const rate = (take) => Math.round(of(({ operations, ...times }) => (operations / take(times)) * 1000));
  return (
    `W6: from a change in one browser to the callback in another, with the real server between, ` +
    `${Math.round(of((times) => times.heardP50))} ms (p50) and ${Math.round(of((times) => times.heardP95))} ms (p95). ` +
    `W10: ${rate((times) => times.written)} operations a second are written offline, ${rate((times) => times.drained)} drained. ` +
    `Opening an empty store again takes ${Math.round(of((times) => times.openWithKey))} ms with a key, ` +
    `${Math.round(of((times) => times.openWithPassphrase))} ms with a passphrase.`
  );
}

const WIDTH = 720;
const LEFT = 250;

/** One figure as bars on a logarithmic scale, the smallest on top. */
export function plot(report, { key, name, goal }) {
  const bars = SYSTEMS.map(({ id, name: system }) => ({ id, system, ratio: ratiosOf(report, id, key)?.median }))
    .filter(({ ratio }) => ratio)
    .sort((a, b) => a.ratio - b.ratio);
  const [low, high] = [Math.floor(Math.log10(Math.min(goal, bars[0].ratio))), Math.ceil(Math.log10(bars.at(-1).ratio) + 0.01)];
  const at = (ratio) => LEFT + ((Math.log10(ratio) - low) / (high - low)) * (WIDTH - LEFT - 70);
  const height = 60 + bars.length * 24;
  const lines = Array.from({ length: high - low + 1 }, (_, i) => 10 ** (low + i)).map(
    (power) => `<path d="M${at(power)} 40V${height - 10}" stroke="#ddd"/><text x="${at(power)}" y="34" text-anchor="middle" fill="#666">${power}</text>`,
  );
  const drawn = bars.map(({ id, system, ratio }, i) => {
    const y = 46 + i * 24;
    const fill = id.startsWith("escale") ? "#0b6e4f" : "#9aa5b1";
    return (
      `<text x="${LEFT - 8}" y="${y + 13}" text-anchor="end">${system}</text>` +
      `<rect x="${LEFT}" y="${y}" width="${Math.max(2, at(ratio) - LEFT)}" height="18" fill="${fill}"/>` +
      `<text x="${at(ratio) + 6}" y="${y + 13}">${short(ratio)}</text>`
    );
  });
  const mark = `<path d="M${at(goal)} 40V${height - 10}" stroke="#c2410c" stroke-dasharray="4 3"/>`;
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, sans-serif" font-size="12">` +
    `<rect width="100%" height="100%" fill="#fff"/><text x="8" y="18" font-size="13" font-weight="600">${name}: times raw IndexedDB, less is better; dashed, the goal</text>` +
    `${lines.join("")}${drawn.join("")}${mark}</svg>\n`
  );
}

/** The full report of one run, as text for bench/results/tables.md. */
function textOf(report) {
  const what = { packages: "Debian's packages", lists: "generated documents in 100 lists", queries: "generated documents in 62 groups", items: "generated documents in one note" }[report.set] ?? "generated documents";
  const failed = Object.entries(report.failed).map(([id, why]) => `\n\n\`${id}\` failed: ${why}.`);
  const of = `${report.documents} ${what}, ${report.rounds} rounds, ${report.machine.cores} cores; medians, with the least and the most.`;
  const alone = report.alone.length > 0 ? `\n\n${aloneText(report)}` : "";
  if (report.set === "items") return `${of}\n\n${itemsText(report)}${failed.join("")}\n`;
  if (report.set === "queries") return `${of}\n\n${queriesText(report)}${failed.join("")}\n`;
  return `${of}\n\n${table(report)}\n\n${sizesTable(report)}${alone}${failed.join("")}\n`;
}

const RESULTS = new URL("../results/", import.meta.url);
const PAGE = new URL("../results/tables.md", import.meta.url);
const ROUNDS_MIN = 5;

/**
 * The reason why a run must not be recorded; undefined if it may. `pieces` is the page, cut before and after the run's
 * place.
 */
async function whyNot(report, run, pieces) {
  if (report.rounds < ROUNDS_MIN) return `a record has ${ROUNDS_MIN} rounds`;
  if (pieces.length !== 3) return `bench/results/tables.md has no place for ${run}`;
  if (report.results.some(({ system }) => system.includes("before"))) return "it compares two builds";
  const earlier = await readFile(new URL(`${run}.json`, RESULTS), "utf8").then(JSON.parse, () => ({ results: [] }));
  const isMeasured = (id) => SYSTEMS.some((system) => system.id === id);
  const missing = earlier.results.find(({ system }) => isMeasured(system) && !report.results.some((result) => result.system === system));
  return missing && `the record has ${missing.system} as well`;
}

/**
 * Keeps a run as the record, in its table and, for 10,000 documents, in its plots. If it is no record, keeps it as
 * `results/last.json`, and prints its table.
 */
export async function record(report) {
  const run = `${report.set}-${report.documents}`;
  const pieces = (await readFile(PAGE, "utf8")).split(new RegExp(`<!-- (?:|end of )${run} -->\\n`));
  const why = await whyNot(report, run, pieces);
  await mkdir(RESULTS, { recursive: true });
  await writeFile(new URL(`${why ? "last" : run}.json`, RESULTS), `${JSON.stringify(report, null, 1)}\n`);
  if (why) {
    console.log(`\n${textOf(report)}\nIn bench/results/last.json, and not recorded: ${why}.`);
    return;
  }
  if (run === "documents-10000") {
    const folder = new URL("../../docs/performance/", import.meta.url);
    await mkdir(folder, { recursive: true });
    for (const figure of FIGURES) await writeFile(new URL(`${figure.key}.svg`, folder), plot(report, figure));
  }
  const [before, , after] = pieces;
  await writeFile(PAGE, `${before}<!-- ${run} -->\n${textOf(report)}<!-- end of ${run} -->\n${after}`);
  console.log(`bench/results/${run}.json, and its table in bench/results/tables.md`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await record(JSON.parse(await readFile(process.argv[2], "utf8")));
