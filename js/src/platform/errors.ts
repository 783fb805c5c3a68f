/** Errors of the entries next to the main one. They are of its class, which must exist once. */

import type { ErrorCode, Faults, KindLetter } from "../base/error-codes.js";
import { KINDS, RAISED_HERE } from "../base/faults.js";
import { EscaleError } from "../index.js";

/** A refusal of the server, as its message has it. */
export interface Refusal {
  readonly code?: unknown;
  readonly kind?: unknown;
  readonly message?: unknown;
}

/** Makes an error of a table. A code that it lacks is the server's own, and has the kind that the server gave, if there is one. */
export function faultOf(table: Faults, code: string, message: string, cause?: unknown, ofServer: unknown = "X"): EscaleError {
  const known = Object.hasOwn(table, code) ? table[code as ErrorCode] : undefined;
  const own = Object.hasOwn(KINDS, String(ofServer)) ? (ofServer as KindLetter) : "X";
  const [kind, cure] = known ?? [own, "Try again later; if it lasts, look into the server's log."];
  return new EscaleError({ code, kind, retryable: "COX".includes(kind), message, cure }, cause);
}

/** Makes an error of the main entry's table. `detail` says which fault was found, and where. */
export const raised = (code: keyof typeof RAISED_HERE, detail: string, cause?: unknown): EscaleError => faultOf(RAISED_HERE, code, detail, cause);

/** The error for a refusal. */
export const refused = (table: Faults, status: number, code: unknown, { kind, message = "" }: Refusal): EscaleError =>
  faultOf(table, String(code), `the server answered ${status}: ${String(message).slice(0, 200)}`, undefined, kind);

/** The code of an error, if it has one. */
export const codeOf = (error: unknown): unknown => (error as { code?: unknown } | undefined)?.code;
