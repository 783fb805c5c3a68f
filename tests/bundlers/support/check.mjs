// The checks of one cell: its page, its server or its program must have seen the session as the application made it.
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { run, within } from "./run.mjs";
import { serve, serving } from "./serve.mjs";

const FIRST = { listed: ["theirs"], saved: "device" };
const AGAIN = { listed: ["ours", "theirs"] };
const ON_A_SERVER = { listed: ["theirs"], saved: "memory" };
const BUILD_MS = 300_000;
const SEEN_MS = 120_000;
const CLOSING_MS = 20_000;

/** The findings that a page shows. */
async function seenOn(page, url) {
  await page.goto(url);
  const shown = await page.waitForFunction(() => document.documentElement.dataset.seen, undefined, { timeout: SEEN_MS });
  return JSON.parse(await shown.jsonValue());
}

async function checkPage(browser, url, cell) {
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const said = [];
    page.on("pageerror", (error) => said.push(`${error}`));
    page.on("console", (message) => message.type() === "error" && said.push(`${message.location().url} ${message.text()}`));
    const first = await seenOn(page, url).catch((error) => {
      throw new Error(`${error.message}\n${said.join("\n")}`);
    });
    assert.deepEqual(first, cell.worker ? { ...FIRST, worker: ON_A_SERVER } : FIRST, said.join("\n"));
    await page.goto("about:blank");
    assert.deepEqual(await seenOn(page, `${url}#again`), AGAIN);
    const missing = said.filter((text) => /404|wasm/i.test(text) && !/favicon/.test(text));
    return { first, noise: missing };
  } finally {
    await within(CLOSING_MS, "closing the page", context.close());
  }
}

/** The recipe of docs/offline.md: the command lists the build's files, and the page then opens with no server. */
async function checkOffline(browser, folder, cell) {
  const { files, options = "", isListed = false } = cell.offline;
  if (!isListed) await run(folder, `escale offline ${files} ${options}`, BUILD_MS);
  const server = await serve(folder, serving(files));
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    await seenOn(page, server.url);
    await page.goto("about:blank");
    assert.deepEqual(await seenOn(page, `${server.url}#keep`), { kept: true });
    await server.stop();
    await page.goto("about:blank");
    assert.deepEqual(await seenOn(page, `${server.url}#again`), AGAIN);
  } finally {
    await server.stop();
    await within(CLOSING_MS, "closing the page", context.close());
  }
}

/** Runs a cell in its project, and returns its findings. */
export async function check(browser, folder, cell) {
  if (cell.build) await run(folder, cell.build, BUILD_MS, cell.env);
  if (cell.html) await writeFile(join(folder, cell.folder, "index.html"), cell.html);
  if (cell.test) {
    await run(folder, cell.test, BUILD_MS);
    return { tests: "passed" };
  }
  if (cell.run) {
    const seen = JSON.parse((await run(folder, cell.run, BUILD_MS)).trim().split("\n").at(-1));
    assert.deepEqual(seen, ON_A_SERVER);
    return seen;
  }
  const offline = cell.offline ? { offline: true } : {};
  if (cell.offline) await checkOffline(browser, folder, cell);
  if (!cell.serve && !cell.folder) return { built: true, ...offline };
  const server = await serve(folder, cell.serve, cell.folder);
  try {
    const seen = cell.isServerOnly ? {} : await checkPage(browser, server.url, cell);
    for (const route of cell.routes ?? []) {
      const answer = await fetch(new URL(route, server.url), { signal: AbortSignal.timeout(SEEN_MS) });
      const text = await answer.text();
      assert.equal(answer.status, 200, `${route}: ${text.slice(0, 2_000)}\n${server.output().slice(-2_000)}`);
      seen[route] = JSON.parse(text);
      assert.deepEqual(seen[route], ON_A_SERVER, route);
    }
    return { ...seen, ...offline };
  } finally {
    await server.stop();
  }
}
