import type { Storage } from "./index.js";

/** The cases that a storage has to pass, by their names. Each takes an empty storage, and rejects if it fails. */
export declare const CASES: { readonly [name: string]: (storage: Storage) => Promise<void> };
