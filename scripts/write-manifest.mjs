// Writes pkg/package.json; version, description and licence are those of Cargo.toml.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";

const metadata = JSON.parse(
  execFileSync("cargo", ["metadata", "--no-deps", "--format-version", "1"], { encoding: "utf8" }),
);
const crate = metadata.packages.find((candidate) => candidate.name === "escale");

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
    ".": { types: "./index.d.ts", import: "./index.js" },
    "./rehearsal": { types: "./rehearsal.d.ts", import: "./rehearsal.js" },
    "./escale.wasm": "./escale_bg.wasm",
    "./package.json": "./package.json",
  },
  files: ["index.js", "index.js.map", "rehearsal.js", "rehearsal.js.map", "*.d.ts", "*/*.d.ts", "escale_bg.wasm", "LICENSE-*", "CHANGELOG.md"],
  engines: { node: ">=20" },
};

writeFileSync("pkg/package.json", `${JSON.stringify(manifest, null, 2)}\n`);
