/** Defs as the core writes them: the class, and after it the key or the match. */

/** The class of a def. */
export function classOf(def: string): string {
  // Vite 5 takes the slash in `/^[^/@]*/` for the end of the expression, and then overlooks the address of the wasm.
  return def.split(/[/@]/, 1)[0] ?? "";
}
