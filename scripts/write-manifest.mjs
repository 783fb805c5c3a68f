// Writes pkg/package.json; version, description and licence are those of Cargo.toml.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

import { ENTRIES, MAIN, WASM } from "./entries.mjs";

const metadata = JSON.parse(
  execFileSync("cargo", ["metadata", "--no-deps", "--format-version", "1"], { encoding: "utf8" }),
);
const crate = metadata.packages.find((candidate) => candidate.name === "escale");

const entry = ({ name }) => ({ types: `./${name}.d.ts`, import: `./${name}.js` });
const code = [MAIN, ...ENTRIES].flatMap(({ name }) => [`${name}.js`, `${name}.js.map`]);

const peers = Object.assign({}, ...ENTRIES.map(({ peer }) => peer));

const manifest = {
  name: "escale",
  version: crate.version,
  description: crate.description,
  keywords: ["offline-first", "sync", "encryption", "indexeddb", "wasm"],
  license: crate.license,
  type: "module",
  sideEffects: false,
  main: "./index.js",
  types: "./index.d.ts",
  exports: {
    ".": entry(MAIN),
    ...Object.fromEntries(ENTRIES.filter(({ bin }) => !bin).map((other) => [`./${other.name}`, entry(other)])),
    "./escale.wasm": `./${WASM.file}`,
    "./package.json": "./package.json",
  },
  bin: Object.fromEntries(ENTRIES.filter(({ bin }) => bin).map(({ name, bin }) => [bin, `${name}.js`])),
  files: [...code, "*.d.ts", "*/*.d.ts", WASM.file, "LICENSE-*", "CHANGELOG.md"],
  engines: { node: ">=20" },
  peerDependencies: peers,
  // An application installs the framework that it uses.
  peerDependenciesMeta: Object.fromEntries(Object.keys(peers).map((name) => [name, { optional: true }])),
};

writeFileSync("pkg/package.json", `${JSON.stringify(manifest, null, 2)}\n`);
