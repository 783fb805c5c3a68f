// The tables of a run that measured items.
import { cell, median, ownRatiosOf, ratiosOf, short } from "./ratios.mjs";
import { SYSTEMS } from "./systems.mjs";

/** The goals of Escale, each with the figure of a round that it is about. */
const GOALS = [
  { name: "ten changed: records, mark included", of: ({ tenRecords }) => tenRecords, goal: 3 },
  { name: "bytes written, less the ten items", of: ({ tenBytes, tenOwn }) => tenBytes - tenOwn, goal: 2_048 },
  { name: "bytes received, less the ten items", of: ({ tenReply, tenOwn }) => tenReply - tenOwn, goal: 1_024 },
  { name: "end: bytes received", of: ({ endReply }) => endReply, goal: 400 },
  { name: "the session, ms", of: ({ end }) => end, goal: 30 },
  { name: "the server with its request, ms", of: ({ request }) => request, goal: 5 },
];

const RATIOS = [
  { name: "ten changed, over raw", of: (report, id) => ratiosOf(report, id, "ten") },
  { name: "bytes written, over the ten items", of: (report, id) => ownRatiosOf(report, id, "tenBytes", "tenOwn") },
  { name: "all ended, over raw", of: (report, id) => ratiosOf(report, id, "end") },
];

/** The figures of the last table: medians. */
const TIMES = [
  { key: "ten", name: "ten changed, ms" },
  { key: "tenRecords", name: "records" },
  { key: "end", name: "all ended, ms" },
  { key: "endBytes", name: "bytes written" },
  { key: "endDeletes", name: "deletions" },
];

const tableOf = (columns, rows) => [`| | ${columns.join(" | ")} |`, `|---|${columns.map(() => "---").join("|")}|`, ...rows].join("\n");
const whole = (value) => (Number.isInteger(value) || Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : short(value));

/** Escale's figures with their goals, the ratios of each system, and its medians. */
export function itemsText(report) {
  const roundsOf = (id) => report.results.filter(({ system }) => system === id);
  const systems = SYSTEMS.filter(({ id }) => roundsOf(id).length > 0);
  const served = systems.filter(({ isServed }) => isServed);
  const goals = served.map(({ id, name }) => `| ${name} | ${GOALS.map(({ of }) => whole(median(roundsOf(id).map(of)))).join(" | ")} |`);
  const wanted = `| *the goal* | ${GOALS.map(({ goal }) => whole(goal)).join(" | ")} |`;
  const engine = (report.engine ?? []).map(({ items, ms, rows, reply }) => `| ${whole(items)} items | ${short(ms)} | ${rows} | ${reply} |`);
  const ratios = systems.map(({ id, name }) => `| ${name} | ${RATIOS.map(({ of }) => cell(of(report, id))).join(" | ")} |`);
  const medians = systems.map(({ id, name }) => `| ${name} | ${TIMES.map(({ key }) => whole(median(roundsOf(id).map((round) => round[key])))).join(" | ")} |`);
  return [
    tableOf(GOALS.map(({ name }) => name), [...goals, wanted]),
    "The engine of the server alone deletes a parent:",
    tableOf(["ms", "rows changed", "bytes of the reply"], [...engine, "| *the goal* | 5 | the same for both | 400 |"]),
    "With the peers:",
    tableOf(RATIOS.map(({ name }) => name), ratios),
    tableOf(TIMES.map(({ name }) => name), medians),
  ].join("\n\n");
}
