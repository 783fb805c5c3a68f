// Bundles the modules of js/dist and the glue of the wasm: one small file for each entry of the package. Source maps are
// for debuggers alone. A page then requests two files, with less than half the bytes of the separate modules.
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { deflateRawSync } from "node:zlib";

import { rolldown } from "rolldown";

import { ENTRIES, INNER, MAIN, modules, REQUIRED, SCHEMA_COMMAND, SHARED, WASM } from "./entries.mjs";

const { version } = JSON.parse(await readFile("pkg/package.json", "utf8"));

/** The files of the package that its modules import and never contain. */
const FILES = [...[MAIN, ...ENTRIES, ...INNER].map(({ name }) => `${name}\\.js`), `${WASM.file}\\?module`, SCHEMA_COMMAND];

/**
 * The bundle of an entry: its code, and its source map. It may import modules of Node, and packages of the application
 * that are its `peer`. It imports the other files of the package.
 */
async function bundle({ name, peer = {}, whole = false }, output, define = {}) {
  const files = FILES.filter((file) => file !== `${name}\\.js`).map((file) => new RegExp(`^\\.\\.?/${file}$`));
  const external = [/^node:/, ...Object.keys(peer), ...files];
  const made = await rolldown({ input: `js/dist/${name}.js`, external, transform: { define: { __ESCALE_VERSION__: JSON.stringify(version), ...define } } });
  const { output: written } = await made.generate({ file: `pkg/${name}.js`, minify: true, comments: !whole, ...output });
  await made.close();
  const [chunk, ...others] = written;
  if (others.some(({ type }) => type === "chunk")) throw new Error(`${name} is more than one file`);
  return { code: chunk.code.replace(/\n?\/\/# sourceMappingURL=.*\n?$/, ""), map: chunk.map?.toString() };
}

/** Writes the module of an entry. */
async function write(entry, edit = (code) => code) {
  const { name } = entry;
  const { code, map } = await bundle(entry, { format: "es", sourcemap: true });
  await writeFile(`pkg/${name}.js`, `${edit(code)}\n//# sourceMappingURL=${name}.js.map\n`);
  await writeFile(`pkg/${name}.js.map`, map);
}

/** Writes a module that holds too little code for a source map. */
async function writeInner(name, edit = (code) => code) {
  const { code } = await bundle({ name }, { format: "es" });
  await writeFile(`pkg/${name}.js`, edit(code));
}

/** Writes an entry for `require`, in a folder whose files are CommonJS. The wasm is in the folder above. */
async function writeCommon(entry) {
  const { name } = entry;
  const { code } = await bundle(entry, { format: "cjs" }, { "import.meta.url": "here" });
  const here = code.includes("here") ? 'const here=require("node:url").pathToFileURL(__dirname);' : "";
  await writeFile(`pkg/cjs/${name}.js`, here + code);
}

/** Replaces the only place of a text. */
function replace(code, from, to) {
  if (code.split(from).length !== 2) throw new Error(`not once: ${from}`);
  return code.replace(from, () => to);
}

// An earlier build may have left entries that are none any more.
const names = modules();
const left = (await readdir("pkg")).filter((file) => /\.js(\.map)?$/.test(file) && !names.includes(file));
await Promise.all(left.map((file) => rm(`pkg/${file}`)));
await mkdir("pkg/cjs", { recursive: true });

const packed = deflateRawSync(await readFile(`pkg/${WASM.file}`), { level: 9, memLevel: 9 }).toString("base64");
await writeFile("js/dist/packed.js", `export const packed = "${packed}";\n`);

// Applications' bundlers find other files by these expressions, some only if the text is in quotes.
await write(MAIN, (code) => replace(code, "new URL(`./escale_bg.wasm`,import.meta.url)", 'new URL("./escale_bg.wasm",import.meta.url)'));
for (const entry of ENTRIES) await write(entry);
await writeInner(SHARED.name);
await writeInner("carried");
await writeInner("edge");
await writeInner("bundled", (code) => replace(code, "import(`./carried.js`)", 'import("./carried.js")'));

// A program that requires the package can read files: there, nothing is inline.
for (const entry of REQUIRED) {
  if (entry.acts) await writeFile(`pkg/cjs/${entry.name}.js`, 'module.exports = require("./index.js");\n');
  else await writeCommon(entry);
}
