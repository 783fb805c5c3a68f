// The two forms of a message: MessagePack and JSON (docs/protocol.md, Values).
import { isMap, malformed, tooDeep } from "./common.mjs";

export class Data {
  constructor(value) {
    this.value = value;
  }
}

/** Floats that look like integers to JavaScript, by their map or list: they are refused if an integer is required. */
export const floats = new WeakMap();

/** Puts a value into its map or list, and remembers a float. */
export function put(holder, key, value, isFloat) {
  if (isMap(holder)) {
    if (key === "__proto__" || Object.hasOwn(holder, key)) throw malformed("a key that is refused, or twice in one map");
  }
  holder[key] = value;
  if (isFloat) (floats.get(holder) ?? floats.set(holder, new Set()).get(holder)).add(key);
}

export function text(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw malformed("a text that is no UTF-8");
  }
}

export function decodeMsgpack(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (count) => {
    if (at + count > bytes.length) throw malformed("the message is cut off");
    at += count;
    return at - count;
  };
  const unsigned = (width) => {
    const from = take(width);
    if (width === 8) return Number(view.getBigUint64(from));
    return width === 1 ? view.getUint8(from) : width === 2 ? view.getUint16(from) : view.getUint32(from);
  };
  const some = (count) => bytes.subarray(take(count), at);
  const items = (count, isList, depth) => {
    if (depth > 40) throw tooDeep();
    if (count > bytes.length - at) throw malformed("the message is cut off");
    const holder = isList ? [] : {};
    for (let i = 0; i < count; i++) {
      const key = isList ? i : value(depth);
      if (!isList && typeof key !== "string") throw malformed("a key that is no text");
      const isFloat = bytes[at] === 0xca || bytes[at] === 0xcb;
      put(holder, key, value(depth), isFloat);
    }
    return holder;
  };
  const finite = (number) => {
    if (!Number.isFinite(number)) throw malformed("a number that is not finite");
    return number;
  };
  function value(depth) {
    const tag = unsigned(1);
    if (tag < 0x80) return tag;
    if (tag < 0x90) return items(tag & 15, false, depth + 1);
    if (tag < 0xa0) return items(tag & 15, true, depth + 1);
    if (tag < 0xc0) return text(some(tag & 31));
    if (tag >= 0xe0) return tag - 256;
    if (tag === 0xc0) return null;
    if (tag === 0xc2 || tag === 0xc3) return tag === 0xc3;
    if (tag >= 0xc4 && tag <= 0xc6) return new Uint8Array(some(unsigned(1 << (tag - 0xc4))));
    if (tag === 0xca) return finite(view.getFloat32(take(4)));
    if (tag === 0xcb) return finite(view.getFloat64(take(8)));
    if (tag >= 0xcc && tag <= 0xcf) return unsigned(1 << (tag - 0xcc));
    if (tag === 0xd0) return view.getInt8(take(1));
    if (tag === 0xd1) return view.getInt16(take(2));
    if (tag === 0xd2) return view.getInt32(take(4));
    if (tag === 0xd3) return Number(view.getBigInt64(take(8)));
    if (tag >= 0xd9 && tag <= 0xdb) return text(some(unsigned(1 << (tag - 0xd9))));
    if (tag === 0xdc || tag === 0xdd) return items(unsigned(tag === 0xdc ? 2 : 4), true, depth + 1);
    if (tag === 0xde || tag === 0xdf) return items(unsigned(tag === 0xde ? 2 : 4), false, depth + 1);
    throw malformed("an extension type");
  }
  const result = value(0);
  if (at !== bytes.length) throw malformed("something follows the message");
  return result;
}

export function encodeMsgpack(value) {
  const parts = [];
  const bytes = (...list) => parts.push(Buffer.from(list));
  const head = (count, small, tags) => {
    if (small && count < small[1]) return bytes(small[0] | count);
    const width = count < 256 && tags[0] ? 0 : count < 65_536 ? 1 : 2;
    const buffer = Buffer.alloc(1 + (1 << width));
    buffer[0] = tags[width];
    buffer.writeUIntBE(count, 1, 1 << width);
    parts.push(buffer);
  };
  const number = (n) => {
    if (Number.isSafeInteger(n) && n >= -32 && n < 128) return bytes(n & 255);
    const whole = (bits) => (n < 0 ? n >= -(2 ** (bits - 1)) : n < 2 ** bits);
    const width = Number.isSafeInteger(n) ? [8, 16, 32].findIndex(whole) : -1;
    const buffer = Buffer.alloc(width < 0 ? 9 : 1 + (1 << width));
    if (!Number.isSafeInteger(n)) buffer[0] = 0xcb, buffer.writeDoubleBE(n, 1);
    else if (width >= 0) buffer[0] = (n < 0 ? 0xd0 : 0xcc) + width, buffer[n < 0 ? "writeIntBE" : "writeUIntBE"](n, 1, 1 << width);
    else if (n >= 0) buffer[0] = 0xcf, buffer.writeBigUInt64BE(BigInt(n), 1);
    else buffer[0] = 0xd3, buffer.writeBigInt64BE(BigInt(n), 1);
    parts.push(buffer);
  };
  const walk = (item) => {
    if (item === null) bytes(0xc0);
    else if (typeof item === "boolean") bytes(item ? 0xc3 : 0xc2);
    else if (typeof item === "number") number(item);
    else if (typeof item === "string") {
      head(Buffer.byteLength(item), [0xa0, 32], [0xd9, 0xda, 0xdb]);
      parts.push(Buffer.from(item));
    } else if (item instanceof Data) walk(encodeMsgpack(item.value));
    else if (item instanceof Uint8Array) {
      head(item.length, undefined, [0xc4, 0xc5, 0xc6]);
      parts.push(item);
    } else if (Array.isArray(item)) {
      head(item.length, [0x90, 16], [0, 0xdc, 0xdd]);
      item.forEach(walk);
    } else {
      const entries = Object.entries(item).filter(([, inner]) => inner !== undefined);
      head(entries.length, [0x80, 16], [0, 0xde, 0xdf]);
      for (const [key, inner] of entries) walk(key), walk(inner);
    }
  };
  walk(value);
  return new Uint8Array(Buffer.concat(parts));
}

export function decodeJson(source) {
  const token = /[ \t\r\n]*(?:([{}[\],:])|("[^"\\]*(?:\\.[^"\\]*)*")|(-?\d[-+.\deE]*)|(true|false|null))[ \t\r\n]*/sy;
  const next = () => {
    const match = token.exec(source);
    if (!match) throw malformed("no JSON");
    return match;
  };
  const scalar = (match) => {
    let result;
    try {
      result = JSON.parse(match[2] ?? match[3] ?? match[4]);
    } catch {
      throw malformed("no JSON");
    }
    if (match[3] && !Number.isFinite(result)) throw malformed("a number that is not finite");
    if (match[2] && !result.isWellFormed()) throw malformed("a text that is no UTF-8");
    return result;
  };
  const restored = (map) => {
    const keys = Object.keys(map);
    if (keys.length === 1 && keys[0] === "$bytes") {
      const encoded = map["$bytes"];
      const bytes = typeof encoded === "string" && Buffer.from(encoded, "base64url");
      if (!bytes || bytes.toString("base64url") !== encoded) throw malformed("bytes that are no base64url");
      return new Uint8Array(bytes);
    }
    if (keys.includes("$bytes")) throw malformed("$bytes does not stand alone");
    if (!keys.some((key) => /^\$\$+bytes$/.test(key))) return map;
    const result = {};
    for (const key of keys) put(result, /^\$\$+bytes$/.test(key) ? key.slice(1) : key, map[key], floats.get(map)?.has(key));
    return result;
  };
  function value(match, depth) {
    if (match[1] !== "{" && match[1] !== "[") {
      if (match[1]) throw malformed("no JSON");
      return scalar(match);
    }
    if (depth >= 40) throw tooDeep();
    const isList = match[1] === "[";
    const [holder, end] = isList ? [[], "]"] : [{}, "}"];
    let inner = next();
    if (inner[1] === end) return holder;
    for (;;) {
      let key = holder.length;
      if (!isList) {
        if (!inner[2] || next()[1] !== ":") throw malformed("no JSON");
        key = scalar(inner);
        inner = next();
      }
      put(holder, key, value(inner, depth + 1), inner[3] !== undefined && /[.eE]/.test(inner[3]));
      const after = next()[1];
      if (after === end) return isList ? holder : restored(holder);
      if (after !== ",") throw malformed("no JSON");
      inner = next();
    }
  }
  token.lastIndex = 0;
  const result = value(next(), 0);
  if (token.lastIndex !== source.length) throw malformed("something follows the message");
  return result;
}

export function encodeJson(value) {
  const walk = (item) => {
    if (item instanceof Data) return walk(item.value);
    if (item instanceof Uint8Array) return { $bytes: Buffer.from(item).toString("base64url") };
    if (Array.isArray(item)) return item.map(walk);
    if (!isMap(item)) return item;
    return Object.fromEntries(Object.entries(item).map(([key, inner]) => [/^\$+bytes$/.test(key) ? `$${key}` : key, walk(inner)]));
  };
  return JSON.stringify(walk(value));
}

export const weightOf = (value) => encodeMsgpack(value).length;
export const depthOf = (value) => {
  if (value instanceof Uint8Array || typeof value !== "object" || value === null) return 0;
  return 1 + Object.values(value).reduce((most, inner) => Math.max(most, depthOf(inner)), 0);
};
/** Whether two values are equal; the order of a map's keys does not count. */
export function same(a, b) {
  if (a === b) return true;
  if (a instanceof Uint8Array || b instanceof Uint8Array) {
    return a instanceof Uint8Array && b instanceof Uint8Array && Buffer.compare(a, b) === 0;
  }
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => same(item, b[i]));
  }
  if (!isMap(a) || !isMap(b)) return false;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && same(a[key], b[key]));
}
