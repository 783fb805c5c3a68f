// The entries of the package. Each is one module of js/src, bundled into one file, with the bytes that it may have with
// gzip. They may fall. An increase is a decision (bench/results/history.md).

/** The entry that all others import, and never contain. */
export const MAIN = { name: "index", bytes: 27_648 };

/**
 * The others, imported as `escale/<name>`. Those with a `peer` import that package of the application. `acts` is for
 * those that do something when they are imported, `bin` for a command, and `esm` for those that nobody requires. Nobody
 * takes a part of those that are `whole`: they lack the annotations by which bundlers leave out unused parts.
 */
export const ENTRIES = [
  { name: "inline", bytes: 200, acts: true },
  { name: "rehearsal", bytes: 1_700 },
  { name: "advice", bytes: 4_350 },
  { name: "accounts", bytes: 6_150 },
  { name: "passkeys", bytes: 1_100 },
  { name: "values", bytes: 2_048 },
  { name: "files", bytes: 10_150, whole: true },
  { name: "devtools", bytes: 14_000 },
  { name: "react", bytes: 2_048, peer: { react: ">=18" } },
  { name: "vue", bytes: 2_048, peer: { vue: ">=3.3" } },
  { name: "svelte", bytes: 2_048 },
  { name: "solid", bytes: 2_048, peer: { "solid-js": ">=1.6" } },
  { name: "offline", bytes: 3_000 },
  { name: "offline-worker", bytes: 3_000, esm: true },
  { name: "offline-build", bytes: 3_000, esm: true },
  { name: "vite", bytes: 3_000, esm: true },
  { name: "testing", bytes: 20_200 },
  { name: "cli", bytes: 3_000, esm: true, bin: "escale" },
];

/** The part of the command that reads schemas: it opens a session, which the other parts need not load. */
export const SCHEMA_COMMAND = "schema-command.js";

/** The wasm. */
export const WASM = { file: "escale_bg.wasm", bytes: 426_000 };

/** The module that `accounts` and `files` share, and never contain. No application names it. */
export const SHARED = { name: "shared", bytes: 1_500 };

/** Modules that no application names: that one, the main entry as some tools need it, and the wasm as JavaScript for them. */
export const INNER = [
  SHARED,
  { name: "bundled", bytes: 200, acts: true },
  { name: "edge", bytes: 200, acts: true },
  { name: "carried", bytes: 428_700 },
];

/** The oldest TypeScript that infers the types of documents. An older one would infer wrong ones in silence. */
export const TYPESCRIPT = "5.3";

/** The entries that a program can require. */
export const REQUIRED = [MAIN, SHARED, ...ENTRIES.filter(({ esm }) => !esm)];

/** The files of all modules, and their source maps. */
export function modules() {
  const entries = [MAIN, ...ENTRIES].flatMap(({ name }) => [`${name}.js`, `${name}.js.map`]);
  return [...entries, SCHEMA_COMMAND, ...INNER.map(({ name }) => `${name}.js`), ...REQUIRED.map(({ name }) => `cjs/${name}.js`)];
}
