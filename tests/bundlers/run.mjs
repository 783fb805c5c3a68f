// Builds the application of `app` with each tool of `tools`, and opens it: `node tests/bundlers/run.mjs`. ONLY=vite-7,jest
// runs some projects. Writes a row for each cell that passed into docs/bundlers.md. Rows of projects that did not run stay.
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { chromium } from "playwright-core";

import { ARGS } from "../e2e/support/browser.mjs";
import { pack } from "../packaging/project.mjs";
import { check } from "./support/check.mjs";
import { makeProject } from "./support/project.mjs";
import { writeRows } from "./support/table.mjs";

const only = process.env.ONLY ? process.env.ONLY.split(",") : undefined;
const folders = (await readdir(new URL("tools", import.meta.url))).sort();
const tools = await Promise.all(folders.map(async (folder) => ({ folder, ...(await import(`./tools/${folder}/tool.mjs`)) })));
const projects = tools.flatMap((tool) => Object.entries(tool.versions).map(([name, packages]) => ({ name, tool, packages })));
const unknown = only?.filter((name) => !projects.some((project) => project.name === name)) ?? [];
if (unknown.length > 0) throw new Error(`no such project: ${unknown}; there are: ${projects.map(({ name }) => name)}`);

const packing = await mkdtemp(join(tmpdir(), "escale-pack-"));
const { path: tarball } = await pack(packing);
const browser = await chromium.launch({ executablePath: process.env.CHROME || "/usr/bin/chromium", args: ARGS });
const rows = [];
const ran = new Set();
let passed = 0;
let failed = 0;
for (const { name, tool, packages } of projects) {
  if (only && !only.includes(name)) continue;
  ran.add(name);
  const project = await makeProject(name, tool, packages, tarball).catch((error) => {
    console.log(`not ok ${name}: cannot be installed\n${error.message}`);
    failed += 1;
  });
  if (!project) continue;
  for (const cell of tool.cells) {
    try {
      const seen = await check(browser, project.folder, cell);
      console.log(`ok ${name}, ${cell.what}: ${JSON.stringify(seen)}`);
      rows.push({ name, tool, packages, cell });
      passed += 1;
    } catch (error) {
      console.log(`not ok ${name}, ${cell.what}\n${error.message}`);
      failed += 1;
    }
  }
  if (process.env.KEEP) console.log(`# ${name} stays in ${project.folder}`);
  else await project.remove();
}
await browser.close();
await rm(packing, { recursive: true });
await writeRows(rows, ran);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
