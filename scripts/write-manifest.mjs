// Writes pkg/package.json; version, description and licence are those of Cargo.toml.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

import { ENTRIES, INNER, MAIN, modules, TYPESCRIPT, WASM } from "./entries.mjs";

const metadata = JSON.parse(
  execFileSync("cargo", ["metadata", "--no-deps", "--format-version", "1"], { encoding: "utf8" }),
);
const crate = metadata.packages.find((candidate) => candidate.name === "escale");

/** A module with its types. `form` is the file if it is another one than the entry's. */
const module = ({ name }, form = name) => ({ types: `./${name}.d.ts`, default: `./${form}.js` });
const common = ({ name }) => ({ types: `./cjs/${name}.d.ts`, default: `./cjs/${name}.js` });
/** TypeScript that is too old for the types would take them, and infer wrong ones in silence. */
const tooOld = { [`types@<${TYPESCRIPT}`]: "./too-old.d.ts" };

/**
 * An entry. Node can require its module (`module-sync`), as bundlers can (`module`); Jest needs CommonJS. The first
 * condition that a tool knows decides.
 */
const entry = (other) => ({
  ...tooOld,
  ...(!other.esm && { module: module(other), "module-sync": module(other), require: common(other) }),
  default: module(other),
});

const peers = Object.assign({}, ...ENTRIES.map(({ peer }) => peer));

/** The main entry: how a tool deals with the wasm, by the conditions that it is known by (docs/bundlers.md). */
const main = {
  ...tooOld,
  // Servers at the edge: Vercel's and Next's, Cloudflare's.
  "edge-light": module(MAIN, "edge"),
  workerd: module(MAIN, "edge"),
  // Angular.
  es2020: module(MAIN, "bundled"),
  browser: {
    // Vite, webpack, rspack and Parcel copy the file.
    production: module(MAIN),
    // Vite up to 7 does not while it serves the sources.
    development: module(MAIN, "bundled"),
    // esbuild.
    module: module(MAIN, "bundled"),
    require: common(MAIN),
    default: module(MAIN),
  },
  // Rollup, and bundlers of code for servers.
  module: module(MAIN, "bundled"),
  "module-sync": module(MAIN),
  require: common(MAIN),
  default: module(MAIN),
};

const manifest = {
  name: "escale",
  version: crate.version,
  description: crate.description,
  keywords: ["offline-first", "sync", "encryption", "indexeddb", "wasm"],
  license: crate.license,
  type: "module",
  sideEffects: [...ENTRIES, ...INNER].filter(({ acts }) => acts).map(({ name }) => `./${name}.js`),
  main: "./index.js",
  types: "./index.d.ts",
  typesVersions: { [`<${TYPESCRIPT}`]: { "*": ["too-old.d.ts"] } },
  exports: {
    ".": main,
    ...Object.fromEntries(ENTRIES.filter(({ bin }) => !bin).map((other) => [`./${other.name}`, entry(other)])),
    "./escale.wasm": { types: "./escale.wasm.d.ts", default: `./${WASM.file}` },
    "./package.json": "./package.json",
  },
  bin: Object.fromEntries(ENTRIES.filter(({ bin }) => bin).map(({ name, bin }) => [bin, `${name}.js`])),
  files: [...modules(), "**/*.d.ts", "cjs/package.json", WASM.file, "LICENSE-*", "CHANGELOG.md", "skills"],
  engines: { node: ">=20" },
  peerDependencies: peers,
  // An application installs the framework that it uses.
  peerDependenciesMeta: Object.fromEntries(Object.keys(peers).map((name) => [name, { optional: true }])),
};

writeFileSync("pkg/package.json", `${JSON.stringify(manifest, null, 2)}\n`);
// The folder for `require`, and its types.
writeFileSync("pkg/cjs/package.json", '{ "type": "commonjs" }\n');
