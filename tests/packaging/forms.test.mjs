// The forms of the package for tools that find no file, or that require: one API and one wasm in all of them.
import assert from "node:assert/strict";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { rolldown } from "rolldown";

import { TYPESCRIPT } from "../../scripts/entries.mjs";
import { makeProject, ROOT, runCommand, SHOWN } from "./project.mjs";

let project;
before(async () => {
  project = await makeProject();
});
after(() => project.remove());

/** Runs a script of the project, and returns the JSON that it prints. */
async function run(name, script, ...flags) {
  await writeFile(join(project.folder, name), script);
  return JSON.parse(await runCommand(project.folder, process.execPath, ...flags, name));
}

const ENTRIES_OF_ONE = 'import * as main from "escale"; import * as other from "escale/inline"; import { rehearsal } from "escale/rehearsal";';

test("escale/inline is escale: the same functions and classes, whichever is imported", async () => {
  const script = `${ENTRIES_OF_ONE}
    const names = Object.keys(main);
    console.log(JSON.stringify([names.length > 5, names.filter((name) => main[name] !== other[name]), typeof rehearsal]));`;
  assert.deepEqual(await run("same.js", script), [true, [], "function"]);
});

test("require gives the package to CommonJS: in Node the same one as import does", async () => {
  const script = `
    const escale = require("escale");
    const inline = require("escale/inline");
    const { rehearsal } = require("escale/rehearsal");
    import("escale").then((imported) => {
      const same = Object.keys(escale).filter((name) => escale[name] !== imported[name] || escale[name] !== inline[name]);
      console.log(JSON.stringify([Object.keys(escale).includes("open"), same, typeof rehearsal]));
    });`;
  assert.deepEqual(await run("required.cjs", script), [true, [], "function"]);
});

test("the CommonJS form opens sessions, for tools such as Jest that know no other", async () => {
  // By its path, because Node itself prefers the modules.
  const script = `
    const { init } = require("./node_modules/escale/cjs/index.js");
    init().then(() => console.log(JSON.stringify("started")));`;
  assert.deepEqual(await run("common.cjs", script), "started");
});

test("without the wasm file the error names the line that needs none, and that line works", async () => {
  await rm(join(project.folder, "node_modules/escale/escale_bg.wasm"));
  const asking = `
    import { init } from "escale";
    console.log(JSON.stringify(await init().catch(({ code, cure }) => ({ code, cure }))));`;
  const { code, cure } = await run("asks.js", asking);
  assert.equal(code, "wasm_failed");
  const [line] = /import '[^']+'/.exec(cure);
  const script = `${line};
    import { run } from "./app.js";
    console.log(JSON.stringify(await run()));`;
  assert.deepEqual(await run("inline.js", script), SHOWN);
  // A test's environment may have none of the browser's streams.
  assert.deepEqual(await run("streamless.js", `delete globalThis.DecompressionStream;${script}`), SHOWN);
  const bundled = script.replace(line, 'import "./node_modules/escale/bundled.js"');
  assert.deepEqual(await run("bundled.js", bundled), SHOWN, "as bundlers have it");
});

/** The file that a tool of these conditions takes for `escale`. */
function chosen(conditions, given) {
  if (typeof given === "string") return given;
  for (const [condition, next] of Object.entries(given)) {
    const file = (condition === "default" || conditions.includes(condition)) && chosen(conditions, next);
    if (file) return file;
  }
}

for (const [tool, conditions, file] of [
  ["Vite's build", ["module", "browser", "production", "import"], "./index.js"],
  ["webpack's build", ["webpack", "production", "browser", "module", "import"], "./index.js"],
  ["Vite's development server", ["module", "browser", "development", "import"], "./bundled.js"],
  ["esbuild", ["browser", "module", "import"], "./bundled.js"],
  ["esbuild with the wasm in a file", ["browser", "production", "import"], "./index.js"],
  ["Rollup", ["module", "import", "production"], "./bundled.js"],
  ["Angular", ["es2020", "es2015", "module", "browser", "production", "import"], "./bundled.js"],
  ["a bundler for servers", ["node", "module", "production", "require"], "./bundled.js"],
  ["Next at the edge", ["edge-light", "module", "browser", "production", "import"], "./edge.js"],
  ["Cloudflare Workers", ["workerd", "worker", "browser", "module", "import"], "./edge.js"],
  ["Node", ["node", "import", "module-sync"], "./index.js"],
  ["Node's require", ["node", "require", "module-sync"], "./index.js"],
  ["Jest", ["require", "default", "node", "node-addons"], "./cjs/index.js"],
  ["Jest with jsdom", ["require", "default", "browser"], "./cjs/index.js"],
  ["a browser", [], "./index.js"],
]) {
  test(`${tool} takes ${file}`, async () => {
    const { default: manifest } = await import("escale/package.json", { with: { type: "json" } });
    assert.equal(chosen(conditions, manifest.exports["."]), file);
  });
}

test("no module has the expression that Parcel rewrites as an import", async () => {
  const folder = join(project.folder, "node_modules/escale");
  const modules = (await readdir(folder)).filter((name) => name.endsWith(".js"));
  const broken = await Promise.all(modules.map(async (name) => /Promise\.resolve\(\)\.then\(/.test(await readFile(join(folder, name), "utf8")) && name));
  assert.deepEqual(broken.filter(Boolean), []);
});

test("a bundler that copies no file makes an application that needs none", async () => {
  const made = await rolldown({ input: join(project.folder, "node.js"), platform: "node", resolve: { conditionNames: ["module", "import"] } });
  await made.write({ dir: join(project.folder, "bundled"), format: "es", entryFileNames: "[name].mjs", chunkFileNames: "[name].mjs" });
  await made.close();
  assert.deepEqual(JSON.parse(await runCommand(project.folder, process.execPath, "bundled/node.mjs")), SHOWN);
});

test(`TypeScript before ${TYPESCRIPT} is refused by name, in place of wrong types`, async () => {
  const { default: manifest } = await import("escale/package.json", { with: { type: "json" } });
  const condition = `types@<${TYPESCRIPT}`;
  for (const [entry, conditions] of Object.entries(manifest.exports)) {
    if (typeof conditions === "string" || entry === "./escale.wasm") continue;
    assert.equal(Object.keys(conditions)[0], condition, entry);
    assert.equal(conditions[condition], "./too-old.d.ts", entry);
  }
  // The types that such a version sees.
  const source = 'import { open } from "./node_modules/escale/too-old.js";\nexport const session = open({ org: "demo" });\n';
  await writeFile(join(project.folder, "old.ts"), source);
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const compile = runCommand(project.folder, process.execPath, tsc, "--noEmit", "--strict", "--module", "nodenext", "old.ts");
  await assert.rejects(compile, /EscaleNeedsTypeScript53OrLater/);
});

test("its types serve CommonJS, escale/inline and the address of the wasm", async () => {
  const source = `
    import { defineSchema, open } from "escale";
    import { open as openInline } from "escale/inline";
    const schema = defineSchema({ Package: { key: ["name"], properties: { done: "boolean" } } });
    export async function first(): Promise<boolean | undefined> {
      const session = await (openInline satisfies typeof open)({ org: "demo", schema, mode: "avion", passphrase: "x" });
      return session.collection("Package", {}).docs[0]?.done;
    }
  `;
  // Only modules can import the wasm, by their bundler.
  const address = 'import { init } from "escale";\nimport wasm from "escale/escale.wasm";\nvoid init(wasm);\n';
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  for (const [file, module, resolution] of [["typed.cts", "node16", "node16"], ["typed.mts", "nodenext", "nodenext"], ["typed.ts", "esnext", "bundler"]]) {
    await writeFile(join(project.folder, file), file.endsWith(".cts") ? source : address + source);
    const flags = ["--noEmit", "--strict", "--esModuleInterop", "--target", "es2022", "--module", module, "--moduleResolution", resolution];
    await runCommand(project.folder, process.execPath, tsc, ...flags, file);
  }
});
