// The entries of the package. Each is one module of js/src, bundled into one file, with the bytes that it may have with
// gzip. They may fall. An increase is a decision (docs/performance.md).

/** The entry that all others import, and never contain. */
export const MAIN = { name: "index", bytes: 23_000 };

/** The others, imported as `escale/<name>`. Those with a `peer` import that package of the application. */
export const ENTRIES = [
  { name: "rehearsal", bytes: 1_700 },
  { name: "react", bytes: 2_048, peer: { react: ">=18" } },
  { name: "vue", bytes: 2_048, peer: { vue: ">=3.3" } },
  { name: "svelte", bytes: 2_048 },
  { name: "solid", bytes: 2_048, peer: { "solid-js": ">=1.6" } },
  { name: "offline", bytes: 3_000 },
  { name: "offline-worker", bytes: 3_000 },
  { name: "offline-build", bytes: 3_000 },
  { name: "vite", bytes: 3_000 },
  { name: "testing", bytes: 12_000 },
  // A command, which no code imports.
  { name: "cli", bytes: 3_000, bin: "escale" },
];

/** The wasm. */
export const WASM = { file: "escale_bg.wasm", bytes: 398_800 };
