// The first guide, done as it says: its files in a new project, built by Vite, used in Chromium against a server.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";

import { openBrowser } from "../../tests/e2e/support/browser.mjs";
import { startListening, stopProcess } from "../../tests/e2e/support/process.mjs";
import { makeProject, ROOT, runCommand } from "../../tests/packaging/project.mjs";
import { start } from "../../tests/servers/second.mjs";
import { runnable } from "./blocks.mjs";

const VITE = join(ROOT, "node_modules/vite/bin/vite.js");
/** The guide's blocks of code, by the languages that each of them alone has. */
const FILES = { json: "schema.json", "js run": "db.js", html: "index.html", js: "main.js", "js config": "vite.config.js" };

test("the first guide gives a list that works offline, in two browsers", { timeout: 120_000 }, async (t) => {
  const guide = await readFile(join(ROOT, "docs/guides/getting-started.md"), "utf8");
  const blocks = [...guide.matchAll(/^```(\S.*)\n([\s\S]*?)^```$/gm)].map(([, language, code]) => [language, code]);
  assert.deepEqual(blocks.map(([language]) => language), Object.keys(FILES));
  const server = await start({ schema: JSON.parse(blocks[0][1]) });
  t.after(() => server.stop().catch(() => {}));
  const project = await makeProject();
  t.after(() => project.remove());
  for (const [language, code] of blocks) {
    // The test asks the session when it has saved, which no visitor has to do by hand.
    const seen = language === "js run" ? "\nglobalThis.session = session;\n" : "";
    await writeFile(join(project.folder, FILES[language]), runnable(code, { server: server.url, org: "demo" }) + seen);
  }
  await runCommand(project.folder, join(project.folder, "node_modules/.bin/escale"), "schema", "check", "schema.json");
  await runCommand(project.folder, process.execPath, VITE, "build", "--target", "esnext", "--logLevel", "warn");
  const { child, port } = await startListening(process.execPath, [join(ROOT, "scripts/serve-www.mjs"), join(project.folder, "dist"), "0"]);
  t.after(() => stopProcess(child, "SIGKILL"));
  const url = `http://localhost:${port}/`;

  const page = await (await openBrowser(t)).context.newPage();
  const shows = (where, text) => where.locator("li", { hasText: text }).waitFor();
  const says = (text) => page.locator("#status", { hasText: text }).waitFor();
  const add = async (text) => {
    await page.fill("#text", text);
    await page.click("text=Add");
    await shows(page, text);
  };
  // A visitor who is quicker than the session: without the script the page is as it is before that.
  await page.route("**/*.js", (route) => route.abort());
  await page.goto(url);
  await page.fill("#text", "Too early");
  await page.press("#text", "Enter");
  assert.ok(await page.isDisabled("#add"));
  assert.equal(page.url(), url, "the browser sent the form");
  await page.unroute("**/*.js");
  await page.goto(url);
  await add("Milk");
  await says("live, 0 waiting");
  const other = await (await openBrowser(t)).context.newPage();
  await other.goto(url);
  await shows(other, "Milk");

  await server.stop();
  await add("Bread");
  await page.locator("li", { hasText: "Milk" }).locator("input").check();
  await says("2 waiting");
  // A write is on the device some milliseconds after it is shown: a script can reload before that.
  await page.evaluate(() => globalThis.session.flush());
  await page.reload();
  await shows(page, "Bread");
  assert.ok(await page.locator("li", { hasText: "Milk" }).locator("input").isChecked());
  await server.restart();
  await says("live, 0 waiting");
  await shows(other, "Bread");
  await page.locator("li", { hasText: "Bread" }).locator("button").click();
  await other.locator("li", { hasText: "Bread" }).waitFor({ state: "detached" });

  await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  await server.stop();
  await stopProcess(child, "SIGKILL");
  await page.reload();
  await shows(page, "Milk");
});
