// Measures every system once in each round, in turn:
//
//     node runner/run.mjs [--set documents|items|lists|packages|queries] [--rounds 5] [--documents 10000] [--only escale,dexie]
//         [--before FOLDER]: pages built with another build of Escale, which is measured in turns with this one
//         [--engine FILE]: the lines that the server's bench of items printed
import { execFileSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";

import { CHROME } from "../../tests/e2e/support/paths.mjs";
import { documentAt, useItems, useLists, usePackages, useQueries } from "../page/data.js";
import { alone } from "./alone.mjs";
import { measureItems } from "./items.mjs";
import { live } from "./live.mjs";
import { measure, measureQueries } from "./measure.mjs";
import { record } from "./report.mjs";
import { serve } from "./site.mjs";
import { sizes } from "./sizes.mjs";
import { MEASURE, SYSTEMS } from "./systems.mjs";

const { values } = parseArgs({
  options: {
    set: { type: "string", default: "documents" },
    rounds: { type: "string", default: "5" },
    documents: { type: "string", default: "10000" },
    only: { type: "string" },
    before: { type: "string" },
    engine: { type: "string" },
  },
});
const rounds = Number(values.rounds);
const isPackages = values.set === "packages";
let count = Number(values.documents);
if (values.set === "lists") useLists();
const isQueries = values.set === "queries";
if (isQueries) useQueries();
const isItems = values.set === "items";
if (isItems) useItems();
const engine = values.engine ? (await readFile(values.engine, "utf8")).trim().split("\n").map((line) => JSON.parse(line)) : undefined;
if (isPackages) {
  const lines = gunzipSync(await readFile(new URL("../../data/packages.jsonl.gz", import.meta.url))).toString("utf8").split("\n");
  const packages = lines.filter((line) => line !== "").map((line) => JSON.parse(line));
  count = packages.length;
  usePackages(packages);
  // The pages fetch it.
  await writeFile(new URL("../dist/packages.json", import.meta.url), JSON.stringify(packages));
}
const only = values.only?.split(",");
const systems = SYSTEMS.filter(({ id, hasItems, hasLists, hasQueries, isBefore, isServed }) => {
  const isAsked = !only || id === MEASURE || only.includes(id);
  const isInSet = (values.set !== "lists" || hasLists) && (!isQueries || hasQueries) && (isItems ? hasItems : !isServed);
  return isAsked && isInSet && (!isBefore || values.before);
});
const site = await serve(fileURLToPath(new URL("../dist", import.meta.url)));
const siteBefore = values.before ? await serve(values.before) : site;
const results = [];
const failed = new Map();
const ofItself = [];
try {
  for (let round = 1; round <= rounds; round += 1) {
    for (const system of systems) {
      if (failed.has(system.id)) continue;
      try {
        const figures = await (isItems ? measureItems : isQueries ? measureQueries : measure)(system, values.set, count, system.isBefore ? siteBefore : site);
        results.push({ round, system: system.id, ...figures });
        const told = Object.entries(figures).map(([name, value]) => `${name} ${value < 10 ? value.toFixed(2) : Math.round(value)}`);
        console.log(`round ${round}, ${system.id}: ${told.join(", ")}`);
      } catch (error) {
        failed.set(system.id, String(error.message).split("\n")[0]);
        console.log(`round ${round}, ${system.id}: failed: ${failed.get(system.id)}`);
      }
    }
    if (values.set !== "documents" || values.before) continue;
    const figures = { ...(await alone(count, site)), ...(await live()) };
    ofItself.push({ round, ...figures });
    console.log(`round ${round}, Escale alone: ${Object.entries(figures).map(([name, value]) => `${name} ${Math.round(value)}`).join(", ")}`);
  }
} finally {
  site.stop();
  if (siteBefore !== site) siteBefore.stop();
}
const machine = { cores: cpus().length, model: cpus()[0]?.model, node: process.version };
// Bytes of the data itself, as JSON: memory is compared with it.
const dataBytes = Array.from({ length: count }, (_, index) => JSON.stringify(documentAt(index, count)).length).reduce((a, b) => a + b, 0);
const browser = execFileSync(CHROME, ["--version"], { encoding: "utf8" }).trim();
const date = new Date().toISOString().slice(0, 10);
const report = { set: values.set, documents: count, rounds, date, browser, measure: MEASURE, machine, failed: Object.fromEntries(failed), dataBytes, sizes: isQueries || isItems ? {} : await sizes(), alone: ofItself, engine, results };
await record(report);
if (["escale", "escale-items", MEASURE].some((id) => failed.has(id))) process.exitCode = 1;
