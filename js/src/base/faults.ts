/** The errors that several entries raise, next to those of the main one. */

import type { Faults } from "./error-codes.js";
import { internal } from "../index.js";

/** The tables of errors, of which the main entry has one copy for all. */
export const { KINDS, RAISED_HERE } = internal;

export const COMMON = {
  ...RAISED_HERE,
  bad_reply: ["B", "Correct the server: the message names the field, docs/protocol.md the rule."],
  not_supported: ["A", "This version of Escale does not do that yet; see the CHANGELOG."],
} as const satisfies Faults;
