/** Bytes of any realm: under jsdom, and between frames, `instanceof` knows only those of its own. */

/** Whether a value is a `Uint8Array`, or a `Buffer` of Node. */
export function isBytes(value: unknown): value is Uint8Array<ArrayBuffer> {
  return ArrayBuffer.isView(value) && (value as Uint8Array)[Symbol.toStringTag] === "Uint8Array";
}

/** Whether a value is an `ArrayBuffer`. */
export function isBuffer(value: unknown): value is ArrayBuffer {
  return Object.prototype.toString.call(value) === "[object ArrayBuffer]";
}
