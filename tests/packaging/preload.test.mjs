// The packed package in Vite projects with the plugin `escale/vite`: the pages that ask for the wasm with their scripts.
import assert from "node:assert/strict";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { openBrowser } from "../e2e/support/browser.mjs";
import { makeProject, ROOT } from "./project.mjs";
import { Site } from "./site.mjs";

let project;
let vite;
let escale;
before(async () => {
  project = await makeProject("offline-app");
  vite = await import(join(ROOT, "node_modules/vite/dist/node/index.js"));
  ({ escale } = await import(join(project.folder, "node_modules/escale/vite.js")));
});
after(() => project?.remove());

/** Builds a page of this script, and returns its HTML and the wasm's name. */
async function build(name, script, { options = {}, page = "index.html", tool = vite, ...config } = {}) {
  const root = join(project.folder, name);
  await mkdir(join(root, page, ".."), { recursive: true });
  await writeFile(join(root, page), '<!doctype html>\n<html>\n  <head>\n    <script type="module" src="/script.js"></script>\n  </head>\n</html>\n');
  await writeFile(join(root, "script.js"), script);
  await tool.build({
    root, configFile: false, logLevel: "warn", plugins: [escale(options)], ...config,
    build: { rollupOptions: { input: join(root, page) }, ...config.build },
  });
  const html = await readFile(join(root, "dist", page), "utf8");
  const wasm = (await readdir(join(root, "dist/assets"))).find((file) => file.endsWith(".wasm"));
  return { html, wasm };
}

const preloaded = (html) => [...html.matchAll(/<link rel="preload"[^>]* href="([^"]*)">/g)].map(([, href]) => href);
const OPENS = 'import { init } from "escale";\ninit();\n';

test("a page asks for the wasm with its scripts, and once", async (t) => {
  await vite.build({ root: project.folder, configFile: join(project.folder, "vite.config.js"), logLevel: "warn" });
  const site = await new Site(join(project.folder, "dist")).start();
  t.after(() => site.stop());
  const [address] = preloaded(await readFile(join(project.folder, "dist/index.html"), "utf8"));
  assert.match(address, /^\/assets\/.*\.wasm$/);
  // The scripts come only after the wasm was asked for.
  let asked;
  const isAsked = new Promise((resolve) => (asked = resolve));
  site.changes = (path) => {
    if (path === address) asked();
    return path.endsWith(".js") ? isAsked.then(() => undefined) : undefined;
  };
  const { context } = await openBrowser(t);
  const page = await context.newPage();
  const said = [];
  page.on("console", (message) => said.push(message.text()));
  await page.goto(site.url);
  await page.locator("#docs[data-ready=true] li").first().waitFor();
  assert.deepEqual(site.requests.filter((line) => line.endsWith(".wasm")), [`GET ${address}`]);
  assert.deepEqual(said, []);
});

test("a page below the build's folder names the wasm by its own address", async () => {
  const { html, wasm } = await build("below", OPENS, { page: "notes/page.html", base: "./" });
  assert.deepEqual(preloaded(html), [`../assets/${wasm}`]);
  const at = await build("at", OPENS, { page: "notes/page.html", base: "/app/" });
  assert.deepEqual(preloaded(at.html), [`/app/assets/${at.wasm}`]);
});

test("a build of Vite 5 does so too", async () => {
  // VitePress brings it, among the packages of the site.
  const site = createRequire(new URL("../../site/package.json", import.meta.url));
  const from = createRequire(site.resolve("vitepress/package.json"));
  const tool = await import(join(from.resolve("vite/package.json"), "../dist/node/index.js"));
  assert.match(tool.version, /^5\./);
  const { html, wasm } = await build("five", OPENS, { tool });
  assert.deepEqual(preloaded(html), [`/assets/${wasm}`]);
});

test("a part of the page's scripts may be in another chunk", async () => {
  const manualChunks = (id) => (id.includes("node_modules/escale") ? "escale" : undefined);
  const { html, wasm } = await build("chunks", OPENS, { build: { rollupOptions: { input: join(project.folder, "chunks/index.html"), output: { manualChunks } } } });
  assert.deepEqual(preloaded(html), [`/assets/${wasm}`]);
});

for (const [what, script, more] of [
  ["imports nothing of Escale", "document.title = 'none';", {}],
  ["may never import it", 'document.onclick = () => import("escale").then(({ init }) => init());', {}],
  ["carries the wasm in its scripts", `import "escale/inline";\n${OPENS}`, {}],
  ["does not want it", OPENS, { options: { preload: false } }],
  ["computes the addresses of its files", OPENS, { experimental: { renderBuiltUrl: (file) => `https://files.example/${file}` } }],
]) {
  test(`a page that ${what} asks for no wasm ahead`, async () => {
    const { html } = await build(what.replaceAll(" ", "-"), script, more);
    assert.deepEqual(preloaded(html), []);
  });
}

test("an option of another type is refused by its name", () => {
  assert.throws(() => escale({ preload: "yes" }), /preload must be true or false/);
});
