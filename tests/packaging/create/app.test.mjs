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

/** The application with accounts as its user sees it. */
function account(page, passphrase) {
  const press = (name) => page.getByRole("button", { name, exact: true }).click();
  const fill = async (entries) => {
    for (const [label, text] of Object.entries(entries)) await page.getByLabel(label, { exact: true }).fill(text);
  };
  const submit = (name) => page.locator("form").getByRole("button", { name, exact: true }).click();
  return {
    ...user(page),
    press,
    open: (url) => page.goto(url),
    async signUp(name) {
      await press("Create an account");
      await fill({ Name: name, Passphrase: passphrase });
      await submit("Create an account");
      const code = await page.locator("code").textContent();
      await press("I have kept it");
      return code;
    },
    async signIn(name, by = passphrase) {
      await fill({ Name: name, Passphrase: by });
      await submit("Sign in");
    },
    async recover(name, code, next) {
      await press("Use the recovery code");
      await fill({ Name: name, "Recovery code": code, Passphrase: next });
      await submit("Use the recovery code");
    },
    async goOn(next) {
      await fill({ "New passphrase": next });
      await press("Go on");
    },
    alerts: (text) => page.locator("[role=alert]", { hasText: text }).waitFor(),
  };
}

test("react-accounts: an account on two devices, a lock, a recovery, and an end", { timeout: 300_000 }, async (t) => {
  const folder = await create(t, "react-accounts");
  await runCommand(folder, "npm", "run", "build");
  const dev = await run(t, folder, "dev", await freePort());
  const problems = [];
  const newUser = async () => {
    const page = await (await openBrowser(t)).context.newPage();
    page.on("pageerror", (error) => problems.push(String(error)));
    return account(page, "correct horse battery staple");
  };
  const [first, second] = [await newUser(), await newUser()];
  await first.open(dev.url);
  const code = await first.signUp("Ada");
  assert.match(code, /^[\dA-Z]{4}(-?[\dA-Z]{4}){7}$/);
  await first.add("Milk");
  await first.says("In step with the server");
  await second.open(dev.url);
  await second.signIn("ada", "wrong");
  await second.alerts(/\S/);

  // With no server: locked, opened again by the same passphrase, and a write that waits. It is asked about before it is lost.
  await dev.stopServer();
  await first.press("Lock");
  await first.signIn("ada");
  await first.shows("Milk");
  await first.add("Bread");
  await first.press("Remove from this device");
  await first.alerts(/\S/);
  await dev.startServer();
  await first.says("In step with the server");

  await second.recover("ada", code, "another passphrase");
  await second.shows("Bread");
  await first.goOn("another passphrase");
  await first.says("In step with the server");
  await second.press("Remove from this device");
  await second.says("Everything was removed from this device.");
  await second.signIn("ada", "another passphrase");
  await second.shows("Milk");
  assert.deepEqual(problems, []);
});

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
