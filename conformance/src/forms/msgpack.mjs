// MessagePack, strictly: a library would hide floats without a fraction, keys that are there twice and extension types,
// which are the mistakes that the kit looks for.
import { Pairs, Raw, Unreadable, isMap, noteFloat, setOnce, textOf } from "./values.mjs";

export function decode(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (count) => {
    if (at + count > bytes.length) throw new Unreadable("the message is cut off");
    at += count;
    return at - count;
  };
  const unsigned = (width) => {
    const from = take(width);
    if (width === 8) return Number(view.getBigUint64(from));
    return width === 1 ? view.getUint8(from) : width === 2 ? view.getUint16(from) : view.getUint32(from);
  };
  const some = (count) => bytes.subarray(take(count), at);
  const isFloat = () => bytes[at] === 0xca || bytes[at] === 0xcb;
  const list = (count) => {
    const items = [];
    for (let i = 0; i < count; i++) {
      if (isFloat()) noteFloat(items, i);
      items.push(value());
    }
    return items;
  };
  const map = (count) => {
    const fields = {};
    for (let i = 0; i < count; i++) {
      const key = value();
      if (isFloat()) noteFloat(fields, key);
      setOnce(fields, key, value());
    }
    return fields;
  };
  const finite = (number) => {
    if (!Number.isFinite(number)) throw new Unreadable("a number that is not finite");
    return number;
  };
  function value() {
    const tag = unsigned(1);
    if (tag < 0x80) return tag;
    if (tag < 0x90) return map(tag & 15);
    if (tag < 0xa0) return list(tag & 15);
    if (tag < 0xc0) return textOf(some(tag & 31));
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
    if (tag >= 0xd9 && tag <= 0xdb) return textOf(some(unsigned(1 << (tag - 0xd9))));
    if (tag === 0xdc || tag === 0xdd) return list(unsigned(tag === 0xdc ? 2 : 4));
    if (tag === 0xde || tag === 0xdf) return map(unsigned(tag === 0xde ? 2 : 4));
    throw new Unreadable("an extension type of msgpack");
  }
  const result = value();
  if (at !== bytes.length) throw new Unreadable("bytes follow the message");
  return result;
}

const whole = (tag, width, number) => {
  const buffer = Buffer.alloc(1 + width);
  buffer[0] = tag;
  if (width < 8) buffer[number < 0 ? "writeIntBE" : "writeUIntBE"](number, 1, width);
  else buffer[number < 0 ? "writeBigInt64BE" : "writeBigUInt64BE"](BigInt(number), 1);
  return buffer;
};

function number(n) {
  if (!Number.isSafeInteger(n)) {
    const buffer = Buffer.alloc(9);
    buffer[0] = 0xcb;
    buffer.writeDoubleBE(n, 1);
    return buffer;
  }
  if (n >= -32 && n < 128) return Buffer.from([n & 255]);
  const fits = (bits) => (n < 0 ? n >= -(2 ** (bits - 1)) : n < 2 ** bits);
  const step = [8, 16, 32].findIndex(fits);
  const width = step < 0 ? 3 : step;
  return whole((n < 0 ? 0xd0 : 0xcc) + width, 1 << width, n);
}

/** The head of a text, of bytes, a list or a map: in its small form if there is one, or with 1, 2 or 4 bytes. */
function head(count, { small, smallMax = 0, tags }) {
  if (small !== undefined && count < smallMax) return Buffer.from([small | count]);
  const step = count < 256 && tags[0] ? 0 : count < 65_536 ? 1 : 2;
  return whole(tags[step], 1 << step, count);
}

const TEXT = { small: 0xa0, smallMax: 32, tags: [0xd9, 0xda, 0xdb] };
const BYTES = { tags: [0xc4, 0xc5, 0xc6] };
const LIST = { small: 0x90, smallMax: 16, tags: [0, 0xdc, 0xdd] };
const MAP = { small: 0x80, smallMax: 16, tags: [0, 0xde, 0xdf] };

export function encode(value) {
  const parts = [];
  const walk = (item) => {
    if (item instanceof Raw) parts.push(item.msgpack);
    else if (item === null) parts.push(Buffer.from([0xc0]));
    else if (typeof item === "boolean") parts.push(Buffer.from([item ? 0xc3 : 0xc2]));
    else if (typeof item === "number") parts.push(number(item));
    else if (typeof item === "string") parts.push(head(Buffer.byteLength(item), TEXT), Buffer.from(item));
    else if (item instanceof Uint8Array) parts.push(head(item.length, BYTES), item);
    else if (Array.isArray(item)) {
      parts.push(head(item.length, LIST));
      item.forEach(walk);
    } else if (isMap(item)) {
      const pairs = item instanceof Pairs ? item.pairs : Object.entries(item).filter(([, inner]) => inner !== undefined);
      parts.push(head(pairs.length, MAP));
      for (const [key, inner] of pairs) walk(key), walk(inner);
    } else throw new TypeError(`no value of a message: ${typeof item}`);
  };
  walk(value);
  return new Uint8Array(Buffer.concat(parts));
}
