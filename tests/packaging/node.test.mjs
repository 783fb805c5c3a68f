// The packed package: its contents, and a plain Node script that uses it.
import assert from "node:assert/strict";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join, posix } from "node:path";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";

import { ENTRIES, INNER, MAIN, modules, SCHEMA_COMMAND, WASM } from "../../scripts/entries.mjs";
import { makeProject, ROOT, runCommand, SHOWN } from "./project.mjs";

let project;
before(async () => {
  project = await makeProject();
});
after(() => project.remove());

test("it holds one wasm, the modules of each entry with their types, a README, a skill and both licences", async () => {
  const files = project.packed.files.map(({ path }) => path).sort();
  const others = files.filter((path) => !path.endsWith(".d.ts"));
  const texts = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md", "package.json", "cjs/package.json", "skills/escale/SKILL.md"];
  assert.deepEqual(others, [...texts, WASM.file, ...modules()].sort());
  const typed = [MAIN, ...ENTRIES].flatMap(({ name }) => [`${name}.d.ts`, `cjs/${name}.d.ts`]);
  assert.deepEqual(typed.filter((name) => !files.includes(name)), []);
  const { size, unpackedSize } = project.packed;
  console.log(`# ${files.length} files, ${size} bytes packed, ${unpackedSize} bytes unpacked`);
});

test("its types import no file that it lacks", async () => {
  const files = project.packed.files.map(({ path }) => path);
  const missing = [];
  for (const file of files.filter((path) => path.endsWith(".d.ts"))) {
    const types = await readFile(join(ROOT, "pkg", file), "utf8");
    for (const [, path] of types.matchAll(/(?:from|import\() ?"(\.[^"]+)"/g)) {
      const imported = posix.join(posix.dirname(file), path.replace(/\.js$/, ".d.ts"));
      if (!files.includes(imported)) missing.push(`${file}: ${path}`);
    }
  }
  assert.deepEqual(missing, []);
});

test("what a page loads of it stays within its budget", async () => {
  // Bytes with gzip, as the server of a page sends them (docs/performance.md).
  const sizes = [MAIN, ...ENTRIES, ...INNER].map(({ name, bytes }) => [`${name}.js`, bytes]);
  const budget = { [WASM.file]: WASM.bytes, ...Object.fromEntries(sizes) };
  const pkg = join(ROOT, "pkg");
  const names = (await readdir(pkg)).filter((name) => /\.(js|wasm)$/.test(name) && name !== SCHEMA_COMMAND);
  assert.deepEqual(names.sort(), Object.keys(budget).sort());
  for (const [name, most] of Object.entries(budget)) {
    const bytes = gzipSync(await readFile(join(pkg, name)), { level: 9 }).length;
    console.log(`# ${name}: ${bytes} bytes`);
    assert.ok(bytes <= most, `${name}: ${bytes} bytes, ${most} at most`);
  }
});

test("no file of it, nor the wasm, tells where it was built", async () => {
  const pkg = join(ROOT, "pkg");
  const homes = ["root", "home", "Users"].map((folder) => `/${folder}/`);
  const places = [homedir(), ...homes, ".cargo/registry", ROOT].filter((place) => place.length > 1);
  const names = (await readdir(pkg, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  assert.ok(names.some(({ name }) => name.endsWith(".wasm")));
  const told = [];
  for (const { parentPath, name } of names) {
    const bytes = await readFile(join(parentPath, name));
    for (const place of places) if (bytes.includes(place)) told.push(`${name}: ${place}`);
  }
  assert.deepEqual(told, []);
});

test("a panic of the wasm is a trap: no place in the source is in it", async () => {
  const wasm = await readFile(join(ROOT, "pkg", WASM.file), "latin1");
  assert.deepEqual(wasm.match(/[\w/.-]+\.rs\b/g), null);
});

test("its manifest says what it is", async () => {
  const manifest = JSON.parse(await readFile(join(ROOT, "pkg/package.json"), "utf8"));
  const cargo = await readFile(join(ROOT, "Cargo.toml"), "utf8");
  assert.equal(manifest.version, /^version = "(.*)"$/m.exec(cargo)[1]);
  assert.deepEqual(
    [manifest.name, manifest.license, manifest.sideEffects, manifest.type, manifest.dependencies],
    ["escale", "MIT OR Apache-2.0", ["./inline.js", "./bundled.js", "./edge.js"], "module", undefined],
  );
});

test("it exports the API, and one name without a type for its own entries", async () => {
  const api = ["EscaleError", "defineOperations", "defineSchema", "init", "newId", "open", "wipe"];
  for (const form of ["index.js", "bundled.js", "cjs/index.js"]) {
    const exported = Object.keys(await import(join(ROOT, "pkg", form))).filter((name) => !["default", "module.exports"].includes(name));
    assert.deepEqual(exported.sort(), [...api, "internal"].sort(), form);
  }
  const types = await readFile(join(ROOT, "pkg/index.d.ts"), "utf8");
  assert.ok(api.every((name) => new RegExp(`export \\{[^}]*\\b${name}\\b`).test(types)));
  assert.doesNotMatch(types, /\binternal\b/);
});

test("nothing else was installed with it", async () => {
  const installed = await readdir(join(project.folder, "node_modules"));
  assert.deepEqual(installed.filter((name) => !name.startsWith(".")), ["escale"]);
});

test("a plain Node script opens a session and prints documents", async () => {
  assert.deepEqual(JSON.parse(await runCommand(project.folder, process.execPath, "node.js")), SHOWN);
});

test("importing it does nothing: no wasm, no timer, no global, nothing printed", async () => {
  const script = `
    const globals = Object.getOwnPropertyNames(globalThis).length;
    WebAssembly.Module = WebAssembly.compile = WebAssembly.instantiate = () => { throw new Error("wasm was touched"); };
    globalThis.fetch = () => { throw new Error("the network was touched"); };
    await import("escale");
    if (Object.getOwnPropertyNames(globalThis).length !== globals) throw new Error("a global was made");
    if (process.getActiveResourcesInfo().some((name) => /Timeout|TCP/.test(name))) throw new Error("a timer was started");
  `;
  await writeFile(join(project.folder, "import.js"), script);
  assert.equal(await runCommand(project.folder, process.execPath, "import.js"), "");
});

test("the wasm can be given as bytes, from the path that the package exports", async () => {
  const script = `
    import { readFile } from "node:fs/promises";
    import { init } from "escale";
    await init(await readFile(new URL(import.meta.resolve("escale/escale.wasm"))));
    await init();
    console.log("started");
  `;
  await writeFile(join(project.folder, "init.js"), script);
  assert.equal(await runCommand(project.folder, process.execPath, "init.js"), "started\n");
});

test("without a WebSocket a session is live, says that it polls, and pulls", async () => {
  const script = `
    import { createServer } from "node:http";
    import { defineSchema, open } from "escale";
    delete globalThis.WebSocket;
    let now = 1_700_000_000_000;
    const asked = [];
    const server = createServer(async (request, response) => {
      let body = "";
      for await (const piece of request) body += piece;
      const { subs } = JSON.parse(body);
      const parts = subs.map(([def]) => ({ def, present: [] }));
      asked.push(subs);
      now += 1_000;
      response.setHeader("Content-Type", "application/json");
      response.end(JSON.stringify({ p: 1, epoch: [1_600_000_000_000, "e"], now, delta: 500, seq: 0, results: [], parts }));
    });
    await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
    const url = "http://127.0.0.1:" + server.address().port;
    const schema = defineSchema({ Package: { key: ["name"] } });
    const options = { org: "demo", schema, server: url, mode: "incognito", format: "json", pollEveryMs: 1_000 };
    const session = await open(options);
    await session.collection("Package", {}).whenReady();
    const { phase, updates, error } = session.status;
    console.log(JSON.stringify({ phase, updates, error }));
    await new Promise((pulled) => server.on("request", (request, response) => response.on("finish", pulled)));
    console.log(JSON.stringify(asked));
    await session.close();
    server.close();
    server.closeAllConnections();
  `;
  await writeFile(join(project.folder, "polls.js"), script);
  const said = await runCommand(project.folder, process.execPath, "polls.js");
  // The second pull asks for the changes since the first one, up to which this server's answer is certain.
  const asked = '[[["Package",0]],[["Package",1700000000500]]]';
  assert.deepEqual(said.trim().split("\n"), ['{"phase":"live","updates":"polled","error":null}', asked]);
});

test("a session that is closed during a request leaves no timer, which would keep Node from ending", async () => {
  const script = `
    import { createServer } from "node:http";
    import { defineSchema, open } from "escale";
    let arrived;
    const asked = new Promise((resolve) => (arrived = resolve));
    const server = createServer(() => arrived());
    await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
    const url = "http://127.0.0.1:" + server.address().port;
    const schema = defineSchema({ Package: { key: ["name"] } });
    const session = await open({ org: "demo", schema, server: url, mode: "incognito" });
    session.collection("Package", {}, { keep: "forever" });
    await asked;
    await session.close();
    console.log(process.getActiveResourcesInfo().filter((name) => name === "Timeout").length);
    process.exit();
  `;
  await writeFile(join(project.folder, "closes.js"), script);
  assert.equal(await runCommand(project.folder, process.execPath, "closes.js"), "0\n");
});

test("its types serve a project of strict TypeScript", async () => {
  const source = `
    import { defineSchema, open, type Document } from "escale";
    const schema = defineSchema({ Package: { key: ["name"], indexes: { size: "integer" }, required: ["size"] } });
    export async function names(): Promise<string[]> {
      const session = await open({ org: "demo", schema, server: "http://localhost:7700", passphrase: "x" });
      const docs: readonly Document<typeof schema, "Package">[] = session.collection("Package", {}).docs;
      return docs.filter(({ size }) => size > 5).map(({ name }) => name);
    }
  `;
  await writeFile(join(project.folder, "typed.ts"), source);
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  for (const [module, resolution] of [["nodenext", "nodenext"], ["esnext", "bundler"]]) {
    const flags = ["--noEmit", "--strict", "--target", "es2022", "--module", module, "--moduleResolution", resolution];
    await runCommand(project.folder, process.execPath, tsc, ...flags, "typed.ts");
  }
});
