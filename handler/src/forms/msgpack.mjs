// The msgpack form of a message. It is here, because libraries hide three mistakes that a server has to refuse: a float for
// an integer, a key that is there twice, and an extension type.
import { isMap, sizeOf } from "../engine/values.mjs";
import { place, textOf, Unreadable } from "./unreadable.mjs";

/** Decodes the message of a stranger. */
export function decodeMsgpack(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const take = (count) => {
    if (at + count > bytes.length) throw new Unreadable("the message is cut off");
    return (at += count) - count;
  };
  const read = (kind, width) => Number(view[`get${kind}${8 * width}`](take(width)));
  const unsigned = (step) => read(step === 3 ? "BigUint" : "Uint", 1 << step);
  const some = (count) => bytes.subarray(take(count), at);
  const items = (count, holder, depth) => {
    if (depth > 40) throw new Unreadable("nested too deep", true);
    for (let i = 0; i < count; i++) {
      const key = Array.isArray(holder) ? i : value(depth);
      const isFloat = bytes[at] === 0xca || bytes[at] === 0xcb;
      place(holder, key, value(depth), isFloat);
    }
    return holder;
  };
  const finite = (number) => {
    if (!Number.isFinite(number)) throw new Unreadable("a number that is not finite");
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
    throw new Unreadable("an extension type");
  }
  const message = value(0);
  if (at !== bytes.length) throw new Unreadable("bytes follow the message");
  return message;
}

/** A value in its shortest msgpack. Properties that are undefined are left out. */
export function encode(value) {
  const bytes = new Uint8Array(sizeOf(value));
  const view = new DataView(bytes.buffer);
  const encoder = new TextEncoder();
  let at = 0;
  /** A tag and a number behind it, of 1, 2, 4 or 8 bytes. */
  const put = (tag, kind, width, number) => {
    bytes[at] = tag;
    view[`set${kind}${8 * width}`](at + 1, number);
    at += 1 + width;
  };
  /** The tag of a text, bytes, list or map of this length: a short one, or one of three that follow each other. */
  const begin = (length, short, most, first, hasMiddle) => {
    if (length <= most) bytes[at++] = short | length;
    else if (hasMiddle && length <= 0xff) put(first, "Uint", 1, length);
    else if (length <= 0xffff) put(first + (hasMiddle ? 1 : 0), "Uint", 2, length);
    else put(first + (hasMiddle ? 2 : 1), "Uint", 4, length);
  };
  const integer = (number) => {
    if (number >= -32 && number < 128) bytes[at++] = number & 0xff;
    else if (number < 0) {
      if (number >= -0x80) put(0xd0, "Int", 1, number);
      else if (number >= -0x8000) put(0xd1, "Int", 2, number);
      else if (number >= -0x80000000) put(0xd2, "Int", 4, number);
      else put(0xd3, "BigInt", 8, BigInt(number));
    } else if (number < 0x100) put(0xcc, "Uint", 1, number);
    else if (number < 0x10000) put(0xcd, "Uint", 2, number);
    else if (number < 0x100000000) put(0xce, "Uint", 4, number);
    else put(0xcf, "BigUint", 8, BigInt(number));
  };
  const write = (item) => {
    if (item === null) bytes[at++] = 0xc0;
    else if (typeof item === "boolean") bytes[at++] = item ? 0xc3 : 0xc2;
    else if (Number.isSafeInteger(item)) integer(item);
    else if (typeof item === "number") put(0xcb, "Float", 8, item);
    else if (typeof item === "string") {
      const text = encoder.encode(item);
      begin(text.length, 0xa0, 31, 0xd9, true);
      bytes.set(text, at);
      at += text.length;
    } else if (item instanceof Uint8Array) {
      begin(item.length, 0, -1, 0xc4, true);
      bytes.set(item, at);
      at += item.length;
    } else if (Array.isArray(item)) {
      begin(item.length, 0x90, 15, 0xdc, false);
      for (const inner of item) write(inner);
    } else {
      const entries = Object.entries(item).filter(([, held]) => held !== undefined);
      begin(entries.length, 0x80, 15, 0xde, false);
      for (const [key, inner] of entries) {
        write(key);
        write(inner);
      }
    }
  };
  write(value);
  return bytes;
}

/** Encodes a message: the `data` of a row is bytes in this form. Arguments and values are maps. */
export function encodeMsgpack(message) {
  const packed = (row) => (isMap(row) && row.data ? { ...row, data: encode(row.data) } : row);
  const parts = message.parts?.map((part) => ({ ...part, rows: part.rows?.map(packed) }));
  const results = message.results?.map((one) => (one.fault?.doc ? { ...one, fault: { ...one.fault, doc: packed(one.fault.doc) } } : one));
  return encode({ ...message, parts, results });
}
