// Values of documents and arguments: strings, finite numbers, booleans, null, bytes (Uint8Array), lists, and maps.
import { badValue } from "./fault.mjs";

export const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !ArrayBuffer.isView(value);
export const own = (map, key) => (Object.hasOwn(map, key) ? map[key] : undefined);
export const isString = (value) => typeof value === "string";
export const isStrings = (value) => Array.isArray(value) && value.every(isString);

/** How many maps and lists are in each other, the outermost included. */
export const depthOf = (value) =>
  typeof value !== "object" || value === null || ArrayBuffer.isView(value)
    ? 0
    : Object.values(value).reduce((most, inner) => Math.max(most, 1 + depthOf(inner)), 1);

/** Whether two values are equal. The order of keys does not count, and 1 and 1.0 are one number. */
export function same(a, b) {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null || isMap(a) !== isMap(b)) return false;
  if (ArrayBuffer.isView(a) !== ArrayBuffer.isView(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
}

/** A copy that shares nothing with the value. Properties that are undefined are left out. */
export function copyOf(value) {
  if (typeof value !== "object" || value === null) return value;
  if (ArrayBuffer.isView(value)) return Uint8Array.from(value);
  if (Array.isArray(value)) return value.map(copyOf);
  const prototype = Object.getPrototypeOf(value);
  // Another realm has another `Object.prototype`, which has no prototype either.
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) throw badValue("an object that is no plain map");
  return Object.fromEntries(Object.entries(value).filter(([, held]) => held !== undefined).map(([key, held]) => [key, copyOf(held)]));
}

/** The UTF-8 bytes of a text, counted. */
function lengthOf(text) {
  let length = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x7f) length += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1;
  }
  return length;
}

/** The bytes in front of a text, of bytes, or of a list or map, by how many fit into each form. */
const head = (length, short, middle) => (length <= short ? 1 : length <= 0xff && middle ? 2 : length <= 0xffff ? 3 : 5);

/** The length of a value's shortest msgpack, in bytes. Refuses a value that no document can hold. */
export function sizeOf(value) {
  if (value === null || typeof value === "boolean") return 1;
  if (typeof value === "number" && Number.isSafeInteger(value)) {
    if (value >= -32 && value < 128) return 1;
    const size = value < 0 ? -value - 1 : value / 2;
    return size < 0x80 ? 2 : size < 0x8000 ? 3 : size < 0x80000000 ? 5 : 9;
  }
  if (typeof value === "number" && Number.isFinite(value)) return 9;
  if (isString(value)) return head(lengthOf(value), 31, true) + lengthOf(value);
  if (value instanceof Uint8Array) return head(value.length, -1, true) + value.length;
  if (Array.isArray(value)) return value.reduce((sum, item) => sum + sizeOf(item), head(value.length, 15, false));
  if (!isMap(value)) throw badValue("a value that no document can hold");
  const entries = Object.entries(value).filter(([, held]) => held !== undefined);
  return entries.reduce((sum, [key, held]) => sum + sizeOf(key) + sizeOf(held), head(entries.length, 15, false));
}
