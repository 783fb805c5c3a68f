/**
 * Encodes values of the application as JSON for the core, and refuses those that cannot be sent. `raw.ts` decodes.
 */

import { encodeBase64Url } from "../base/base64.js";
import { isBytes } from "../base/bytes.js";
import { raise, type EscaleError } from "../base/errors.js";
import { checkUnicode } from "../base/unicode.js";
import { isMap, type Raw } from "./raw.js";

/**
 * Depth of the values of a map: arguments nest 32 deep (`src/limits.rs`), of which a batch takes five. So the same value
 * passes at each door.
 */
const DEPTH_MAX = 27;
const LOOKS_ESCAPED = /^\$+bytes$/;

/**
 * Encodes a map of the application as JSON can hold it. Bytes become `{"$bytes": base64url}`; keys that look like
 * `$bytes` are escaped. Undefined properties are left out. `place` names the map in error messages.
 */
export function encodeMap(map: object, place: string): Raw {
  return encodeEntries(map, place, DEPTH_MAX, (name) => `${place}.${name}`);
}

function encode(value: unknown, place: string, depth: number): unknown {
  switch (typeof value) {
    case "string":
      return checkUnicode(value, place);
    case "boolean":
      return value;
    case "number":
      if (Number.isFinite(value)) return value;
      throw bad(place, "a number that is not finite");
    case "object":
      break;
    default:
      throw bad(place, `a value of type ${typeof value}`);
  }
  if (value === null) return null;
  if (isBytes(value)) return { $bytes: encodeBase64Url(value) };
  if (depth === 0) throw raise("too_deep", `${place} holds values nested deeper than ${DEPTH_MAX}, or a cycle`);
  // Names further down are data of the application and must not appear in errors: the place stays the property's.
  if (Array.isArray(value)) return Array.from(value as unknown[], (item) => encode(item, place, depth - 1));
  return encodeEntries(value, place, depth - 1, () => place);
}

function encodeEntries(map: object, place: string, depth: number, placeOf: (name: string) => string): Raw {
  // The one mistake that nearly everybody makes has its own cure.
  if (map instanceof Date) throw bad(place, "a Date: store its toISOString(), or its getTime()");
  if (!isPlain(map)) throw bad(place, "an object that is no plain map");
  const encoded: Raw = {};
  for (const [name, value] of Object.entries(map)) {
    if (value === undefined) continue;
    checkUnicode(name, place);
    // Defined, not assigned: a key may be `__proto__`.
    Object.defineProperty(encoded, LOOKS_ESCAPED.test(name) ? `$${name}` : name, {
      value: encode(value, placeOf(name), depth),
      enumerable: true,
      writable: true,
      configurable: true,
    });
  }
  return encoded;
}

/**
 * Whether a value is a map as a literal or `JSON.parse` makes it. A date, `Map` or class instance would lose its nature
 * when encoded.
 */
function isPlain(value: object): boolean {
  if (!isMap(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  // Another realm (a frame, a test's context) has another `Object.prototype`, which has no prototype either.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

function bad(place: string, what: string): EscaleError {
  return raise("bad_value", `${place} holds ${what}`);
}
