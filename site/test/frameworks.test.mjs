// The examples of the guides to React and Vue, as applications: built by Vite, and used in Chromium against a server.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";

import { openBrowser } from "../../tests/e2e/support/browser.mjs";
import { startListening, stopProcess } from "../../tests/e2e/support/process.mjs";
import { ROOT, runCommand } from "../../tests/packaging/project.mjs";
import { start } from "../../tests/servers/second.mjs";
import { runnable } from "./blocks.mjs";

const SCHEMA = { Package: { key: ["name"], collections: { section: { key: ["section"] } }, indexes: { size: "integer" } } };
// VitePress brings the plugin of Vue, with the Vite that it needs.
const ofVitePress = createRequire(createRequire(import.meta.url).resolve("vitepress/package.json"));
const vue = ofVitePress("@vitejs/plugin-vue");
const TYPES = { strict: true, noEmit: true, target: "esnext", module: "esnext", moduleResolution: "bundler", jsx: "react-jsx", types: [] };

/** The files of a page, by the names in their first lines. */
const filesOf = async (path) => {
  const page = await readFile(join(ROOT, path), "utf8");
  return [...page.matchAll(/^```\S+\n(?:\/\/|<!--) (\S+\.\S+).*\n([\s\S]*?)^```$/gm)].map(([, name, code]) => ({ name, code }));
};

for (const { heading, entry, place, shown, vite, plugins } of [
  { heading: "React", entry: "main.tsx", place: "root", shown: "1 games, 1 large packages, 0ad: 4000000", vite: join(ROOT, "node_modules/vite"), plugins: [] },
  { heading: "Vue", entry: "main.ts", place: "app", shown: "1 games, 1 large packages", vite: join(ofVitePress.resolve("vite/package.json"), ".."), plugins: [vue()] },
]) {
  test(`the example for ${heading} shows a list, writes, and opens again`, { timeout: 120_000 }, async (t) => {
    const files = [...(await filesOf("docs/frameworks.md")), ...(await filesOf(`docs/guides/${heading.toLowerCase()}.md`))];
    assert.ok(files.some(({ name }) => name === entry), `${files.map(({ name }) => name)}`);
    const server = await start({ schema: SCHEMA });
    t.after(() => server.stop().catch(() => {}));
    // Inside of the repository, so that the packages are found.
    const folder = await mkdtemp(join(ROOT, "target/example-"));
    t.after(() => rm(folder, { recursive: true }));
    for (const { name, code } of files) await writeFile(join(folder, name), runnable(code, { server: server.url, org: "demo" }));
    await writeFile(join(folder, "index.html"), `<!doctype html><title>Example</title><div id="${place}"></div><script type="module" src="./${entry}"></script>`);
    // tsc cannot read Vue's components: the build drops their types unchecked.
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: TYPES, include: ["*.ts", "*.tsx"] }));
    if (heading === "React") await runCommand(folder, process.execPath, join(ROOT, "node_modules/typescript/bin/tsc"));
    const { build } = await import(join(vite, "dist/node/index.js"));
    await build({ root: folder, configFile: false, plugins, build: { target: "esnext" }, logLevel: "warn" });
    const { child, port } = await startListening(process.execPath, [join(ROOT, "scripts/serve-www.mjs"), join(folder, "dist"), "0"]);
    t.after(() => stopProcess(child, "SIGKILL"));

    const visited = await (await openBrowser(t)).context.newPage();
    const problems = [];
    visited.on("pageerror", (error) => problems.push(String(error)));
    await visited.goto(`http://localhost:${port}/`);
    await visited.getByText("Add").click();
    await visited.getByText(shown).waitFor();
    await server.stop();
    await visited.reload();
    await visited.getByText(shown).waitFor();
    assert.deepEqual(problems, []);
  });
}
