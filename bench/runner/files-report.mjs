// The tables of a run that measured files. To report a recorded run: node runner/files-report.mjs results/files.json
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

import { cell, median, spread } from "./ratios.mjs";

const MIB = 1 << 20;
const NAMES = {
  "raw-files": "raw IndexedDB, records of 1 MiB",
  "escale-files": "Escale, sealed",
  "rxdb-files": "RxDB, Dexie storage",
  "pouch-files": "PouchDB",
};
const FIGURES = [
  ["add", "added, ms", 1],
  ["read", "read after a restart, ms", 1],
  ["held", "heap held while adding, MiB", MIB],
  ["heap", "with garbage", MIB],
  ["pageMemory", "the page's process, MiB", MIB],
  ["readHeap", "heap while reading, MiB", MIB],
  ["bytes", "at rest, over the file", 0],
];

const tableOf = (columns, rows) => [`| | ${columns.join(" | ")} |`, `|---|${columns.map(() => "---").join("|")}|`, ...rows].join("\n");

function told(values, unit) {
  if (values.length === 0 || values.includes(undefined)) return "-";
  return unit ? String(Math.round(median(values) / unit)) : median(values).toFixed(2);
}

/** Ratios of raw IndexedDB's time to a system's in the same round: above 1 is faster than raw. */
function speedOf(report, system, mib, key) {
  const ratios = report.results
    .filter((result) => result.system === system && result.mib === mib && result[key] > 0)
    .flatMap((result) => {
      const raw = report.results.find((other) => other.round === result.round && other.system === "raw-files" && other.mib === mib);
      return raw?.[key] > 0 ? [raw[key] / result[key]] : [];
    });
  return ratios.length > 0 ? spread(ratios) : undefined;
}

export function filesText(run) {
  const report = { ...run, transfers: run.transfers.filter(({ failed }) => !failed) };
  const sizes = [...new Set(report.results.map(({ mib }) => mib))];
  const of = (system, mib) => report.results.filter((result) => result.system === system && result.mib === mib && !result.failed);
  const ownSize = (mib) => [
    [`\`add\` of ${mib} MiB, speed over raw IndexedDB`, cell(speedOf(report, "escale-files", mib, "add")), "at least 0.6"],
    ["heap above the start that something holds, MiB", told(of("escale-files", mib).map(({ held }) => held), MIB), "at most 24"],
    ["the same with garbage", told(of("escale-files", mib).map(({ heap }) => heap), MIB), ""],
  ];
  const speeds = (own, bare) => cell(spread(report.transfers.map((transfer) => transfer[bare] / transfer[own])));
  const goals = [
    ...sizes.filter((mib) => mib >= 64 && mib !== 100).flatMap(ownSize),
    ["upload of 64 MiB, speed over bare `fetch`", speeds("send", "sendBare"), "at least 0.8"],
    ["download of 64 MiB, speed over bare `fetch`", speeds("load", "loadBare"), "at least 0.8"],
    ["heap above the start while loading, with garbage, MiB", told(report.transfers.map(({ loadHeap }) => loadHeap), MIB), "at most 24"],
  ];
  const rates = (key) => told(report.transfers.map((transfer) => 64_000 / transfer[key]), 1);
  const peers = sizes.flatMap((mib) =>
    Object.keys(NAMES)
      .filter((system) => report.results.some((result) => result.system === system && result.mib === mib))
      .map((system) => `| ${mib} MiB, ${NAMES[system]} | ${FIGURES.map(([key, , unit]) => told(of(system, mib).map((result) => result[key]), unit)).join(" | ")} |`),
  );
  const lost = run.transfers.length - report.transfers.length;
  const failed = report.results.filter(({ failed: why }) => why).map(({ system, mib, failed: why }) => `\`${system}\` failed with ${mib} MiB: ${why}.`);
  return [
    `${report.rounds} rounds, ${report.machine.cores} cores${report.isIsolated ? ", in pages isolated from other origins" : ""}, ${report.date}, ${report.browser.replace(/ built.*/, "")}; medians, with the least and the most. The rows of 1024 MiB are of one round.`,
    tableOf(["measured", "goal"], goals.map((row) => `| ${row.join(" | ")} |`)),
    `In MiB a second: sent ${rates("send")}, bare ${rates("sendBare")}; loaded ${rates("load")}, bare ${rates("loadBare")}.`,
    tableOf(FIGURES.map(([, name]) => name), peers),
    ...failed,
    ...(lost > 0 ? [`${lost} of ${run.transfers.length} rounds of transfers failed.`] : []),
  ].join("\n\n");
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(filesText(JSON.parse(await readFile(process.argv[2], "utf8"))));
