// The type of the text that scripts/bundle.mjs makes of the wasm.

/** The wasm, compressed (raw deflate), in base64. */
export const packed: string;
