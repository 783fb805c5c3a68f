// The entries of the package. Each is one module of js/src, bundled into one file, with the bytes that it may have with
// gzip. They may fall. An increase is a decision (docs/performance.md).

/** The entry that all others import, and never contain. */
export const MAIN = { name: "index", bytes: 22_500 };

/** The others, imported as `escale/<name>`. */
export const ENTRIES = [{ name: "rehearsal", bytes: 1_700 }];

/** The wasm. */
export const WASM = { file: "escale_bg.wasm", bytes: 398_800 };
