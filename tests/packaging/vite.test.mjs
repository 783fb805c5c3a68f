// The packed package in a new Vite project: built, served under a policy, and loaded in Chromium.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { chromium } from "playwright-core";

import { makeProject, ROOT, runCommand, SHOWN } from "./project.mjs";

const VITE = join(ROOT, "node_modules/vite/bin/vite.js");
const ARGS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

let project;
let browser;
before(async () => {
  project = await makeProject();
  await runCommand(project.folder, process.execPath, VITE, "build", "--logLevel", "warn");
  const isRoot = process.getuid?.() === 0;
  browser = await chromium.launch({
    executablePath: process.env.CHROME || "/usr/bin/chromium",
    args: isRoot ? [...ARGS, "--no-sandbox"] : ARGS,
  });
});
after(async () => {
  await browser?.close();
  await project?.remove();
});

/** Runs a server of static pages until the test ends. Returns its address, once it answers. */
async function serve(t, ...command) {
  const port = await freePort();
  const server = spawn(process.execPath, [...command, String(port)], { cwd: project.folder, stdio: "inherit" });
  t.after(async () => {
    const ended = once(server, "exit");
    server.kill();
    await ended;
  });
  const url = `http://localhost:${port}/`;
  while (server.exitCode === null) {
    try {
      await fetch(url);
      return url;
    } catch {
      // Not listening yet: each attempt waits for the machine to refuse it.
    }
  }
  throw new Error("the server stopped");
}

async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return port;
}

/** The contents of the page, and the errors in its console. */
async function load(t, url, prepare = async () => {}) {
  const context = await browser.newContext();
  t.after(() => context.close());
  const page = await context.newPage();
  const errors = [];
  page.on("console", (message) => {
    // Browsers request an icon by themselves; the project has none.
    if (message.location().url.endsWith("/favicon.ico")) return;
    if (["error", "warning"].includes(message.type())) errors.push(message.text());
  });
  page.on("pageerror", (error) => errors.push(String(error)));
  await prepare(page);
  await page.goto(url);
  await page.waitForFunction(() => document.body.textContent.startsWith("{"));
  return { shown: JSON.parse(await page.textContent("body")), errors };
}

const SERVE = join(ROOT, "scripts/serve-www.mjs");

test("the build holds one wasm, and the page shows the documents under a strict policy", async (t) => {
  const assets = await readdir(join(project.folder, "dist/assets"));
  assert.equal(assets.filter((name) => name.endsWith(".wasm")).length, 1);
  const { shown, errors } = await load(t, await serve(t, SERVE, "dist"));
  assert.deepEqual(shown, SHOWN);
  assert.deepEqual(errors, []);
});

test("Vite 5 copies the wasm too, whose reader of scripts knows less of regular expressions", async (t) => {
  // VitePress brings it, among the packages of the site.
  const site = createRequire(new URL("../../site/package.json", import.meta.url));
  const from = createRequire(site.resolve("vitepress/package.json"));
  const manifest = from.resolve("vite/package.json");
  assert.match(from(manifest).version, /^5\./);
  await runCommand(project.folder, process.execPath, join(manifest, "../bin/vite.js"), "build", "--logLevel", "warn", "--outDir", "dist-5");
  const { shown, errors } = await load(t, await serve(t, SERVE, "dist-5"));
  assert.deepEqual(shown, SHOWN);
  assert.deepEqual(errors, []);
});

test("a policy that forbids wasm is a named error with its cure", async (t) => {
  const { shown } = await load(t, await serve(t, SERVE, "dist"), (page) =>
    page.route("**/*", async (route) => {
      const response = await route.fetch();
      const headers = { ...response.headers(), "content-security-policy": "script-src 'self'" };
      await route.fulfill({ response, headers });
    }),
  );
  assert.equal(shown.code, "wasm_forbidden");
  assert.ok(shown.isEscaleError);
  assert.match(shown.cure, /'wasm-unsafe-eval'/);
});

for (const [what, answer] of Object.entries({
  "is not there": { status: 404, body: "" },
  "is a page": { status: 200, contentType: "text/html", body: "<!doctype html>" },
  "is cut": { status: 200, contentType: "application/wasm", body: Buffer.from("\0asm\x01\0\0") },
})) {
  test(`a wasm that ${what} is a named error`, async (t) => {
    const { shown } = await load(t, await serve(t, SERVE, "dist"), (page) =>
      page.route("**/*.wasm", (route) => route.fulfill(answer)),
    );
    assert.equal(shown.code, "wasm_failed");
    assert.match(shown.cure, /init\(\)/);
  });
}

test("Vite's development server serves it as well", async (t) => {
  const { shown } = await load(t, await serve(t, VITE, "--strictPort", "--logLevel", "warn", "--port"));
  assert.deepEqual(shown, SHOWN);
});
