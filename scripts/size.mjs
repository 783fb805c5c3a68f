// Reads the core's wasm with its names, as wasm-bindgen leaves it. Prints its code by crate, by generic function and by
// function, in bytes before `wasm-opt` and gzip: `node scripts/size.mjs [ROWS] [FILE]`. If pkg/ is built, the last line is
// the package as users load it, compressed.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const TARGET = process.env.CARGO_TARGET_DIR ?? "target";
const [ROWS = "25", FILE = join(TARGET, "wasm-bindgen/escale_bg.wasm")] = process.argv.slice(2);

/** Reads little-endian base-128 numbers and the bytes between them. */
class Reader {
  constructor(bytes) {
    [this.bytes, this.at] = [bytes, 0];
  }
  get isDone() {
    return this.at >= this.bytes.length;
  }
  number() {
    for (let value = 0, scale = 1; ; scale *= 128) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }
  take(length) {
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }
  text() {
    return new TextDecoder().decode(this.take(this.number()));
  }
}

const [CUSTOM, IMPORTS, CODE] = [0, 2, 10];

/** The sections of a wasm: `{ id, body }`. */
function sectionsOf(wasm) {
  const reader = new Reader(wasm.subarray(8));
  const sections = [];
  while (!reader.isDone) {
    const [id] = reader.take(1);
    sections.push({ id, body: new Reader(reader.take(reader.number())) });
  }
  return sections;
}

/** The number of imported functions: they are numbered first. */
function importedFunctions(body) {
  let functions = 0;
  for (let left = body.number(); left > 0; left--) {
    body.text();
    body.text();
    const [kind] = body.take(1);
    if (kind === 0) {
      body.number();
      functions++;
    } else if (kind === 3) {
      body.take(2);
    } else {
      if (kind === 1) body.take(1);
      if (body.number() & 1) body.number();
      body.number();
    }
  }
  return functions;
}

/** The bytes of each function, in order. */
function sizesOf(body) {
  return Array.from({ length: body.number() }, () => {
    const length = body.number();
    body.take(length);
    return length;
  });
}

/** The names of functions by number, from the section `name`. */
function namesOf(body) {
  const names = new Map();
  while (!body.isDone) {
    const [kind] = body.take(1);
    const part = new Reader(body.take(body.number()));
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
const imported = sections.filter(({ id }) => id === IMPORTS).reduce((sum, { body }) => sum + importedFunctions(body), 0);
const names = sections.filter(({ id }) => id === CUSTOM).flatMap(({ body }) => (body.text() === "name" ? [namesOf(body)] : []))[0];
if (!names) throw new Error(`${FILE} has no names: give the file that the compiler wrote`);
const sizes = sections.filter(({ id }) => id === CODE).flatMap(({ body }) => sizesOf(body));
const functions = sizes.map((bytes, i) => ({ name: plain(names.get(imported + i) ?? "?"), bytes }));

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
