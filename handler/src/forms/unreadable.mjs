// Messages that both forms refuse.
import { isMap } from "../engine/values.mjs";

/** A message that cannot be read, or that nests too deep. */
export class Unreadable extends Error {
  constructor(message, isTooDeep = false) {
    super(message);
    this.isTooDeep = isTooDeep;
  }
}

/** The floats of a message, by their map or list: JavaScript itself does not tell 1.0 from 1. */
export const floats = new WeakMap();

/** Puts a value into a map or list. */
export function place(holder, key, value, isFloat) {
  if (isMap(holder) && (typeof key !== "string" || key === "__proto__" || Object.hasOwn(holder, key))) throw new Unreadable("a key that is refused, or there twice");
  holder[key] = value;
  if (isFloat) floats.set(holder, (floats.get(holder) ?? new Set()).add(key));
}

export function textOf(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Unreadable("a text that is not UTF-8");
  }
}
