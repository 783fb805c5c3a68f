// Measures one system once: a fresh profile, the bulk, then two restarts of the browser.
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { chromium } from "playwright-core";

import { ARGS } from "../../tests/e2e/support/browser.mjs";
import { CHROME } from "../../tests/e2e/support/paths.mjs";

/** Rounds of updates after W4: enough that pages which are mostly outdated are merged. */
const LATER_ROUNDS = 24;

/** The systems that take these rounds, and the largest number of documents. The other systems would take hours. */
const LATER = new Set(["raw:plain", "raw:packed", "escale", "dexie", "yjs"]);
const LATER_COUNT_MAX = 10_000;

export async function inBrowser(profile, url, work) {
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: CHROME,
    headless: true,
    args: ARGS,
  });
  try {
    const page = await context.newPage();
    const errors = [];
    page.on("pageerror", (error) => errors.push(error));
    await page.goto(url);
    await page.waitForFunction(() => document.title === "ready", undefined, { timeout: 60_000 });
    const result = await work(page, context);
    if (errors.length > 0) throw errors[0];
    return result;
  } finally {
    await context.close();
  }
}

/** Bytes of a folder; 0 if there is none. */
async function bytesIn(folder) {
  let bytes = 0;
  const entries = await readdir(folder, { withFileTypes: true }).catch((error) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  for (const entry of entries) {
    const path = join(folder, entry.name);
    bytes += entry.isDirectory() ? await bytesIn(path) : (await stat(path)).size;
  }
  return bytes;
}

/** Bytes that the browser stores for its pages' databases: the ordinary ones, and those in storage buckets. */
export async function bytesAtRest(profile) {
  const folders = ["IndexedDB", "WebStorage"].map((folder) => bytesIn(join(profile, "Default", folder)));
  return (await Promise.all(folders)).reduce((sum, bytes) => sum + bytes, 0);
}

/** Every figure of queries of a system for that many documents: milliseconds. */
export function measureQueries(system, set, count, site) {
  const url = `${site.url}?system=${system.id}&set=${set}`;
  return withProfile(async (profile) => {
    const inPage = (work) =>
      inBrowser(profile, url, async (page) => {
        const figures = await work(page);
        await ask(page, "close");
        return figures;
      });
    await inPage((page) => ask(page, "arrive", count));
    const all = await inPage((page) => ask(page, "all", count));
    const first = await inPage(async (page) => ({ index: await ask(page, "index", count), ...(await ask(page, "ranges", count)) }));
    const changes = await inPage(async (page) => {
      await ask(page, "open");
      const lists = await ask(page, "lists", count);
      const live = await ask(page, "live", count);
      return { ...lists, live, ...(system.isPushed ? { pushed: await ask(page, "livePushed", count) } : {}) };
    });
    return { all, ...first, ...changes };
  });
}

/** Bytes of JavaScript's heap after two collections, and of wasm. */
async function memoryOf(page, context) {
  const devtools = await context.newCDPSession(page);
  await devtools.send("HeapProfiler.enable");
  await devtools.send("HeapProfiler.collectGarbage");
  await devtools.send("HeapProfiler.collectGarbage");
  const { usedSize } = await devtools.send("Runtime.getHeapUsage");
  return usedSize + (await page.evaluate(() => window.bench.wasmBytes()));
}

export const ask = (page, what, count) => page.evaluate(([name, n]) => window.bench[name](n), [what, count]);

/** Makes a profile for some work, and removes it afterwards. */
export async function withProfile(work) {
  const profile = await mkdtemp(join(tmpdir(), "escale-bench-"));
  try {
    return await work(profile);
  } finally {
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Every figure of a system for that many documents of a set: milliseconds and bytes. */
export function measure(system, set, count, site) {
  const url = `${site.url}?system=${system.id}&set=${set}`;
  return withProfile(async (profile) => {
    const figures = {};
    await inBrowser(profile, url, async (page) => {
      figures.arrive = await ask(page, "arrive", count);
      await ask(page, "close");
    });
    figures.bytes = await bytesAtRest(profile);
    await inBrowser(profile, url, async (page, context) => {
      figures.first = await ask(page, "first", count);
      figures.memory = await memoryOf(page, context);
      figures.warm = await ask(page, "warm", count);
      await ask(page, "close");
    });
    await inBrowser(profile, url, async (page) => {
      figures.all = await ask(page, "all", count);
      figures.read = await ask(page, "read", count);
      figures.update = await ask(page, "update", count);
      await ask(page, "check", count);
      if (LATER.has(system.id) && count <= LATER_COUNT_MAX) {
        let ms = 0;
        for (let round = 0; round < LATER_ROUNDS; round += 1) ms += await ask(page, "update", count);
        figures.later = ms / LATER_ROUNDS;
      }
      await ask(page, "close");
    });
    if (figures.later) figures.bytesLater = await bytesAtRest(profile);
    return figures;
  });
}
