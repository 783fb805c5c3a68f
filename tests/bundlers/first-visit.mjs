// How long a first visit takes on a slow line: `node tests/bundlers/first-visit.mjs`, ROUNDS times (5) for each way of
// serving the wasm. The line has 1.6 Mbit/s and 150 ms, and the processor is four times slower. Nothing else should run.
import { once } from "node:events";
import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";

import { chromium } from "playwright-core";
import { rolldown } from "rolldown";

import { ARGS } from "../e2e/support/browser.mjs";
import { ROOT } from "../packaging/project.mjs";

const ROUNDS = Number(process.env.ROUNDS ?? 5);
const LINE = { offline: false, latency: 150, downloadThroughput: 200_000, uploadThroughput: 200_000 };
const WASM = '<link rel="preload" as="fetch" type="application/wasm" crossorigin href="escale_bg.wasm">';
const MAIN = `
import { init } from "escale";
import { first } from "./app.js";
await init();
const wasm = performance.now();
await first("synced");
document.documentElement.dataset.seen = JSON.stringify([wasm, performance.now()]);
`;

const folder = await mkdtemp(join(tmpdir(), "escale-first-visit-"));
for (const [name, line] of [["file", ""], ["inline", 'import "escale/inline";']]) {
  await cp(fileURLToPath(new URL("app/app.js", import.meta.url)), join(folder, "app.js"));
  await cp(join(ROOT, "tests/e2e/support/in-page/page-server.js"), join(folder, "page-server.js"));
  await writeFile(join(folder, `${name}.entry.js`), line + MAIN);
  const alias = { "escale/inline": join(ROOT, "pkg/inline.js"), escale: join(ROOT, "pkg/index.js") };
  const made = await rolldown({ input: join(folder, `${name}.entry.js`), platform: "browser", resolve: { alias } });
  await made.write({ file: join(folder, `${name}.js`), format: "es", minify: true });
  await made.close();
}
const wasm = await readFile(join(ROOT, "pkg/escale_bg.wasm"));
const scripts = { file: await readFile(join(folder, "file.js")), inline: await readFile(join(folder, "inline.js")) };
await rm(folder, { recursive: true });

const browser = await chromium.launch({ executablePath: process.env.CHROME || "/usr/bin/chromium", args: ARGS });

/** The times of one visit: until the wasm is ready, and until the session has listed and written. */
async function visit({ script, preload = "", encoding, compress }) {
  const page = `<!doctype html>${preload}<script type="module" src="main.js"></script>`;
  const files = {
    "/": ["text/html", page],
    "/main.js": ["text/javascript", scripts[script]],
    "/escale_bg.wasm": ["application/wasm", wasm],
  };
  const packed = new Map(Object.entries(files).map(([path, [type, body]]) => [path, { type, body: compress(body) }]));
  const server = createServer(({ url }, response) => {
    const found = packed.get(url);
    const headers = found && { "content-type": found.type, "content-encoding": encoding, "content-length": found.body.length };
    response.writeHead(found ? 200 : 404, headers).end(found?.body);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const context = await browser.newContext();
  try {
    const tab = await context.newPage();
    const devtools = await context.newCDPSession(tab);
    await devtools.send("Network.enable");
    await devtools.send("Network.emulateNetworkConditions", LINE);
    await devtools.send("Emulation.setCPUThrottlingRate", { rate: 4 });
    await tab.goto(`http://localhost:${server.address().port}/`);
    const seen = await tab.waitForFunction(() => document.documentElement.dataset.seen);
    return JSON.parse(await seen.jsonValue());
  } finally {
    await context.close();
    server.closeAllConnections();
    server.close();
  }
}

const gzip = { encoding: "gzip", compress: (body) => gzipSync(body, { level: 9 }) };
const brotli = { encoding: "br", compress: brotliCompressSync };
const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
for (const [name, way] of Object.entries({
  "a file, gzip": { script: "file", ...gzip },
  "a file, gzip, preloaded": { script: "file", preload: WASM, ...gzip },
  "a file, brotli": { script: "file", ...brotli },
  "a file, brotli, preloaded": { script: "file", preload: WASM, ...brotli },
  "escale/inline, gzip": { script: "inline", ...gzip },
})) {
  const times = [];
  for (let round = 0; round < ROUNDS; round++) times.push(await visit(way));
  const [ready, listed] = [0, 1].map((at) => (median(times.map((time) => time[at])) / 1_000).toFixed(2));
  console.log(`${name}: wasm ready after ${ready} s, first list and write after ${listed} s`);
}
await browser.close();
