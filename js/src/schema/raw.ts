/** Values of documents: their type, and their decoding from the core's JSON. `encode.ts` encodes. */

import { decodeBase64Url } from "../base/base64.js";

/** A value that a property of a document can hold. */
export type Value =
  | string
  | number
  | boolean
  | null
  | Uint8Array
  | readonly Value[]
  | { readonly [key: string]: Value };

/** A map as `JSON.parse` gives it. */
export type Raw = Record<string, unknown>;

const ESCAPED = /^\$\$+bytes$/;

/** Whether a JSON text may hold bytes or escaped keys. Most texts hold none, and need no walk. */
export function needsReviving(text: string): boolean {
  return text.includes('$bytes"');
}

/** Decodes a value: `{"$bytes": base64url}` becomes bytes, and the escaped key `$$bytes` becomes `$bytes`. */
export function revive(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(revive);
  if (!isMap(value)) return value;
  return typeof value["$bytes"] === "string" ? decodeBase64Url(value["$bytes"]) : reviveMap(value);
}

/** Decodes a document's data, which is a map and never bytes. */
export function reviveMap(map: Raw): Raw {
  const revived: Raw = {};
  for (const [key, held] of Object.entries(map)) {
    revived[ESCAPED.test(key) ? key.slice(1) : key] = revive(held);
  }
  return revived;
}

/** Freezes a value and everything in it except bytes: a typed array with elements cannot be frozen. */
export function freezeDeep<T>(value: T): T {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return value;
  // The maps of a document's data inherit no enumerable properties, and most hold no object.
  for (const name in value) {
    const held = value[name];
    if (typeof held === "object" && held !== null) freezeDeep(held);
  }
  return Object.freeze(value);
}

/** Whether a value is a plain map, as `data` must be. */
export function isMap(value: unknown): value is Raw {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);
}
