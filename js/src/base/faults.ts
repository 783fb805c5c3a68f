/** The errors of the entries next to the main one. They are of its class, which must exist once. */

import { EscaleError, RAISED_HERE } from "../index.js";
import type { ErrorCode, Faults } from "./error-codes.js";

export type { Faults } from "./error-codes.js";

/** A refusal of the server, as its message has it. */
export interface Refusal {
  readonly code?: unknown;
  readonly kind?: unknown;
  readonly message?: unknown;
}

/** The errors that several entries raise, and those of the main one. */
export const COMMON = {
  ...RAISED_HERE,
  bad_reply: ["B", "Correct the server: the message names the field, docs/protocol.md the rule."],
  not_supported: ["A", "This version of Escale does not do that yet; see the CHANGELOG."],
  offline: ["X", "Nothing to do: the session tries again by itself."],
} as const satisfies Faults;

/** Makes an error of a table. A code that it lacks is the server's own, and has the kind that the server gave. */
export function faultOf(table: Faults, code: string, message: string, cause?: unknown, ofServer: unknown = "X"): EscaleError {
  const known = Object.hasOwn(table, code) ? table[code as ErrorCode] : undefined;
  const [kind, cure] = known ?? [String(ofServer), "Try again later; if it lasts, look into the server's log."];
  return new EscaleError({ code, kind, retryable: "COX".includes(kind), message, cure }, cause);
}

/** The error for a refusal. */
export const refused = (table: Faults, status: number, code: unknown, { kind, message = "" }: Refusal): EscaleError =>
  faultOf(table, String(code), `the server answered ${status}: ${String(message).slice(0, 200)}`, undefined, kind);
