// The packed package in a new Vite project with the plugin `escale/vite`: the application opens with no network, and its
// updates never mix versions. The project's own code knows nothing of this.
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { chromium } from "playwright-core";

import { makeProject, ROOT, runCommand } from "./project.mjs";
import { Site } from "./site.mjs";

const VITE = join(ROOT, "node_modules/vite/bin/vite.js");
const ARGS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const WORKER = "escale-offline.js";

let project;
let browser;
before(async () => {
  project = await makeProject("offline-app");
  for (const version of ["A", "B"]) await build(version, {});
  await build("routes", { fallback: "index.html", network: ["api/"] });
  await build("removed", { register: "remove" });
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

/** Builds the application with these options of the plugin, into a folder of its name. */
async function build(version, options) {
  await mkdir(join(project.folder, "public"), { recursive: true });
  await writeFile(join(project.folder, "public/version.txt"), version);
  const env = { VITE_VERSION: version, ESCALE_OPTIONS: JSON.stringify(options) };
  const args = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  await runCommand(project.folder, "env", ...args, process.execPath, VITE, "build", "--logLevel", "warn", "--outDir", version);
}

const folder = (version) => join(project.folder, version);

/** A site with a version of the application, and a browser that has never seen it. */
async function begin(t, version = "A") {
  const site = await new Site(folder(version)).start();
  const context = await browser.newContext();
  t.after(async () => {
    await context.close();
    await site.stop().catch(() => {});
  });
  return { site, context };
}

/** Opens the application in a new tab. */
async function visit(context, site, path = "") {
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  await page.goto(site.url + path);
  await isListed(page);
  return page;
}

const isListed = (page) => page.locator("#docs[data-ready=true] li").first().waitFor();
const versionOf = (page) => page.textContent("#version");
/** Resolves once the worker of this page's scope is active. */
const isKept = (page) => page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
/** Every address in every cache. */
const cached = (page) =>
  page.evaluate(async () => {
    const found = [];
    for (const name of await caches.keys()) for (const { url, method } of await (await caches.open(name)).keys()) found.push(`${method} ${url}`);
    return found;
  });
/** Looks for a newer version, and resolves once it has taken over, or once it could not be kept. */
const look = (page) =>
  page.evaluate(async () => {
    const registration = await navigator.serviceWorker.ready;
    const found = new Promise((resolve) => registration.addEventListener("updatefound", () => resolve(registration.installing)));
    await registration.update();
    const worker = await found;
    return await new Promise((resolve) => {
      const tell = () => ["activated", "redundant"].includes(worker.state) && resolve(worker.state);
      worker.addEventListener("statechange", tell);
      tell();
    });
  });
/** Reloads the page, until its application lists. */
const reload = async (page) => {
  await page.reload();
  await isListed(page);
};

/** Resolves once the function is true in the page. The worker does these things by itself, and tells nobody. */
const until = (page, isSo) => page.waitForFunction(isSo, undefined, { polling: 20 });

test("the second visit opens with no network: the page, its session and its list", async (t) => {
  const { site, context } = await begin(t);
  const first = await visit(context, site);
  await isKept(first);
  await first.evaluate(() => window.session.flush());
  await first.close();
  await site.stop();
  const second = await visit(context, site);
  assert.equal(await versionOf(second), "A");
  assert.deepEqual(await second.locator("#docs li").allTextContents(), ["Zola"]);
  assert.equal(await second.evaluate(() => window.later()), "later A", "a chunk that was never asked for before");
  assert.deepEqual(second.problems, []);
});

test("only the application's own files are kept, never an answer of a server", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await isKept(page);
  await reload(page);
  await page.evaluate(async () => {
    await (await fetch("/api/me")).text();
    await (await fetch("/api/me?of=1", { cache: "no-store" })).text();
    await (await fetch("/api/sync", { method: "POST", body: '{"subs":[]}' })).text();
  });
  const source = await readFile(join(folder("A"), WORKER), "utf8");
  const { files } = JSON.parse(/^self\.escaleFiles=(.*);\n/.exec(source)[1]);
  const expected = [...Object.keys(files), "?escale-list"].map((path) => `GET ${new URL(path, new URL(WORKER, site.url))}`);
  const found = (await cached(page)).filter((entry) => !entry.endsWith("?escale-versions"));
  assert.deepEqual(found.sort(), expected.sort());
  assert.ok(site.requests.filter((line) => line === "GET /api/me").length === 2, "the worker answered for the server");
});

test("the files that the page has loaded are not fetched a second time", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await isKept(page);
  const wasm = site.requests.filter((line) => line.endsWith(".wasm"));
  assert.equal(wasm.length, 1, `${wasm}`);
});

test("an update opens at the next reload, and only changed files are fetched for it", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await isKept(page);
  await reload(page);
  site.folder = folder("B");
  site.requests.length = 0;
  assert.equal(await look(page), "activated");
  assert.ok(!site.requests.some((line) => line.endsWith(".wasm")), "the wasm is the same in both versions");
  assert.equal(await versionOf(page), "A");
  assert.equal(await page.evaluate(() => window.later()), "later A", "a chunk that the site has no more");
  assert.equal(await page.evaluate(() => window.unhashed()), "A", "a file of the same name in both versions");
  await reload(page);
  assert.equal(await versionOf(page), "B");
  assert.equal(await page.evaluate(() => window.later()), "later B");
  assert.equal(await page.evaluate(() => window.unhashed()), "B");
  await site.stop();
  await reload(page);
  assert.equal(await versionOf(page), "B");
});

test("two tabs: one opens the newer version, and the other keeps every file of its own", async (t) => {
  const { site, context } = await begin(t);
  const first = await visit(context, site);
  await isKept(first);
  await reload(first);
  const second = await visit(context, site);
  site.folder = folder("B");
  assert.equal(await look(second), "activated");
  await reload(second);
  assert.equal(await versionOf(second), "B");
  assert.equal(await second.evaluate(() => window.unhashed()), "B");
  assert.equal(await versionOf(first), "A");
  assert.equal(await first.evaluate(() => window.unhashed()), "A");
  await site.stop();
  assert.equal(await first.evaluate(() => window.later()), "later A");
  await reload(first);
  assert.equal(await versionOf(first), "B");
  assert.deepEqual([...first.problems, ...second.problems], []);
});

/**
 * Ends the active worker whenever a newer one waits for it, as browsers do once it is idle. One that a debugger follows is
 * never idle: a message of a page, which may start it at any moment, would hold the newer one back for five minutes.
 */
async function endIdleWorkers(context, page) {
  const debug = await context.newCDPSession(page);
  const versions = new Map();
  debug.on("ServiceWorker.workerVersionUpdated", ({ versions: changed }) => {
    for (const version of changed) versions.set(version.versionId, version);
    const known = [...versions.values()];
    if (!known.some(({ status }) => status === "installed")) return;
    for (const { versionId, status, runningStatus } of known) {
      if (status === "activated" && runningStatus === "running") void debug.send("ServiceWorker.stopWorker", { versionId });
    }
  });
  await debug.send("ServiceWorker.enable");
}

test("a page that opens while an update is installed keeps its version once that takes over", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await isKept(page);
  await reload(page);
  site.folder = folder("B");
  let release;
  const held = new Promise((resolve) => (release = resolve));
  site.changes = (path) => (path === "/version.txt" ? held : undefined);
  const other = await visit(context, site);
  // The page asks by itself for the newer version, whose installation is held.
  await other.evaluate(async () => {
    const registration = await navigator.serviceWorker.ready;
    if (!registration.installing) await new Promise((resolve) => registration.addEventListener("updatefound", resolve));
  });
  await reload(page);
  const taken = (one) =>
    one.evaluate(() => new Promise((resolve) => navigator.serviceWorker.addEventListener("controllerchange", () => resolve(true))));
  const both = [taken(page), taken(other)];
  // Both listen by then: the messages to a page keep their order.
  for (const one of [page, other]) await one.evaluate(() => true);
  await endIdleWorkers(context, page);
  release();
  assert.deepEqual(await Promise.all(both), [true, true]);
  for (const one of [page, other]) {
    assert.equal(await versionOf(one), "A");
    assert.equal(await one.evaluate(() => window.unhashed()), "A");
    assert.equal(await one.evaluate(() => window.later()), "later A");
  }
  await reload(page);
  assert.equal(await versionOf(page), "B");
  assert.equal(await page.evaluate(() => window.unhashed()), "B");
});

test("once no tab has the earlier version, nothing of it is left", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await isKept(page);
  await reload(page);
  site.folder = folder("B");
  await look(page);
  assert.equal(await page.evaluate(async () => (await caches.keys()).length), 3, "two versions, and the record of the pages");
  await reload(page);
  await until(page, async () => (await caches.keys()).length === 2);
});

test("a deployment in the middle of an installation changes nothing", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await isKept(page);
  await reload(page);
  site.folder = folder("B");
  site.changes = (path) => (path === "/" ? { headers: { "content-type": "text/html" }, body: "<p>a third version</p>" } : undefined);
  const told = page.evaluate(() => new Promise((resolve) => navigator.serviceWorker.addEventListener("message", ({ data }) => resolve(data))));
  assert.equal(await look(page), "redundant");
  assert.match((await told).escaleOfflineFailed, /^index\.html could not be fetched, or has other bytes/);
  await reload(page);
  assert.equal(await versionOf(page), "A");
  assert.equal(await page.evaluate(() => window.unhashed()), "A");
  site.changes = () => undefined;
  assert.equal(await look(page), "activated");
});

for (const [what, answer] of Object.entries({
  "is not there": { status: 404 },
  "is served with no-store": { headers: { "cache-control": "no-store", "content-type": "text/plain" }, body: "A" },
})) {
  test(`a first installation of which a file ${what} leaves the page as it is`, async (t) => {
    const { site, context } = await begin(t);
    site.changes = (path) => (path === "/version.txt" ? answer : undefined);
    const page = await visit(context, site);
    const state = page.evaluate(async () => {
      const [registration] = await navigator.serviceWorker.getRegistrations();
      return registration?.active ?? null;
    });
    assert.equal(await state, null);
    await reload(page);
    assert.equal(await versionOf(page), "A");
    site.changes = () => undefined;
    await reload(page);
    await isKept(page);
    await site.stop();
    await reload(page);
  });
}

test("a file that the browser has lost is fetched again, and the page opens meanwhile", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await isKept(page);
  await page.evaluate(async () => {
    for (const name of await caches.keys()) {
      const cache = await caches.open(name);
      for (const request of await cache.keys()) if (/\.(wasm|html)$/.test(request.url)) await cache.delete(request);
    }
  });
  await reload(page);
  await until(page, async () => (await caches.match("/index.html")) !== undefined);
  await reload(page);
  await isKept(page);
  await page.evaluate(() => window.session.flush());
  await site.stop();
  await reload(page);
});

/** Puts a script of an attacker in the place of every script and wasm that any cache holds, under the same addresses. */
const poison = (page) =>
  page.evaluate(async () => {
    let poisoned = 0;
    for (const name of await caches.keys()) {
      const cache = await caches.open(name);
      for (const { url } of await cache.keys()) {
        if (!/\.(js|wasm)$/.test(url)) continue;
        await cache.put(url, new Response("window.attacked = true", { headers: { "content-type": "text/javascript" } }));
        poisoned++;
      }
    }
    return poisoned;
  });

/** Whether any script or wasm that a cache holds is the attacker's. */
const isPoisoned = (page) =>
  page.evaluate(async () => {
    for (const name of await caches.keys()) {
      const cache = await caches.open(name);
      for (const request of await cache.keys()) if ((await (await cache.match(request)).text()).startsWith("window.attacked")) return true;
    }
    return false;
  });

test("what an attacker put into a cache does not outlive the next version, which has the same file", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await isKept(page);
  assert.ok((await poison(page)) > 1, "the wasm, which is the same in both versions, among them");
  site.folder = folder("B");
  assert.equal(await look(page), "activated");
  await page.close();
  const next = await visit(context, site);
  assert.equal(await versionOf(next), "B");
  await until(next, async () => (await caches.keys()).length === 2);
  assert.equal(await isPoisoned(next), false);
  assert.equal(await next.evaluate(() => window.attacked), undefined);
});

test("a script that an attacker put into the cache of this version is replaced as soon as a page asks for its state", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await isKept(page);
  assert.ok((await poison(page)) > 0);
  // Another page of the same scope, whose scripts are its own, asks as `register` does.
  const state = await page.evaluate(async () => {
    const { active } = await navigator.serviceWorker.ready;
    const { port1, port2 } = new MessageChannel();
    const answer = new Promise((resolve) => (port1.onmessage = ({ data }) => resolve(data)));
    active.postMessage("escale-state", [port2]);
    return await answer;
  });
  assert.equal(state.whole, true);
  await page.close();
  const next = await visit(context, site);
  assert.equal(await next.evaluate(() => window.attacked), undefined);
});

test("an address that is no file: the server's answer, or the start page if there is no network", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await isKept(page);
  site.changes = (path) => (path === "/notes/1" ? { headers: { "content-type": "text/html" }, body: "<h1>from the server</h1>" } : undefined);
  await page.goto(`${site.url}notes/1`);
  assert.equal(await page.textContent("h1"), "from the server");
  await site.stop();
  await page.goto(`${site.url}notes/1`).catch(() => {});
  assert.equal(await page.title(), "Offline", "the start page opened");
});

test("with a fallback every address opens from the device, except those of the network", async (t) => {
  const { site, context } = await begin(t, "routes");
  const page = await visit(context, site);
  await isKept(page);
  site.changes = (path) => (path === "/notes/1" ? { status: 500, body: "the server was asked" } : undefined);
  await page.goto(`${site.url}notes/1`);
  assert.equal(await page.title(), "Offline");
  await page.goto(`${site.url}api/me`);
  assert.equal(await page.textContent("body"), "Zola");
});

test("`register` tells when the page is kept, that a newer version is, and why it could not be kept", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await page.evaluate(async () => {
    window.said = [];
    const { status } = await window.offline();
    status.subscribe(({ supported, ready, update, error }) => window.said.push([supported, ready, update, error?.code ?? null].join()));
  });
  const says = (text) => page.waitForFunction((wanted) => window.said.at(-1) === wanted, text, { polling: 20 });
  await says("true,true,false,");
  site.folder = folder("B");
  site.changes = (path) => (path === "/version.txt" ? { status: 503 } : undefined);
  await page.evaluate(async () => (await window.offline()).check());
  await says("true,true,false,worker_failed");
  const { message, cure } = await page.evaluate(async () => {
    const { error } = (await window.offline()).status.value;
    return { message: error.message, cure: error.cure };
  });
  assert.match(message, /^version\.txt /);
  assert.match(cure, /as they were built/);
  site.changes = () => undefined;
  await page.evaluate(async () => (await window.offline()).check());
  await says("true,true,true,");
  await reload(page);
  assert.equal(await versionOf(page), "B");
});

test("`unregister` removes the worker and all that it kept", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await isKept(page);
  await reload(page);
  const left = await page.evaluate(async () => {
    await (await window.offline()).unregister();
    return [(await navigator.serviceWorker.getRegistrations()).length, await caches.keys()];
  });
  assert.deepEqual(left, [0, []]);
  assert.equal(await page.evaluate(() => window.unhashed()), "A", "the page goes on with the network");
  const next = await context.newPage();
  await site.stop();
  await assert.rejects(next.goto(site.url), /ERR_/);
});

test("a worker that is not there is an error with its cure, and the page goes on", async (t) => {
  const { site, context } = await begin(t);
  site.changes = (path) => (path === `/${WORKER}` ? { status: 404 } : undefined);
  const page = await visit(context, site);
  await page.waitForFunction(async () => (await window.offline()).status.value.error !== null);
  const code = await page.evaluate(async () => (await window.offline()).status.value.error.code);
  assert.equal(code, "worker_failed");
});

test("the command does the same for a build without Vite", async (t) => {
  const plain = join(project.folder, "plain");
  await mkdir(plain);
  await writeFile(join(plain, "index.html"), "<!doctype html><title>plain</title><p>of any build</p>");
  const command = (...args) => runCommand(project.folder, process.execPath, "node_modules/escale/cli.js", ...args);
  assert.match(await command("offline", plain, "--network", "api/"), /^escale: 1 files \(54 bytes\) open offline, version [0-9a-f]{16}: /);
  const again = await readFile(join(plain, WORKER), "utf8");
  await command("offline", plain, "--network", "api/");
  assert.equal(await readFile(join(plain, WORKER), "utf8"), again, "the same files give the same worker");
  await assert.rejects(command("offline", plain, "--fallback", "app.html"), /app\.html is no file that is kept/);
  await assert.rejects(command("offline", join(plain, "none")), /no folder/);
  await assert.rejects(command("offline", plain, "--netwrk", "x"), /no option is called --netwrk/);
  const files = (await command("files")).trim().split("\n");
  assert.ok(files.some((file) => file.endsWith("escale_bg.wasm")) && !files.some((file) => /vite|build/.test(file.split("/").at(-1))), `${files}`);

  const site = await new Site(plain).start();
  const context = await browser.newContext();
  t.after(() => context.close());
  const page = await context.newPage();
  await page.goto(site.url);
  await page.evaluate(async (worker) => void (await navigator.serviceWorker.register(worker)), WORKER);
  await isKept(page);
  await site.stop();
  await page.goto(site.url);
  assert.equal(await page.textContent("p"), "of any build");
});

test("Vite's development server keeps nothing, and removes the worker of a build on its address", async (t) => {
  const { createServer } = await import(join(ROOT, "node_modules/vite/dist/node/index.js"));
  const server = await createServer({ root: project.folder, server: { port: 0, host: "127.0.0.1" }, logLevel: "silent" });
  t.after(() => server.close());
  await server.listen();
  const { port } = server.httpServer.address();
  const worker = await (await fetch(`http://127.0.0.1:${port}/${WORKER}`)).text();
  assert.match(worker, /^self\.escaleFiles=\{"version":"removed"/);
  const page = await (await fetch(`http://127.0.0.1:${port}/`, { headers: { accept: "text/html" } })).text();
  assert.doesNotMatch(page, /escale-offline/);
});

test("a build with `remove` takes the worker and its files off the device", async (t) => {
  const { site, context } = await begin(t);
  const page = await visit(context, site);
  await isKept(page);
  await reload(page);
  site.folder = folder("removed");
  await page.evaluate(async () => (await navigator.serviceWorker.ready).update());
  await until(page, async () => (await navigator.serviceWorker.getRegistrations()).length + (await caches.keys()).length === 0);
  await reload(page);
  assert.equal(await versionOf(page), "removed");
});
