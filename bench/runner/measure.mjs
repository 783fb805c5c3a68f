// One system, once: a fresh profile, the bulk, then two restarts of the browser.
import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { chromium } from "playwright-core";

import { ARGS } from "../../tests/e2e/support/browser.mjs";
import { CHROME } from "../../tests/e2e/support/paths.mjs";

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

/** Bytes of what the browser keeps for its pages' databases. */
async function bytesIn(folder) {
  let bytes = 0;
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    bytes += entry.isDirectory() ? await bytesIn(path) : (await stat(path)).size;
  }
  return bytes;
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

/** A profile of its own for some work; it goes away afterwards. */
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
    figures.bytes = await bytesIn(join(profile, "Default", "IndexedDB"));
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
      await ask(page, "close");
    });
    return figures;
  });
}
