// The second visit with no network, on a processor slowed 4 times: `node bench/second-visit.mjs [VISITS]`. It builds the
// application of tests/packaging/offline-app with the packed package, visits it once, stops its site, and opens it again
// in new tabs. It prints the medians by the page's own clock, from the navigation on.
import { join } from "node:path";

import { chromium } from "playwright-core";

import { makeProject, ROOT, runCommand } from "../tests/packaging/project.mjs";
import { Site } from "../tests/packaging/site.mjs";

const SLOWER = 4;
const visits = Number(process.argv[2] ?? 9);
const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

const project = await makeProject("offline-app");
await runCommand(project.folder, "env", "VITE_VERSION=A", process.execPath, join(ROOT, "node_modules/vite/bin/vite.js"), "build");
const site = await new Site(join(project.folder, "dist")).start();
const browser = await chromium.launch({ executablePath: process.env.CHROME || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
const context = await browser.newContext();

/** Opens the application in a new tab, until it lists. */
async function visit(slower) {
  const page = await context.newPage();
  const debug = await context.newCDPSession(page);
  await debug.send("Emulation.setCPUThrottlingRate", { rate: slower });
  await page.goto(site.url);
  await page.locator("#docs[data-ready=true] li").first().waitFor();
  const times = await page.evaluate(() => ({
    "first paint": performance.getEntriesByName("first-contentful-paint")[0]?.startTime,
    "wasm ready": performance.getEntriesByName("wasm")[0].startTime,
    "list from the device": Number(document.getElementById("docs").dataset.took),
  }));
  return { page, times };
}

const { page: first } = await visit(1);
await first.evaluate(async () => {
  await navigator.serviceWorker.ready;
  await window.session.flush();
});
await first.close();
await site.stop();
const found = [];
for (let visited = 0; visited < visits; visited++) {
  const { page, times } = await visit(SLOWER);
  found.push(times);
  await page.close();
}
for (const name of Object.keys(found[0])) {
  const all = found.map((times) => times[name]);
  console.log(`${name}: ${Math.round(median(all))} ms (${Math.round(Math.min(...all))} to ${Math.round(Math.max(...all))}), ${visits} visits, processor ${SLOWER} times slower`);
}
await browser.close();
await project.remove();
