// The tables of a run that measured queries.
import { cell, median, ownRatiosOf, ratiosOf, short } from "./ratios.mjs";
import { SYSTEMS } from "./systems.mjs";

const RATIOS = [
  { name: "index, over its own W2 all", of: (report, id) => ownRatiosOf(report, id, "index", "all"), goal: 1.2 },
  { name: "range of 50, over raw", of: (report, id) => ratiosOf(report, id, "range") },
  { name: "the same again, over raw", of: (report, id) => ratiosOf(report, id, "rangeAgain") },
  { name: "live query of 50, over raw", of: (report, id) => ratiosOf(report, id, "live") },
  { name: "1,000 updates with 50 lists, over none", of: (report, id) => ownRatiosOf(report, id, "open", "none"), goal: 1.2 },
];

/** The figures of the second table: median times in milliseconds. */
const TIMES = [
  { key: "all", name: "W2 all" },
  { key: "index", name: "index" },
  { key: "range", name: "range" },
  { key: "rangeAgain", name: "again" },
  { key: "live", name: "live" },
  { key: "pushed", name: "live, pushed" },
  { key: "none", name: "updates" },
  { key: "open", name: "with 50 lists" },
];

const tableOf = (columns, rows) => [`| | ${columns.join(" | ")} |`, `|---|${columns.map(() => "---").join("|")}|`, ...rows].join("\n");

/** The ratios of each system, then its median times. */
export function queriesText(report) {
  const systems = SYSTEMS.filter(({ id }) => report.results.some(({ system }) => system === id));
  const nameOf = ({ name, isEncrypted }) => `${name}${isEncrypted ? ", sealed" : ""}`;
  const ratios = systems.map((system) => `| ${nameOf(system)} | ${RATIOS.map(({ of }) => cell(of(report, system.id))).join(" | ")} |`);
  const goals = `| *the goal* | ${RATIOS.map(({ goal }) => goal ?? "").join(" | ")} |`;
  const timeOf = (id, key) => {
    const times = report.results.filter((result) => result.system === id && result[key] > 0).map((result) => result[key]);
    return times.length === 0 ? "-" : short(median(times));
  };
  const times = systems.map((system) => `| ${nameOf(system)} | ${TIMES.map(({ key }) => timeOf(system.id, key)).join(" | ")} |`);
  const head = tableOf(RATIOS.map(({ name }) => name), [...ratios, goals]);
  return `${head}\n\nIn milliseconds, medians of the rounds:\n\n${tableOf(TIMES.map(({ name }) => name), times)}`;
}
