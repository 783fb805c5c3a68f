/** Faults as the wire has them, and values in the JSON form of the protocol. */

/** A fault of an operation, of a part, or of a whole request. */
export class Fault extends Error {
  readonly code: string;
  readonly kind: string;
  /** The current row, in a `version_conflict`. */
  readonly doc: object | undefined;

  constructor(code: string, kind: string, message: string, doc?: object) {
    super(message);
    this.code = code;
    this.kind = kind;
    this.doc = doc;
  }

  toJSON(): object {
    const { code, kind, message, doc } = this;
    return { code, kind, phase: 1, message, ...(doc && { doc }) };
  }
}

export const badValue = (message: string): Fault => new Fault("bad_value", "A", message);
export const badKey = (message: string): Fault => new Fault("bad_key", "A", message);

/** Whether a fault leaves an operation unexecuted: its kind, or its code, says so. */
export const isUnexecuted = ({ code, kind }: Fault): boolean => ["C", "X", "O"].includes(kind) || code === "session_reused";

/** Whether two values are equal; the order of a map's keys does not count. */
export function same(a: unknown, b: unknown): boolean {
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return a === b;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const [mine, theirs] = [a as { [key: string]: unknown }, b as { [key: string]: unknown }];
  const keys = Object.keys(mine);
  return keys.length === Object.keys(theirs).length && keys.every((key) => Object.hasOwn(theirs, key) && same(mine[key], theirs[key]));
}

/** The order of rows: by version, then by pk, whose characters are ASCII. */
export const ascending = (a: { v: number; pk: string }, b: { v: number; pk: string }): number =>
  a.v - b.v || (a.pk < b.pk ? -1 : a.pk > b.pk ? 1 : 0);
