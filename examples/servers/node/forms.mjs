// The two forms of a message, MessagePack and JSON. In other languages a library does this. Those of JavaScript hide three
// mistakes that a server has to refuse: a float for an integer, a key that is there twice, and an extension type.
import { encode } from "@msgpack/msgpack";

/** A message that cannot be read, or that nests too deep. */
export class Unreadable extends Error {
  constructor(message, isTooDeep = false) {
    super(message);
    this.isTooDeep = isTooDeep;
  }
}
const malformed = (message) => new Unreadable(message);
const tooDeep = () => new Unreadable("nested too deep", true);

export const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
export const own = (map, key) => (Object.hasOwn(map, key) ? map[key] : undefined);

/** The floats of a message, by their map or list: JavaScript itself does not tell 1.0 from 1. */
export const floats = new WeakMap();

function place(holder, key, value, isFloat) {
  if (isMap(holder) && (typeof key !== "string" || key === "__proto__" || Object.hasOwn(holder, key))) throw malformed("a key that is refused, or there twice");
  holder[key] = value;
  if (isFloat) floats.set(holder, (floats.get(holder) ?? new Set()).add(key));
}

function textOf(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw malformed("a text that is not UTF-8");
  }
}

export function decodeMsgpack(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (count) => {
    if (at + count > bytes.length) throw malformed("the message is cut off");
    return (at += count) - count;
  };
  const read = (kind, width) => Number(view[`get${kind}${8 * width}`](take(width)));
  const unsigned = (step) => read(step === 3 ? "BigUint" : "Uint", 1 << step);
  const some = (count) => bytes.subarray(take(count), at);
  const items = (count, holder, depth) => {
    if (depth > 40) throw tooDeep();
    for (let i = 0; i < count; i++) {
      const key = Array.isArray(holder) ? i : value(depth);
      const isFloat = bytes[at] === 0xca || bytes[at] === 0xcb;
      place(holder, key, value(depth), isFloat);
    }
    return holder;
  };
  const finite = (number) => {
    if (!Number.isFinite(number)) throw malformed("a number that is not finite");
    return number;
  };
  function value(depth) {
    const tag = unsigned(0);
    if (tag < 0x80) return tag;
    if (tag < 0x90) return items(tag & 15, {}, depth + 1);
    if (tag < 0xa0) return items(tag & 15, [], depth + 1);
    if (tag < 0xc0) return textOf(some(tag & 31));
    if (tag >= 0xe0) return tag - 256;
    if (tag === 0xc0) return null;
    if (tag === 0xc2 || tag === 0xc3) return tag === 0xc3;
    if (tag >= 0xc4 && tag <= 0xc6) return new Uint8Array(some(unsigned(tag - 0xc4)));
    if (tag === 0xca || tag === 0xcb) return finite(read("Float", tag === 0xca ? 4 : 8));
    if (tag >= 0xcc && tag <= 0xcf) return unsigned(tag - 0xcc);
    if (tag >= 0xd0 && tag <= 0xd3) return read(tag === 0xd3 ? "BigInt" : "Int", 1 << (tag - 0xd0));
    if (tag >= 0xd9 && tag <= 0xdb) return textOf(some(unsigned(tag - 0xd9)));
    if (tag === 0xdc || tag === 0xdd) return items(unsigned(tag - 0xdb), [], depth + 1);
    if (tag === 0xde || tag === 0xdf) return items(unsigned(tag - 0xdd), {}, depth + 1);
    throw malformed("an extension type");
  }
  const message = value(0);
  if (at !== bytes.length) throw malformed("bytes follow the message");
  return message;
}

export function decodeJson(bytes) {
  const source = textOf(bytes);
  const token = /\s*(?:([{}[\],:])|("[^"\\]*(?:\\.[^"\\]*)*")|(-?\d[-+.\deE]*)|(true|false|null))\s*/sy;
  const next = () => token.exec(source) ?? refuse();
  const refuse = () => {
    throw malformed("it is no JSON");
  };
  const scalar = (match) => {
    let result;
    try {
      result = JSON.parse(match[2] ?? match[3] ?? match[4]);
    } catch {
      refuse();
    }
    return match[3] && !Number.isFinite(result) ? refuse() : result;
  };
  const restored = (map) => {
    if (Object.hasOwn(map, "$bytes")) {
      const decoded = typeof map.$bytes === "string" && Object.keys(map).length === 1 && Buffer.from(map.$bytes, "base64url");
      return decoded && decoded.toString("base64url") === map.$bytes ? new Uint8Array(decoded) : refuse();
    }
    if (!Object.keys(map).some((key) => /^\$\$+bytes$/.test(key))) return map;
    const result = {};
    for (const key of Object.keys(map)) place(result, /^\$\$+bytes$/.test(key) ? key.slice(1) : key, map[key], floats.get(map)?.has(key));
    return result;
  };
  function value(match, depth) {
    if (match[1] !== "{" && match[1] !== "[") return match[1] ? refuse() : scalar(match);
    if (depth >= 40) throw tooDeep();
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

export function encodeJson(value) {
  const plain = (item) => {
    if (item instanceof Uint8Array) return { $bytes: Buffer.from(item).toString("base64url") };
    if (Array.isArray(item)) return item.map(plain);
    if (!isMap(item)) return item;
    return Object.fromEntries(Object.entries(item).map(([key, inner]) => [/^\$+bytes$/.test(key) ? `$${key}` : key, plain(inner)]));
  };
  return Buffer.from(JSON.stringify(plain(value)));
}

/** In MessagePack the `data` of a row is bytes; arguments and values are maps. */
function encodeMsgpack(message) {
  const packed = (row) => (row?.data ? { ...row, data: encode(row.data) } : row);
  const parts = message.parts?.map((part) => ({ ...part, rows: part.rows?.map(packed) }));
  const results = message.results?.map((one) => (one.fault?.doc ? { ...one, fault: { ...one.fault, doc: packed(one.fault.doc) } } : one));
  return encode({ ...message, parts, results }, { ignoreUndefined: true });
}

export const FORMS = {
  "application/msgpack": { decode: decodeMsgpack, encode: encodeMsgpack },
  "application/json": { decode: decodeJson, encode: encodeJson },
};

export const depthOf = (value) =>
  typeof value !== "object" || value === null || value instanceof Uint8Array
    ? 0
    : Object.values(value).reduce((most, inner) => Math.max(most, 1 + depthOf(inner)), 1);

/** Whether two values are equal. The order of keys does not count, and 1 and 1.0 are one number. */
export function same(a, b) {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null || isMap(a) !== isMap(b)) return false;
  if (a instanceof Uint8Array || b instanceof Uint8Array) return a instanceof Uint8Array && b instanceof Uint8Array && Buffer.compare(a, b) === 0;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
}
