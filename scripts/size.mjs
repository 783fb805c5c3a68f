// Reads the core's wasm with its names, as wasm-bindgen leaves it. Prints its code by crate, by generic function and by
// function, in bytes before `wasm-opt` and gzip: `node scripts/size.mjs [ROWS] [FILE]`. If pkg/ is built, it then prints
// the share of each in the compressed wasm of the package, and the bytes of the package.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { bitsOf } from "./wasm/gzip-cost.mjs";
import { CODE, functionsOf, IMPORTS, importsOf, isOfNames, Reader, sectionsOf } from "./wasm/format.mjs";

const TARGET = process.env.CARGO_TARGET_DIR ?? "target";
const FOLDER = join(TARGET, "wasm-bindgen");
const [ROWS = "25", FILE = join(FOLDER, "escale_bg.wasm")] = process.argv.slice(2);

/** The names of functions by number, from the section `name`. */
function namesOf(body) {
  const [reader, names] = [new Reader(body), new Map()];
  reader.text();
  while (!reader.isDone) {
    const [kind] = reader.take(1);
    const part = new Reader(reader.take(reader.number()));
    if (kind !== 1) continue;
    for (let left = part.number(); left > 0; left--) names.set(part.number(), part.text());
  }
  return names;
}

/** A name without the hash at its end. */
const plain = (name) => name.replace(/::h[0-9a-f]{16}$/, "").replace(/\.llvm\.\d+$/, "");

/** A name without the text between angle brackets, except for a type and the trait that it implements. */
function withoutGenerics(name) {
  let [depth, out] = [0, ""];
  const open = /^<(.+?)(?: as (.+?))?>::(\w+)$/.exec(name);
  const text = open && !open[1].includes("<") && !open[2]?.includes("<") ? `{${open[1]}${open[2] ? ` as ${open[2]}` : ""}}::${open[3]}` : name;
  for (const [i, letter] of [...text].entries()) {
    if (letter === "<") depth++;
    else if (letter === ">" && text[i - 1] !== "-") depth--;
    else if (depth === 0) out += letter;
  }
  return out.replace(/::::/g, "::").replace(/^::/, "<..>::");
}

/** The crate of a function; for this project's crate, the folder as well. */
function crateOf(name) {
  const path = name.replace(/^[<&([*]*(?:dyn |mut |impl )*/, "");
  const [crate = "?", folder] = path.split("::");
  return crate === "escale" && folder ? `escale::${folder.replace(/\W.*$/, "")}` : crate.replace(/\W.*$/, "") || "?";
}

function table(title, functions, keyOf) {
  const sums = new Map();
  for (const { name, bytes } of functions) {
    const sum = sums.get(keyOf(name)) ?? { bytes: 0, count: 0 };
    sums.set(keyOf(name), { bytes: sum.bytes + bytes, count: sum.count + 1 });
  }
  const rows = [...sums].sort(([, a], [, b]) => b.bytes - a.bytes).slice(0, Number(ROWS));
  console.log(`\n${title}\n   bytes  functions`);
  for (const [key, { bytes, count }] of rows) console.log(`${String(Math.round(bytes)).padStart(8)}  ${String(count).padStart(9)}  ${key.slice(0, 150)}`);
}

/** A wasm with names: its functions' code, in order, and the name of each. */
function read(file) {
  const sections = sectionsOf(readFileSync(file));
  const bodyOf = (wanted) => sections.find(({ id }) => id === wanted).body;
  const named = sections.find(isOfNames);
  if (!named) throw new Error(`${file} has no names: give the file that the compiler wrote`);
  const [names, imported] = [namesOf(named.body), importsOf(bodyOf(IMPORTS)).length];
  return functionsOf(bodyOf(CODE)).map((code, i) => ({ name: names.get(imported + i) ?? "?", code }));
}

/** The functions of the finished wasm, each with its share of the bytes with gzip. */
function finished(file) {
  const wasm = readFileSync(file);
  const costs = bitsOf(wasm);
  const [original, placed] = ["escale_opt.wasm", "escale_named.wasm"].map((name) => read(join(FOLDER, name)));
  const inOrder = placed.map(({ name }, i) => ({ place: name, name: plain(original[i].name) })).sort((a, b) => (a.place < b.place ? -1 : 1));
  return functionsOf(sectionsOf(wasm).find(({ id }) => id === CODE).body).map((code, i) => {
    const from = code.byteOffset - wasm.byteOffset;
    const bits = costs.subarray(from, from + code.length).reduce((sum, cost) => sum + cost, 0);
    return { name: inOrder[i].name, bytes: bits / 8 };
  });
}

const functions = read(FILE).map(({ name, code }) => ({ name: plain(name), bytes: code.length }));
console.log(`${functions.reduce((sum, { bytes }) => sum + bytes, 0)} bytes of code in ${functions.length} functions`);
table("By crate, and by folder of ours", functions, crateOf);
table("By generic function, all its copies together", functions, withoutGenerics);
table("By function", functions, (name) => name);

const WASM = "pkg/escale_bg.wasm";
if (existsSync(WASM)) {
  console.log("\nThe finished wasm, in bytes with gzip");
  const shares = finished(WASM);
  table("By crate, and by folder of ours", shares, crateOf);
  table("By function", shares, (name) => name);
  const gzip = (file) => gzipSync(readFileSync(file), { level: 9 }).length;
  const scripts = readdirSync("pkg").filter((file) => file.endsWith(".js")).map((file) => gzip(join("pkg", file)));
  console.log(`\npkg/: ${gzip(WASM)} bytes of wasm with gzip, ${scripts.reduce((sum, bytes) => sum + bytes, 0)} of JavaScript, file by file`);
}
