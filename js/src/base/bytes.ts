/** Bytes of any realm: under jsdom, and between frames, `instanceof` knows only those of its own. */

const tagOf = (value: unknown): string => Object.prototype.toString.call(value).slice(8, -1);

/** Whether a value is a `Uint8Array`, or a `Buffer` of Node. */
export function isBytes(value: unknown): value is Uint8Array {
  return tagOf(value) === "Uint8Array" && ArrayBuffer.isView(value);
}

/** Whether a value is an `ArrayBuffer`. */
export function isBuffer(value: unknown): value is ArrayBuffer {
  return tagOf(value) === "ArrayBuffer";
}
