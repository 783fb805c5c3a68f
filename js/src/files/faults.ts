/** The errors of files. Kinds and cures equal those of `src/error.rs`. */

import { EscaleError } from "../index.js";
import type { ErrorCode, ErrorKind } from "../base/error-codes.js";

const FAULTS = {
  bad_option: { kind: "A", cure: "Correct the option that the message names." },
  quota_exceeded: { kind: "A", cure: "Delete documents or files, or ask the org's administrator for more room." },
  file_missing: { kind: "A", cure: "Add the file again." },
  file_damaged: { kind: "X", cure: "Nothing to do: it is tried again. If it lasts, the server or a proxy alters files." },
  not_supported: { kind: "A", cure: "This version of Escale does not do that yet; see the CHANGELOG." },
  bad_reply: { kind: "B", cure: "Correct the server: the message names the field, docs/protocol.md the rule." },
  too_large: { kind: "A", cure: "Send less at once; the bounds stand in docs/protocol.md." },
  offline: { kind: "X", cure: "Nothing to do: the session tries again by itself." },
  unauthorized: { kind: "S", cure: "Give a valid token: pass `token` as a function that fetches a new one." },
  forbidden: { kind: "S", cure: "Ask the server's administrator for the right." },
  unavailable: { kind: "O", cure: "Nothing to do: the session waits as long as the server asked." },
  contention: { kind: "C", cure: "Nothing to do: it is tried again." },
  store_too_new: { kind: "D", cure: "Reload the page to get the newer version of the application." },
  storage_full: { kind: "X", cure: "Free space on the device, or unsubscribe from some collections." },
  storage_failed: { kind: "X", cure: "Reload the page; if it lasts, the browser's storage is out of order." },
  local_data_lost: { kind: "X", cure: "Tell the user how many of their writes may be lost; what the server knows is intact." },
  closed: { kind: "A", cure: "Open a new session." },
} as const satisfies Partial<Record<ErrorCode, { kind: ErrorKind; cure: string }>>;

/** An error. Codes that are not in the table are the server's own. */
export function fault(code: string, message: string, cause?: unknown, ofServer = "X"): EscaleError {
  const known: { kind: string; cure: string } | undefined = Object.hasOwn(FAULTS, code) ? FAULTS[code as keyof typeof FAULTS] : undefined;
  const { kind, cure } = known ?? { kind: ofServer, cure: "Try again later; if it lasts, look into the server's log." };
  return new EscaleError({ code, kind, retryable: "COX".includes(kind), message, cure }, cause);
}

/** The error of all calls after the end. */
export const closed = (): EscaleError => fault("closed", "the session is closed");

/** A refusal of the server, as its message has it. */
export interface Refusal {
  readonly code?: unknown;
  readonly kind?: unknown;
  readonly message?: unknown;
  /** The objects that are missing. */
  readonly files?: unknown;
  /** The pause that the server asks for, in seconds. */
  readonly retryAfter?: unknown;
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
  const { code = OF_STATUS[status] ?? "offline", kind, message = "" } = refusal;
  const error = fault(String(code), `the server answered ${status}: ${String(message).slice(0, 200)}`, undefined, kind as string | undefined);
  refusals.set(error, refusal);
  return error;
}

/** The refusal behind an error. */
export const refusalOf = (error: object): Refusal => refusals.get(error) ?? {};

/** Anything that was thrown, as an error of this package. */
export const toFault = (thrown: unknown): EscaleError =>
  thrown instanceof EscaleError ? thrown : fault("storage_failed", `files: ${String(thrown)}`, thrown);
