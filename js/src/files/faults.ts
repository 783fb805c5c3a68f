/** The errors of files. */

import type { Faults } from "../base/error-codes.js";
import { EscaleError } from "../index.js";
import { COMMON, faultOf as ofTable, refused, type Refusal as Refused } from "../shared.js";

const FAULTS = {
  ...COMMON,
  offline: ["X", "Nothing to do: the session tries again by itself."],
  quota_exceeded: ["A", "Delete documents or files, or ask the org's administrator for more room."],
  file_missing: ["A", "Add the file again."],
  file_damaged: ["X", "Nothing to do: it is tried again. If it lasts, the server or a proxy alters files."],
  too_large: ["A", "Send less at once; the bounds stand in docs/protocol.md."],
  forbidden: ["S", "Ask the server's administrator for the right."],
  unavailable: ["O", "Nothing to do: the session waits as long as the server asked."],
  contention: ["C", "Nothing to do: it is tried again."],
  store_too_new: ["D", "Reload the page to get the newer version of the application."],
  storage_full: ["X", "Free space on the device, or unsubscribe from some collections."],
  storage_failed: ["X", "Reload the page; if it lasts, the browser's storage is out of order."],
  local_data_lost: ["X", "Tell the user how many of their writes may be lost; the data of the server is intact."],
} as const satisfies Faults;

/** An error. Codes that are not in the table are the server's own. */
export const fault = (code: string, message: string, cause?: unknown): EscaleError => ofTable(FAULTS, code, message, cause);

/** The error of all calls after the end. */
export const closed = (): EscaleError => fault("closed", "the session is closed");

/** The error of a device without room. */
export const full = (cause?: unknown): EscaleError => fault("storage_full", "no room for files", cause);

/** A refusal of the server, as its message has it. */
export interface Refusal extends Refused {
  /** The objects that are missing. */
  readonly files?: unknown;
  /** The pause that the server asks for, in seconds. */
  readonly retryAfter?: unknown;
}

/** The seconds that a server asks for by Retry-After: a number of them, or a date. Undefined if the header is neither. */
export function askedIn(header: string | null, now: number): number | undefined {
  const text = header?.trim() ?? "";
  // A browser reads "-5 s" as a date, too: those of HTTP begin with the day.
  const seconds = /^[A-Z]/.test(text) ? (Date.parse(text) - now) / 1_000 : /^\d+$/.test(text) ? +text : NaN;
  return Number.isNaN(seconds) ? undefined : Math.max(seconds, 0);
}

/** The codes of answers that have no message, by their status. */
const OF_STATUS: { readonly [status: number]: string } = {
  401: "unauthorized",
  403: "forbidden",
  413: "too_large",
  422: "file_damaged",
  429: "unavailable",
  501: "not_supported",
  503: "unavailable",
  507: "quota_exceeded",
};

const refusals = new WeakMap<object, Refusal>();

/** The error for a refusal. */
export function faultOf(status: number, refusal: Refusal): EscaleError {
  const error = refused(FAULTS, status, refusal.code ?? OF_STATUS[status] ?? "offline", refusal);
  refusals.set(error, refusal);
  return error;
}

/** The refusal behind an error. */
export const refusalOf = (error: object): Refusal => refusals.get(error) ?? {};

/** Anything that was thrown, as an error of this package. */
export const toFault = (thrown: unknown): EscaleError =>
  thrown instanceof EscaleError ? thrown : fault("storage_failed", `files: ${String(thrown)}`, thrown);
