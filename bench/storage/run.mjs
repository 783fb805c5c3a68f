// Measures records of three sizes in IndexedDB and in the origin private file system (OPFS), in Chromium and Firefox:
//
//     node storage/run.mjs [--rounds 3] [--mib 256] [--kills 5] [--seed 1] [--only chromium]
//         [--cells PATTERN --name NAME]: only the speed of some rows, recorded as results/NAME.json
//
// A full device and kills in the middle of writes come first, then speed and memory, in turns. The first round writes all
// bytes for each row, the others a quarter of them.
import { execFileSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { parseArgs } from "node:util";

import { CHROME, FIREFOX } from "../../tests/e2e/support/paths.mjs";
import { startSite } from "../../tests/e2e/support/site.mjs";
import { random } from "../page/data.js";
import { Run } from "../runner/live.mjs";
import { BROWSERS, inBrowser, withProfile } from "./browsers.mjs";
import { watched } from "./memory.mjs";
import { storageText } from "./report.mjs";

const KIB = 1024;
const MIB = KIB * KIB;
const SIZES = [256 * KIB, MIB, 4 * MIB];
const STORES = ["idb", "idb-relaxed", "opfs-page", "opfs-worker"];
const QUOTA = 128 * MIB;

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    mib: { type: "string", default: "256" },
    kills: { type: "string", default: "5" },
    seed: { type: "string", default: "1" },
    only: { type: "string" },
    cells: { type: "string" },
    name: { type: "string", default: "storage" },
  },
});
const rounds = Number(values.rounds);
const total = Number(values.mib) * MIB;
const names = Object.keys(BROWSERS).filter((name) => !values.only || values.only === name);
const results = [];
const full = [];
const killed = [];

/** One store with one size of record: bytes a second, and memory. */
async function speed(browser, site, cell, bytes) {
  const options = { ...cell, count: bytes / cell.size };
  return withProfile((profile) =>
    inBrowser(browser, profile, site, async ({ run }) => {
      const { result: written, ...memory } = await watched(profile, () => run("write", options));
      const read = await watched(profile, () => run("read", options));
      const rate = (ms) => Math.round((bytes / ms) * 1_000);
      return { bytes, write: rate(written), ...memory, read: rate(read.result), readPageMemory: read.pageMemory };
    }),
  );
}

/** One browser after the other on the same profile: each writes until it is killed, and the next one looks. */
async function kill(browser, site, cell, next) {
  const found = { kills: 0, told: 0, lost: 0, torn: 0, untold: 0, others: 0, faults: [] };
  await withProfile(async (profile) => {
    for (let n = 0; n < Number(values.kills); n += 1) {
      const wanted = 4 + Math.floor(next() * 40);
      const told = new Set();
      let enough;
      const reached = new Promise((resolve) => (enough = resolve));
      const hear = (number) => told.add(number).size >= wanted && enough();
      await inBrowser(browser, profile, site, async ({ begin }, end) => {
        await begin("writeOn", cell);
        await reached;
        await end();
      }, { told: hear });
      const { whole, torn, others } = await inBrowser(browser, profile, site, ({ run }) => run("look", cell));
      const there = new Set(whole);
      found.kills += 1;
      found.told += told.size;
      // A torn record that was reported as complete counts as both.
      found.lost += [...told].filter((number) => !there.has(number)).length;
      found.others += others;
      found.torn += Object.keys(torn).length;
      found.untold += whole.filter((number) => !told.has(number)).length;
      found.faults.push(...Object.entries(torn).map(([number, fault]) => `${number}, ${told.has(Number(number)) ? "told" : "not told"}: ${fault}`));
    }
  });
  return found;
}

const cells = STORES.flatMap((store) => [false, true].flatMap((isSealed) => SIZES.map((size) => ({ store, size, isSealed })))).filter(
  // The cipher's share depends on the size of the records alone.
  ({ store, size, isSealed }) => !isSealed || store === "idb" || (store.startsWith("opfs") && size === MIB),
);
cells.push({ store: "idb", size: MIB, isSealed: true, isFreed: true });
const nameOf = ({ store, size, isSealed, isFreed }) => `${store}/${size / KIB}/${isSealed ? "sealed" : "plain"}${isFreed ? "/freed" : ""}`;
const chosen = cells.filter((cell) => !values.cells || new RegExp(values.cells).test(nameOf(cell)));
/** The browsers that are filled and killed. */
const ended = values.cells ? [] : names;
const run = new Run();
try {
  const site = await startSite(run);
  for (const browser of ended) {
    for (const store of STORES) {
      const most = (4 * QUOTA) / MIB;
      const found = await withProfile((profile) => inBrowser(browser, profile, site, ({ run: ask }) => ask("fill", { store, size: MIB, most }), { quota: QUOTA })).catch(
        (error) => ({ failed: String(error.message).split("\n")[0] }),
      );
      full.push({ browser, store, size: MIB, ...found });
      console.log(JSON.stringify(full.at(-1)));
    }
  }
  const next = random(Number(values.seed));
  if (ended.length > 0) console.log(`kills by the seed ${values.seed}`);
  for (const browser of ended) {
    const asked = [...SIZES.map((size) => ({ store: "idb", size })), ...STORES.slice(1).map((store) => ({ store, size: MIB }))];
    for (const cell of asked) {
      killed.push({ browser, ...cell, ...(await kill(browser, site, cell, next)) });
      console.log(JSON.stringify(killed.at(-1)));
    }
  }
  for (let round = 1; round <= rounds; round += 1) {
    for (const cell of chosen) {
      for (const browser of names) {
        const figures = await speed(browser, site, cell, round === 1 ? total : total / 4).catch((error) => ({ failed: String(error.message).split("\n")[0] }));
        results.push({ round, browser, ...cell, ...figures });
        console.log(JSON.stringify(results.at(-1)));
      }
    }
  }
} finally {
  await run.end();
}
const version = (program) => execFileSync(program, ["--version"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
const machine = { cores: cpus().length, model: cpus()[0]?.model, node: process.version };
const date = new Date().toISOString().slice(0, 10);
const report = { set: "storage", date, browsers: [version(CHROME), version(FIREFOX)], machine, rounds, bytes: total, quota: QUOTA, seed: Number(values.seed), results, full, killed };
const isRecord = rounds >= 3 && names.length === 2 && (values.name !== "storage" || !values.cells);
await writeFile(new URL(`../results/${isRecord ? values.name : "last"}.json`, import.meta.url), `${JSON.stringify(report, undefined, 1)}\n`);
console.log(`\n${storageText(report)}`);
