// Reads the core's wasm with its names, as wasm-bindgen leaves it. Prints its code by crate, by generic function and by
// function, in bytes before `wasm-opt` and gzip: `node scripts/size.mjs [ROWS] [FILE]`. If pkg/ is built, the last line is
// the package as users load it, compressed.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { CODE, functionsOf, IMPORTS, importsOf, isOfNames, Reader, sectionsOf } from "./wasm.mjs";

const TARGET = process.env.CARGO_TARGET_DIR ?? "target";
const [ROWS = "25", FILE = join(TARGET, "wasm-bindgen/escale_bg.wasm")] = process.argv.slice(2);

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
  for (const [key, { bytes, count }] of rows) console.log(`${String(bytes).padStart(8)}  ${String(count).padStart(9)}  ${key.slice(0, 150)}`);
}

const sections = sectionsOf(readFileSync(FILE));
const bodyOf = (wanted) => sections.find(({ id }) => id === wanted).body;
const named = sections.find(isOfNames);
if (!named) throw new Error(`${FILE} has no names: give the file that the compiler wrote`);
const names = namesOf(named.body);
const imported = importsOf(bodyOf(IMPORTS)).length;
const functions = functionsOf(bodyOf(CODE)).map(({ length }, i) => ({ name: plain(names.get(imported + i) ?? "?"), bytes: length }));

console.log(`${functions.reduce((sum, { bytes }) => sum + bytes, 0)} bytes of code in ${functions.length} functions`);
table("By crate, and by folder of ours", functions, crateOf);
table("By generic function, all its copies together", functions, withoutGenerics);
table("By function", functions, (name) => name);

const WASM = "pkg/escale_bg.wasm";
if (existsSync(WASM)) {
  const gzip = (file) => gzipSync(readFileSync(file), { level: 9 }).length;
  const scripts = readdirSync("pkg").filter((file) => file.endsWith(".js")).map((file) => gzip(join("pkg", file)));
  console.log(`\npkg/: ${gzip(WASM)} bytes of wasm with gzip, ${scripts.reduce((sum, bytes) => sum + bytes, 0)} of JavaScript, file by file`);
}
