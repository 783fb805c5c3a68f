/** Defs as the core writes them: the class, and after it the key or the match. And the match of a parent's items. */

import type { ClassDeclaration } from "../schema/schema-types.js";

/** The class of a def. */
export function classOf(def: string): string {
  // Vite 5 takes the slash in `/^[^/@]*/` for the end of the expression, and then overlooks the address of the wasm.
  return def.split(/[/@]/, 1)[0] ?? "";
}

/** The match of the items of a parent: their key begins with its key. */
export function itemsMatch(items: ClassDeclaration, key: readonly string[]): { [name: string]: string } {
  return Object.fromEntries(key.map((value, at) => [items.key[at] ?? "", value]));
}
