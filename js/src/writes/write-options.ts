/** The options of each write, and their check. */

import { raise } from "../base/errors.js";
import { isMap } from "../schema/raw.js";

/** The options of a write, before they are checked. */
export interface WriteRequest {
  ifVersion?: unknown;
  after?: unknown;
  unset?: unknown;
  touches?: unknown;
}

/** The options that each call takes. */
const TAKEN = {
  put: ["ifVersion", "after"],
  patch: ["ifVersion", "after", "unset"],
  delete: ["ifVersion", "after"],
  run: ["after", "touches"],
  batch: ["after"],
} as const satisfies Record<string, readonly (keyof WriteRequest)[]>;

export type WriteCall = keyof typeof TAKEN;

/** Refuses unknown options: a misspelt condition would have no effect. */
export function checkOptions(call: WriteCall, options: unknown, isWithinBatch = false): WriteRequest {
  if (!isMap(options)) throw raise("bad_option", `${call}: its options must be an object`);
  for (const name of Object.keys(options)) {
    if (isWithinBatch && name === "after") throw raise("bad_option", `${call}: within a batch the order is the batch's own`);
    if (!(TAKEN[call] as readonly string[]).includes(name)) {
      throw raise("bad_option", `${call}: no option is called ${name}, but ${TAKEN[call].join(", ")}`);
    }
  }
  return options;
}
