// The tables of a run that measured storage. To report a recorded run: node storage/report.mjs results/storage.json
import { readFile } from "node:fs/promises";

import { median } from "../runner/ratios.mjs";

const MIB = 1024 * 1024;
const STORES = {
  "idb": "IndexedDB, strict",
  "idb-relaxed": "IndexedDB, relaxed",
  "opfs-page": "OPFS, `createWritable` in the page",
  "opfs-worker": "OPFS, synchronous access in a worker",
};
const sizeOf = (bytes) => (bytes < MIB ? `${bytes / 1024} KiB` : `${bytes / MIB} MiB`);
const mib = (bytes) => Math.round(bytes / MIB);
const tableOf = (columns, rows) => [`| | ${columns.join(" | ")} |`, `|---|${columns.map(() => "---").join("|")}|`, ...rows].join("\n");

/** The median with the least and the most, in MiB. */
function cell(results, key) {
  const values = results.map((result) => result[key]).filter((value) => value !== undefined);
  if (values.length === 0) return "-";
  return `${mib(median(values))} (${mib(Math.min(...values))} to ${mib(Math.max(...values))})`;
}

const SPEED = [
  ["write", "written, MiB/s"],
  ["read", "read, MiB/s"],
  ["pageMemory", "the page's memory, MiB"],
  ["allMemory", "all processes', MiB"],
  ["readPageMemory", "the page's, reading, MiB"],
];

function speedTable(report, browser) {
  const groups = grouped(report.results);
  const rows = [...groups.values()]
    .filter(([{ browser: name }]) => name === browser)
    .map((results) => {
      const [{ store, size, isSealed, isFreed }] = results;
      return `| ${STORES[store]}, ${sizeOf(size)}${isSealed ? ", sealed" : ""}${isFreed ? ", buffers freed at once" : ""} | ${SPEED.map(([key]) => cell(results, key)).join(" | ")} |`;
    });
  return tableOf(SPEED.map(([, name]) => name), rows);
}

const keyOf = ({ browser, store, size, isSealed, isFreed }) => `${browser} ${store} ${size} ${isSealed} ${isFreed}`;

function grouped(results) {
  const groups = new Map();
  for (const result of results) groups.set(keyOf(result), [...(groups.get(keyOf(result)) ?? []), result]);
  return groups;
}

/** The name of an error; or that there was none. */
const named = (text) => text.split(":")[0];

export function storageText(report) {
  const speeds = [...new Set(report.results.map(({ browser }) => browser))].map((browser) => `${browser}:\n\n${speedTable(report, browser)}`);
  const full = report.full.map(({ browser, store, failed, ...found }) => {
    const cells = failed ? [failed] : [mib(found.bytes), named(found.refused), found.readable, named(found.small), named(found.smallAgain), named(found.again)];
    return `| ${browser}, ${STORES[store]} | ${cells.join(" | ")} |`;
  });
  const killed = report.killed.map(({ browser, store, size, ...found }) => {
    const cells = [found.kills, found.told, found.lost, found.torn, found.untold, found.others];
    return `| ${browser}, ${STORES[store]}, ${sizeOf(size)} | ${cells.join(" | ")} |`;
  });
  if (report.full.length === 0) return speeds.join("\n\n");
  return [
    ...speeds,
    `A full device, ${mib(report.quota)} MiB:`,
    tableOf(["stored, MiB", "then refused", "the others are readable", "1 KiB more", "again", "after deleting half"], full),
    "Kills:",
    tableOf(["kills", "reported as complete", "of these lost", "torn", "whole, but not reported", "other files left"], killed),
  ].join("\n\n");
}

if (process.argv[1] === new URL(import.meta.url).pathname) console.log(storageText(JSON.parse(await readFile(process.argv[2], "utf8"))));
