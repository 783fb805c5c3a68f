// Measures files in Chromium, in turns. A device stores a file and reads it, next to raw IndexedDB and the peers. Then the
// file goes to a server and comes back, next to bare requests to the same server.
//
//     node runner/files.mjs [--rounds 5] [--large] [--isolated]
//
// With --large the first round adds a file of 1 GiB as well. With --isolated the page is isolated from other origins.
import { execFileSync } from "node:child_process";
import { createWriteStream } from "node:fs";
import { readFile, unlink, writeFile } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { finished } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { CHROME } from "../../tests/e2e/support/paths.mjs";
import { makeServer } from "../../tests/e2e/support/server.mjs";
import { watched } from "../storage/memory.mjs";
import { filesText } from "./files-report.mjs";
import { Run } from "./live.mjs";
import { bytesAtRest, inBrowser, withProfile } from "./measure.mjs";
import { serve } from "./site.mjs";

const MIB = 1 << 20;
const PEERS = ["raw-files", "escale-files", "rxdb-files", "pouch-files"];
const SIZES = [1, 10, 64, 100];
/** This size has a goal against raw IndexedDB. The peers have the others. */
const OWN_SIZES = [64, 1024];
const SCHEMA = { Note: { key: ["id"], properties: { file: "file" } } };
const EVERY_MS = 25;

const { values } = parseArgs({ options: { rounds: { type: "string", default: "5" }, large: { type: "boolean", default: false }, isolated: { type: "boolean", default: false } } });
const rounds = Number(values.rounds);

/** Makes a file of random bytes for some work, and removes it afterwards. */
async function withFile(mib, work) {
  const path = join(tmpdir(), `escale-bench-${process.pid}-${randomBytes(4).toString("hex")}.bin`);
  const stream = createWriteStream(path);
  for (let n = 0; n < mib; n += 1) if (!stream.write(randomBytes(MIB))) await new Promise((resolve) => stream.once("drain", resolve));
  stream.end();
  await finished(stream);
  try {
    return await work(path);
  } finally {
    await unlink(path);
  }
}

const call = (page, name, ...args) => page.evaluate(([what, given]) => window.bench[what](...given), [name, args]);

/**
 * Runs some work; gives the most bytes of the page's heap above the start, arrays included, and of its process. With
 * `isCollected` garbage does not count: it is collected before each look.
 */
async function heaped(page, context, profile, work, isCollected = false) {
  const devtools = await context.newCDPSession(page);
  await devtools.send("HeapProfiler.enable");
  await devtools.send("HeapProfiler.collectGarbage");
  await devtools.send("HeapProfiler.collectGarbage");
  const used = async () => {
    if (isCollected) await devtools.send("HeapProfiler.collectGarbage");
    const { usedSize, backingStorageSize } = await devtools.send("Runtime.getHeapUsage");
    return usedSize + backingStorageSize;
  };
  const start = await used();
  let most = start;
  let isOver = false;
  const sampling = (async () => {
    while (!isOver) {
      most = Math.max(most, await used());
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
  })();
  const { result, pageMemory, allMemory } = await watched(profile, work).finally(() => (isOver = true));
  await sampling;
  return { result, heap: most - start, pageMemory, allMemory };
}

/** A file is stored with a new profile, while garbage is collected all the time: the heap that something holds. */
function held(site, system, mib) {
  return withFile(mib, (path) =>
    withProfile((profile) =>
      inBrowser(profile, `${site.url}?system=${system}&set=files`, async (page, context) => {
        await call(page, "open");
        await page.setInputFiles("#file", path);
        const { heap } = await heaped(page, context, profile, () => call(page, "addFile"), true);
        await call(page, "close");
        return { held: heap };
      }),
    ),
  );
}

/** A file is stored with a new profile, and read after a restart of the browser. */
async function stored(site, system, mib) {
  const url = `${site.url}?system=${system}&set=files`;
  return withFile(mib, (path) =>
    withProfile(async (profile) => {
      const figures = {};
      const ref = await inBrowser(profile, url, async (page, context) => {
        await call(page, "open");
        await page.setInputFiles("#file", path);
        const { result, heap, pageMemory, allMemory } = await heaped(page, context, profile, () => call(page, "addFile"));
        Object.assign(figures, { add: result.ms, heap, pageMemory, allMemory });
        await call(page, "close");
        return result.ref;
      });
      figures.bytes = (await bytesAtRest(profile)) / (mib * MIB);
      await inBrowser(profile, url, async (page, context) => {
        await call(page, "open");
        const { result, heap } = await heaped(page, context, profile, () => call(page, "readFile", ref, mib * MIB));
        Object.assign(figures, { read: result, readHeap: heap });
        if (mib <= 100) {
          await page.setInputFiles("#file", path);
          await call(page, "checkFile", ref);
        }
        await call(page, "close");
      });
      return figures;
    }),
  );
}

const both = async (site, system, mib) => ({ ...(await stored(site, system, mib)), ...(mib < 64 ? {} : await held(site, system, mib)) });

/** A file goes to the server and comes to another profile. Bare requests do the same, before it in every second round. */
async function moved(site, mib, isBareFirst) {
  const run = new Run();
  const inOrder = async (own, bare) => {
    for (const step of isBareFirst ? [bare, own] : [own, bare]) await step();
  };
  try {
    const server = await makeServer(run, { schema: SCHEMA });
    await server.start();
    const url = `${site.url}?system=escale-files&set=files&server=${server.url}`;
    const figures = {};
    return await withFile(mib, (path) =>
      withFile(mib, async (other) => {
        const ref = await withProfile((profile) =>
          inBrowser(profile, url, async (page) => {
            await call(page, "open");
            await page.setInputFiles("#file", path);
            const added = await call(page, "addFile");
            await page.setInputFiles("#file", other);
            await inOrder(
              async () => (figures.send = await call(page, "sendFile", added.ref)),
              async () => (figures.sendBare = await call(page, "sendBare")),
            );
            await call(page, "close");
            return added.ref;
          }),
        );
        await withProfile((profile) =>
          inBrowser(profile, url, async (page, context) => {
            await call(page, "open");
            await inOrder(
              async () => {
                const { result, heap } = await heaped(page, context, profile, () => call(page, "readFile", ref, ref.size));
                Object.assign(figures, { load: result, loadHeap: heap });
              },
              async () => (figures.loadBare = await call(page, "loadBare", ref)),
            );
            await page.setInputFiles("#file", path);
            await call(page, "checkFile", ref);
            await call(page, "close");
          }),
        );
        return figures;
      }),
    );
  } finally {
    await run.end();
  }
}

const site = await serve(fileURLToPath(new URL("../dist", import.meta.url)), { isIsolated: values.isolated });
const results = [];
const transfers = [];
try {
  for (let round = 1; round <= rounds; round += 1) {
    for (const mib of values.large && round === 1 ? [...SIZES, 1024] : SIZES) {
      for (const system of PEERS) {
        if (OWN_SIZES.includes(mib) && !["raw-files", "escale-files"].includes(system)) continue;
        const figures = await both(site, system, mib).catch((error) => ({ failed: String(error.message).split("\n")[0] }));
        results.push({ round, system, mib, ...figures });
        console.log(JSON.stringify(results.at(-1)));
      }
    }
    const transfer = await moved(site, 64, round % 2 === 0).catch((error) => ({ failed: String(error.message).split("\n")[0] }));
    transfers.push({ round, ...transfer });
    console.log(JSON.stringify(transfers.at(-1)));
  }
} finally {
  site.stop();
}
const browser = execFileSync(CHROME, ["--version"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
const machine = { cores: cpus().length, model: cpus()[0]?.model, node: process.version };
const date = new Date().toISOString().slice(0, 10);
const report = { set: "files", date, browser, machine, rounds, isIsolated: values.isolated, results, transfers };
const isRecord = rounds >= 5 && !values.isolated && [...results, ...transfers].every(({ failed }) => !failed);
await writeFile(new URL(`../results/${isRecord ? "files" : "last"}.json`, import.meta.url), `${JSON.stringify(report, undefined, 1)}\n`);
const text = filesText(report);
console.log(`\n${text}`);
if (isRecord) {
  const place = new URL("../results/tables.md", import.meta.url);
  const [before, , after] = (await readFile(place, "utf8")).split(/<!-- (?:|end of )files -->\n/);
  if (after === undefined) throw new Error("bench/results/tables.md has no place for files");
  await writeFile(place, `${before}<!-- files -->\n${text}\n<!-- end of files -->\n${after}`);
}
