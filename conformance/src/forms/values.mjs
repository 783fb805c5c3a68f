// Values of a message, and the two facts about them that JavaScript forgets: which numbers came as floats, and how a
// value is to be written that no honest client writes.

/** A message that cannot be read. */
export class Unreadable extends Error {}

/** A value with a form of its own in each encoding: the bytes for msgpack, the text for JSON. */
export class Raw {
  constructor({ msgpack, json = '"(other bytes)"', value }) {
    Object.assign(this, { msgpack: msgpack && Uint8Array.from(msgpack), json, value });
  }
}

/** A number that is written as a float, even if it has no fraction. */
export const float = (number) => {
  const buffer = Buffer.alloc(9);
  buffer[0] = 0xcb;
  buffer.writeDoubleBE(number, 1);
  return new Raw({ msgpack: buffer, json: Number.isInteger(number) ? `${number}.0` : String(number) });
};

/** A map whose keys may be there twice, or be refused. */
export class Pairs {
  constructor(pairs) {
    this.pairs = pairs;
  }
}

const floats = new WeakMap();

export function noteFloat(holder, key) {
  if (!floats.has(holder)) floats.set(holder, new Set());
  floats.get(holder).add(key);
}

/** Whether a number of a message was a float: with a point or an exponent in JSON, of a float type in msgpack. */
export const wasFloat = (holder, key) => floats.get(holder)?.has(key) ?? false;

export const isMap = (value) =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);

/** Whether two values are equal. The order of the keys of a map does not count. */
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

export function textOf(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Unreadable("a text that is not UTF-8");
  }
}

/** Puts a value into its map. A key that is there already, or `__proto__`, makes the message unreadable. */
export function setOnce(map, key, value) {
  if (typeof key !== "string") throw new Unreadable("a key of a map that is no text");
  if (key === "__proto__") throw new Unreadable("the key __proto__");
  if (Object.hasOwn(map, key)) throw new Unreadable(`the key ${key} is twice in one map`);
  map[key] = value;
}
