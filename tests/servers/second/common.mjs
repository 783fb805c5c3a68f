// Names, bounds and faults that every part of the second server uses.
import { createHash } from "node:crypto";


export const MIB = 1 << 20;
export const DAY_MS = 86_400_000;
export const DELTA_MS = 2000; // the longest write, and as much again
export const NAME = /^[A-Za-z][A-Za-z0-9]{0,63}$/;
export const DEF = /^([A-Za-z][A-Za-z0-9]{0,63})(?:\/([A-Za-z][A-Za-z0-9]{0,63}))?(?:@([-\w.:]{1,1024}))?$/;
export const ORG = /^[-\w.:]{1,1024}$/;
export const NOT_EXECUTED = ["C", "X", "O"];

export const own = (map, key) => (Object.hasOwn(map, key) ? map[key] : undefined);
export const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array);
export const isText = (value) => typeof value === "string" && value !== "" && Buffer.byteLength(value) <= 1024;
export const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
export const ascending = (a, b) => a.v - b.v || compare(a.pk, b.pk);

export function shaS(text) {
  return createHash("sha256").update(text, "utf8").digest().subarray(3, 19).toString("base64url");
}

export class Fault extends Error {
  constructor(code, kind, message = "", { status, phase = 0, doc } = {}) {
    super(message);
    Object.assign(this, { code, kind, status, phase, doc });
  }
  toValue() {
    const { code, kind, phase, message, doc } = this;
    return { code, kind, phase, message, ...(doc && { doc }) };
  }
}
export const malformed = (message) => new Fault("malformed", "B", message, { status: 400 });
export const tooDeep = () => new Fault("too_deep", "A", "nested too deep", { status: 400 });
export const unknownDef = () => new Fault("unknown_def", "N", "no such class or collection");
