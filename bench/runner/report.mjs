// Results as a table for docs/performance.md, and as plots for 10,000 documents:
// `node runner/report.mjs results/documents-10000.json`.
import { mkdir, readFile, writeFile } from "node:fs/promises";

import { SYSTEMS } from "./systems.mjs";

/** What is told of each figure. */
export const FIGURES = [
  { key: "arrive", name: "W1 bulk arrival, in batches of 500", goal: 0.3 },
  { key: "first", name: "W2 cold open, first collection listed", goal: 0.8 },
  { key: "all", name: "W2 cold open, all readable", goal: 0.4 },
  { key: "warm", name: "W3 list a collection of 100, warm", goal: 0.02 },
  { key: "update", name: "W4 1,000 updates in batches of 100", goal: 0.44 },
  { key: "read", name: "W5 read 1,000 at random", goal: 0.03 },
  { key: "bytes", name: "W7 bytes at rest", goal: 0.5 },
];

export const median = (values) => {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
};

/** Ratios of a system's figure to the measure's in the same round: `{ least, median, most }`. */
export function ratiosOf(report, system, key) {
  const rounds = report.results.filter((result) => result.system === system);
  const ratios = rounds.flatMap((result) => {
    const measure = report.results.find(({ round, system: id }) => round === result.round && id === report.measure);
    return measure && result[key] > 0 ? [result[key] / measure[key]] : [];
  });
  if (ratios.length === 0) return undefined;
  return { least: Math.min(...ratios), median: median(ratios), most: Math.max(...ratios) };
}

const short = (ratio) => (ratio < 0.1 ? ratio.toFixed(3) : ratio < 10 ? ratio.toFixed(2) : ratio.toFixed(0));

export function table(report) {
  const head = `| | ${FIGURES.map(({ name }) => name).join(" | ")} |`;
  const rows = SYSTEMS.filter(({ id }) => report.results.some(({ system }) => system === id)).map(({ id, name, isEncrypted }) => {
    const cells = FIGURES.map(({ key }) => {
      const found = ratiosOf(report, id, key);
      return found ? `${short(found.median)} (${short(found.least)} to ${short(found.most)})` : "-";
    });
    return `| ${name}${isEncrypted ? ", sealed" : ""} | ${cells.join(" | ")} |`;
  });
  const goals = `| *the goal* | ${FIGURES.map(({ goal }) => goal).join(" | ")} |`;
  return [head, `|---|${FIGURES.map(() => "---").join("|")}|`, ...rows, goals].join("\n");
}

const kb = (bytes) => `${Math.round(bytes / 1000)} KB`;

/** What a page loads, and memory over the data's bytes. */
export function sizesTable(report) {
  const rows = SYSTEMS.filter(({ id }) => report.sizes[id]).map(({ id, name }) => {
    const { minified, gzip, brotli } = report.sizes[id];
    const memory = report.results.filter(({ system }) => system === id).map((result) => result.memory / report.dataBytes);
    return `| ${name} | ${kb(minified)} | ${kb(gzip)} | ${kb(brotli)} | ${memory.length > 0 ? short(median(memory)) : "-"} |`;
  });
  return ["| | W8 minified | gzip | brotli | W9 memory |", "|---|---|---|---|---|", ...rows].join("\n");
}

/** What only Escale is measured for. */
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

/** One figure as bars on a scale of powers of ten, the least on top. */
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
    const fill = id === "escale" ? "#0b6e4f" : "#9aa5b1";
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

/** Everything that one run told, as text for docs/performance.md. */
function textOf(report) {
  const what = report.set === "packages" ? "Debian's packages" : "generated documents";
  const failed = Object.entries(report.failed).map(([id, why]) => `\n\n\`${id}\` failed: ${why}.`);
  const of = `${report.documents} ${what}, ${report.rounds} rounds, ${report.machine.cores} cores; medians, with the least and the most.`;
  const alone = report.alone.length > 0 ? `\n\n${aloneText(report)}` : "";
  return `${of}\n\n${table(report)}\n\n${sizesTable(report)}${alone}${failed.join("")}\n`;
}

if (process.argv[2]) {
  const report = JSON.parse(await readFile(process.argv[2], "utf8"));
  const run = `${report.set}-${report.documents}`;
  if (run === "documents-10000") {
    const folder = new URL("../../docs/performance/", import.meta.url);
    await mkdir(folder, { recursive: true });
    for (const figure of FIGURES) await writeFile(new URL(`${figure.key}.svg`, folder), plot(report, figure));
  }
  const page = new URL("../../docs/performance.md", import.meta.url);
  const text = await readFile(page, "utf8");
  const parts = text.split(new RegExp(`<!-- (?:|end of )${run} -->\n`));
  if (parts.length !== 3) throw new Error(`docs/performance.md has no place for ${run}`);
  await writeFile(page, `${parts[0]}<!-- ${run} -->\n${textOf(report)}<!-- end of ${run} -->\n${parts[2]}`);
}
