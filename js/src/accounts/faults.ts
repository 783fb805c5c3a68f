/** The errors of accounts. Kinds and cures equal those of `src/error.rs`. */

import { EscaleError } from "../index.js";
import type { ErrorCode, ErrorKind } from "../base/error-codes.js";

const FAULTS = {
  wrong_passphrase: { kind: "S", cure: "Ask for the passphrase again; where it is forgotten, wipe({ org, account }) makes room for a new store." },
  login_taken: { kind: "A", cure: "Choose another login, or sign in if it is yours." },
  invitation_unknown: { kind: "N", cure: "Ask for another invitation." },
  invitation_needed: { kind: "S", cure: "Ask the org's administrator for an invitation." },
  account_closed: { kind: "S", cure: "Open in `avion` to read this device's data." },
  device_revoked: { kind: "S", cure: "Open again, as a new device." },
  passphrase_changed: { kind: "S", cure: "Call session.unlock(passphrase) with the new passphrase." },
  account_mismatch: { kind: "A", cure: "Call wipe and accounts.forget to make room, then open again." },
  offline: { kind: "X", cure: "Nothing to do: the session tries again by itself." },
  bad_reply: { kind: "B", cure: "Correct the server: the message names the field, docs/protocol.md the rule." },
  not_supported: { kind: "A", cure: "This version of Escale does not do that yet; see the CHANGELOG." },
  bad_option: { kind: "A", cure: "Correct the option that the message names." },
  no_store: { kind: "N", cure: "Open once in `synced` with the network up." },
} as const satisfies Partial<Record<ErrorCode, { kind: ErrorKind; cure: string }>>;

/** An error of this table. */
export function fault(code: keyof typeof FAULTS, message: string, cause?: unknown): EscaleError {
  const { kind, cure } = FAULTS[code];
  return new EscaleError({ code, kind, retryable: isRetryable(kind), message, cure }, cause);
}

/** The error for a fault of the server. */
export function faultOf(status: number, given: { code?: unknown; kind?: unknown; message?: unknown }): EscaleError {
  const { code, kind, message } = given;
  const text = `the server answered ${status}: ${String(message).slice(0, 200)}`;
  if (typeof code === "string" && Object.hasOwn(FAULTS, code)) return fault(code as keyof typeof FAULTS, text);
  const cure = "Try again later; if it lasts, look into the server's log.";
  const ofKind = typeof kind === "string" ? kind : "X";
  return new EscaleError({ code: typeof code === "string" ? code : "server_refused", kind: ofKind, retryable: isRetryable(ofKind), message: text, cure });
}

const isRetryable = (kind: string): boolean => kind === "C" || kind === "O" || kind === "X";
