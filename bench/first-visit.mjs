// The first visit on a slow line, with a processor slowed 4 times: `node bench/first-visit.mjs [VISITS]`. It builds the
// application of tests/packaging/offline-app with the packed package, and visits it with new profiles, in turns for each
// way of serving it. It prints the medians by the page's own clock, from the navigation on. Nothing else should run.
import { readdir, readFile, writeFile } from "node:fs/promises";
import { extname, join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";

import { chromium } from "playwright-core";

import { makeProject, ROOT, runCommand } from "../tests/packaging/project.mjs";
import { Site } from "../tests/packaging/site.mjs";

/** 1.6 Mbit/s and 150 ms for each request. */
const LINE = { offline: false, latency: 150, downloadThroughput: 200_000, uploadThroughput: 200_000 };
const SLOWER = 4;
const PRELOAD = /<link rel="preload"[^>]*\.wasm"[^>]*>\s*/;
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".txt": "text/plain", ".wasm": "application/wasm" };
const visits = Number(process.argv[2] ?? 9);
const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

const gzip = { encoding: "gzip", compress: (body) => gzipSync(body, { level: 9 }) };
const brotli = { encoding: "br", compress: (body) => brotliCompressSync(body) };
const WAYS = {
  "brotli": { build: "file", ...brotli },
  "brotli, not preloaded": { build: "file", isLate: true, ...brotli },
  "gzip": { build: "file", ...gzip },
  "gzip, not preloaded": { build: "file", isLate: true, ...gzip },
  "escale/inline, brotli": { build: "inline", ...brotli },
};

const project = await makeProject("offline-app");
const main = join(project.folder, "main.js");
const build = (name) =>
  runCommand(project.folder, "env", "VITE_VERSION=A", process.execPath, join(ROOT, "node_modules/vite/bin/vite.js"), "build", "--outDir", name);
await build("file");
await writeFile(main, `import "escale/inline";\n${await readFile(main, "utf8")}`);
await build("inline");
const browser = await chromium.launch({ executablePath: process.env.CHROME || "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });

/** The files of a build as this way serves them, by their addresses. */
async function answersOf({ build: folder, isLate, encoding, compress }) {
  const answers = new Map();
  for (const entry of await readdir(join(project.folder, folder), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const address = path.slice(join(project.folder, folder).length).replace(/index\.html$/, "");
    const body = address.endsWith("/") && isLate ? (await readFile(path, "utf8")).replace(PRELOAD, "") : await readFile(path);
    const packed = compress(body);
    const caching = address.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache";
    const headers = { "content-type": TYPES[extname(path)], "content-encoding": encoding, "content-length": packed.length, "cache-control": caching };
    answers.set(address, { headers, body: packed });
  }
  return answers;
}

/** The times of one visit. The server is asked by one request, which takes the line's 150 ms too. */
async function visit(answers) {
  const site = await new Site(join(project.folder, "file")).start();
  site.changes = (path) => answers.get(path);
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    const devtools = await context.newCDPSession(page);
    await devtools.send("Network.enable");
    await devtools.send("Network.emulateNetworkConditions", LINE);
    await devtools.send("Emulation.setCPUThrottlingRate", { rate: SLOWER });
    await page.goto(site.url);
    await page.locator("#docs[data-ready=true] li").first().waitFor();
    return await page.evaluate(() => {
      const file = (pattern) => performance.getEntriesByType("resource").find(({ name }) => pattern.test(name));
      const wasm = file(/\.wasm$/);
      return {
        "scripts arrived": file(/index-.*\.js$/).responseEnd,
        ...(wasm && { "wasm asked for": wasm.startTime, "wasm arrived": wasm.responseEnd }),
        "wasm ready": performance.getEntriesByName("wasm")[0].startTime,
        "server asked": file(/api\/sync$/).startTime,
        "first list": Number(document.getElementById("docs").dataset.took),
      };
    });
  } finally {
    await context.close();
    await site.stop();
  }
}

const ways = await Promise.all(Object.entries(WAYS).map(async ([name, way]) => ({ name, answers: await answersOf(way), found: [] })));
for (let visited = 0; visited < visits; visited++) for (const way of ways) way.found.push(await visit(way.answers));
for (const { name, found } of ways) {
  const told = Object.keys(found[0]).map((what) => {
    const all = found.map((times) => times[what] / 1_000);
    return `${what} ${median(all).toFixed(2)} s (${Math.min(...all).toFixed(2)} to ${Math.max(...all).toFixed(2)})`;
  });
  console.log(`${name}: ${told.join(", ")}; ${visits} visits`);
}
await browser.close();
await project.remove();
