// The type of the glue that wasm-bindgen writes next to the compiled files of this folder; core.ts declares its shape.
import type { Glue } from "./wasm/core.js";

/** Makes the glue for a new instance of the wasm. */
export function makeGlue(): Glue;
