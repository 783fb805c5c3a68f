/** The errors of files. Kinds and cures equal those of `src/error.rs`. */

import { EscaleError } from "../index.js";
import type { ErrorCode, ErrorKind } from "../base/error-codes.js";

const FAULTS = {
  bad_option: { kind: "A", cure: "Correct the option that the message names." },
  bad_value: { kind: "A", cure: "Use strings, finite numbers, booleans, null, bytes, arrays and maps with string keys." },
  quota_exceeded: { kind: "A", cure: "Delete documents or files, or ask the org's administrator for more room." },
  file_missing: { kind: "A", cure: "Add the file again." },
  file_damaged: { kind: "X", cure: "Nothing to do: it is tried again. If it lasts, the server or a proxy alters files." },
  not_supported: { kind: "A", cure: "This version of Escale does not do that yet; see the CHANGELOG." },
  malformed: { kind: "B", cure: "Check that the address is an Escale endpoint, and that no proxy answers in its place." },
  bad_reply: { kind: "B", cure: "Correct the server: the message names the field, docs/protocol.md the rule." },
  too_large: { kind: "A", cure: "Send less at once; the bounds stand in docs/protocol.md." },
  offline: { kind: "X", cure: "Nothing to do: the session tries again by itself." },
  unauthorized: { kind: "S", cure: "Give a valid token: pass `token` as a function that fetches a new one." },
  forbidden: { kind: "S", cure: "Ask the server's administrator for the right." },
  unknown_org: { kind: "N", cure: "Correct the org's code, or create it on the server." },
  unavailable: { kind: "O", cure: "Nothing to do: the session waits as long as the server asked." },
  contention: { kind: "C", cure: "Nothing to do: it is tried again." },
  store_too_new: { kind: "D", cure: "Reload the page to get the newer version of the application." },
  insecure_context: { kind: "S", cure: "Serve the page over https or from localhost, or open in `incognito`." },
  storage_full: { kind: "X", cure: "Free space on the device, or unsubscribe from some collections." },
  storage_failed: { kind: "X", cure: "Reload the page; if it lasts, the browser's storage is out of order." },
  local_data_lost: { kind: "X", cure: "Tell the user how many of their writes may be lost; what the server knows is intact." },
  closed: { kind: "A", cure: "Open a new session." },
} as const satisfies Partial<Record<ErrorCode, { kind: ErrorKind; cure: string }>>;

/** A code of this table. */
export type FaultCode = keyof typeof FAULTS;

/** An error of this table. */
export function fault(code: FaultCode, message: string, cause?: unknown): EscaleError {
  const { kind, cure } = FAULTS[code];
  return new EscaleError({ code, kind, retryable: "COX".includes(kind), message, cure }, cause);
}

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
const OF_STATUS: { readonly [status: number]: FaultCode } = {
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
  const { code = OF_STATUS[status] ?? "offline", kind = "X", message = "no message of the protocol" } = refusal;
  const text = `the server answered ${status}: ${String(message).slice(0, 200)}`;
  let error: EscaleError;
  if (typeof code === "string" && Object.hasOwn(FAULTS, code)) error = fault(code as FaultCode, text);
  else {
    const cure = "Try again later; if it lasts, look into the server's log.";
    error = new EscaleError({ code: String(code), kind: String(kind), retryable: "COX".includes(String(kind)), message: text, cure });
  }
  refusals.set(error, refusal);
  return error;
}

/** The refusal behind an error. */
export const refusalOf = (error: object): Refusal => refusals.get(error) ?? {};

/** Anything that was thrown, as an error of this package. */
export const toFault = (thrown: unknown): EscaleError =>
  thrown instanceof EscaleError ? thrown : fault("storage_failed", `files: ${String(thrown).slice(0, 200)}`, thrown);
