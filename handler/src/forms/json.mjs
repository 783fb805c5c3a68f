// The JSON form of a message. `JSON.parse` hides two mistakes that a server has to refuse: a float for an integer, and a key
// that is there twice.
import { bytesOf, fromBase64Url, toBase64Url } from "../engine/hash.mjs";
import { isMap } from "../engine/values.mjs";
import { floats, place, textOf, Unreadable } from "./unreadable.mjs";

const ESCAPED = /^\$\$+bytes$/;

const refuse = () => {
  throw new Unreadable("it is no JSON");
};

/** A map as it is meant: bytes, or a map with a key `$bytes` of its own. */
function restored(map) {
  if (Object.hasOwn(map, "$bytes")) {
    const bytes = typeof map.$bytes === "string" && Object.keys(map).length === 1 && fromBase64Url(map.$bytes);
    return bytes || refuse();
  }
  if (!Object.keys(map).some((key) => ESCAPED.test(key))) return map;
  const result = {};
  for (const key of Object.keys(map)) place(result, ESCAPED.test(key) ? key.slice(1) : key, map[key], floats.get(map)?.has(key));
  return result;
}

/** Decodes the message of a stranger. */
export function decodeJson(bytes) {
  const source = textOf(bytes);
  const token = /\s*(?:([{}[\],:])|("[^"\\]*(?:\\.[^"\\]*)*")|(-?\d[-+.\deE]*)|(true|false|null))\s*/sy;
  const next = () => token.exec(source) ?? refuse();
  const scalar = (match) => {
    let result;
    try {
      result = JSON.parse(match[2] ?? match[3] ?? match[4]);
    } catch {
      refuse();
    }
    // No storage keeps half of a character.
    if (match[2] && /\\u[dD]/.test(match[2]) && /\p{Surrogate}/u.test(result)) refuse();
    return match[3] && !Number.isFinite(result) ? refuse() : result;
  };
  function value(match, depth) {
    if (match[1] !== "{" && match[1] !== "[") return match[1] ? refuse() : scalar(match);
    if (depth >= 40) throw new Unreadable("nested too deep", true);
    const [holder, end] = match[1] === "[" ? [[], "]"] : [{}, "}"];
    for (let inner = next(); inner[1] !== end; ) {
      let key = holder.length;
      if (end === "}") {
        if (!inner[2] || next()[1] !== ":") refuse();
        key = scalar(inner);
        inner = next();
      }
      place(holder, key, value(inner, depth + 1), inner[3] && /[.eE]/.test(inner[3]));
      inner = next();
      if (inner[1] !== end && (inner[1] !== "," || (inner = next())[1] === end)) refuse();
    }
    return end === "}" ? restored(holder) : holder;
  }
  const message = value(next(), 0);
  return token.lastIndex === source.length ? message : refuse();
}

/** Decodes a text that {@link textOfValue} has made. */
export function valueOfText(text) {
  const parsed = JSON.parse(text);
  if (!text.includes('$bytes"')) return parsed;
  const revive = (value) => {
    if (Array.isArray(value)) return value.map(revive);
    if (!isMap(value)) return value;
    return restored(Object.fromEntries(Object.entries(value).map(([key, held]) => [key, revive(held)])));
  };
  return revive(parsed);
}

/** A value as a text of this form. */
export function textOfValue(value) {
  const plain = (item) => {
    if (item instanceof Uint8Array) return { $bytes: toBase64Url(item) };
    if (Array.isArray(item)) return item.map(plain);
    if (!isMap(item)) return item;
    return Object.fromEntries(Object.entries(item).map(([key, inner]) => [/^\$+bytes$/.test(key) ? `$${key}` : key, plain(inner)]));
  };
  return JSON.stringify(plain(value));
}

export const encodeJson = (value) => bytesOf(textOfValue(value));
