// The glue that wasm-bindgen writes beside the compiled files of this folder; its shape is the contract in core.ts.
import type { Glue } from "./core.js";

/** The glue for a new instance of the wasm. */
export function makeGlue(): Glue;
