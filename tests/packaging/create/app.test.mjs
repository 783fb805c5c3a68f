// Applications of `npm create escale`, made from the tarballs that `make create` leaves: installed, built, and used in
// Chromium while their server comes and goes. The tools come from the registry.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { before, test } from "node:test";
import { stripVTControlCharacters } from "node:util";

import { openBrowser } from "../../e2e/support/browser.mjs";
import { ROOT, runCommand } from "../project.mjs";

const TARBALLS = join(ROOT, "target/npm");

before(() => runCommand(ROOT, process.execPath, "scripts/create.mjs"));

/** A new application of the template, installed. */
async function create(t, template) {
  const parent = await mkdtemp(join(tmpdir(), "escale-create-"));
  t.after(() => rm(parent, { recursive: true, force: true }));
  const command = join(TARBALLS, (await readdir(TARBALLS)).find((file) => file.startsWith("create-escale-")));
  await runCommand(parent, "npm", "exec", "--yes", `--package=${command}`, "--", "create-escale", "my-app", "--template", template, "--from", TARBALLS);
  const folder = join(parent, "my-app");
  await runCommand(folder, "npm", "install", "--no-audit", "--no-fund");
  return folder;
}

/** Runs a script of the application until the test ends, and resolves once the page is served. */
async function run(t, folder, script, port) {
  // A group of its own: npm, the shell, Vite and the server all end by one signal.
  const child = spawn("npm", ["run", script], { cwd: folder, detached: true, env: { ...process.env, ESCALE_PORT: port }, stdio: ["pipe", "pipe", "inherit"] });
  const closed = once(child, "close");
  const stop = async () => {
    try {
      process.kill(-child.pid, "SIGTERM");
    } catch {
      // It has ended.
    }
    await closed;
  };
  t.after(stop);
  const said = [];
  const waiting = new Set();
  createInterface({ input: child.stdout }).on("line", (line) => {
    said.push(stripVTControlCharacters(line));
    for (const look of [...waiting]) look();
  });
  /** Resolves with the first line from now on that matches. */
  const says = (pattern, from = said.length) =>
    Promise.race([
      closed.then(() => assert.fail(`ended before it said ${pattern}:\n${said.join("\n")}`)),
      new Promise((resolve) => {
        const look = () => {
          const found = said.slice(from).map((line) => pattern.exec(line)).find(Boolean);
          if (!found) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
      }),
    ]);
  const [, url] = await says(/Local: +(http:\S+)/, 0);
  await says(/Return stops the server/, 0);
  const press = async (answer) => {
    const answered = says(answer);
    child.stdin.write("\n");
    await answered;
  };
  return { url, stop, stopServer: () => press(/The server is stopped/), startServer: () => press(/The server runs again/) };
}

async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  return String(port);
}

/** The application as its user sees it. */
function user(page) {
  const shows = (text) => page.locator("ul li", { hasText: text }).waitFor();
  return {
    shows,
    says: (text) => page.locator("[role=status]", { hasText: text }).waitFor(),
    async enter(url) {
      await (url ? page.goto(url) : page.reload());
      await page.getByLabel("Passphrase").fill("correct horse");
      await page.getByText("Open", { exact: true }).click();
    },
    async add(text) {
      await page.getByLabel("New to-do").fill(text);
      await page.getByText("Add", { exact: true }).click();
      await shows(text);
    },
    // The session calls back after the click: React shows the tick then.
    tick: (text) => page.locator("li", { hasText: text }).getByRole("checkbox").click(),
    showsTicked: (text) => page.locator("li:has(:checked)", { hasText: text }).waitFor(),
  };
}

for (const template of ["react", "vanilla"]) {
  test(`${template}: a new application works offline, and comes back in step`, { timeout: 300_000 }, async (t) => {
    const folder = await create(t, template);
    await runCommand(folder, "npm", "run", "build");
    const port = await freePort();
    const dev = await run(t, folder, "dev", port);
    const problems = [];
    const { context } = await openBrowser(t);
    const page = await context.newPage();
    page.on("pageerror", (error) => problems.push(String(error)));
    const first = user(page);
    await first.enter(dev.url);
    await first.add("Milk");
    await first.says("In step with the server");
    const other = user(await (await openBrowser(t)).context.newPage());
    await other.enter(dev.url);
    await other.shows("Milk");

    await dev.stopServer();
    await first.add("Bread");
    await first.tick("Milk");
    await first.showsTicked("Milk");
    await first.says("2 to send");
    await first.enter();
    await first.shows("Bread");
    await first.showsTicked("Milk");
    await first.says("2 to send");
    await dev.startServer();
    await first.says("In step with the server");
    await other.shows("Bread");
    await dev.stop();

    const preview = await run(t, folder, "preview", port);
    await first.enter(preview.url);
    await first.add("Tea");
    await page.getByText("This page opens with no network").waitFor();
    await first.says("In step with the server");
    await preview.stop();
    await first.enter();
    await first.shows("Tea");
    await first.add("Salt");
    await first.says("Offline, 1 to send");
    assert.deepEqual(problems, []);
  });
}
