/** The errors of accounts. Kinds and cures equal those of `src/error.rs`. */

import { EscaleError } from "../index.js";
import type { ErrorCode, ErrorKind } from "../base/error-codes.js";

const FAULTS = {
  wrong_passphrase: { kind: "S", cure: "Ask for the passphrase again; where it is forgotten, wipe({ org, account }) makes room for a new store." },
  login_taken: { kind: "A", cure: "Choose another login, or sign in if the account is yours." },
  invitation_unknown: { kind: "N", cure: "Ask for another invitation: it was used, has ended, or was mistyped." },
  invitation_needed: { kind: "S", cure: "Ask the org's administrator for an invitation." },
  account_closed: { kind: "S", cure: "Open in `avion` to read the data of this device." },
  device_revoked: { kind: "S", cure: "Open again: the passphrase signs the device in as a new one." },
  passphrase_changed: { kind: "S", cure: "Ask for the new passphrase, and call session.unlock(passphrase)." },
  account_mismatch: { kind: "A", cure: "Open in `avion` to read it, or wipe({ org, account }) to make room for the account's store." },
  offline: { kind: "X", cure: "Nothing to do: the session tries again by itself." },
  unauthorized: { kind: "S", cure: "Give a valid token: pass `token` as a function that fetches a new one." },
  too_many: { kind: "O", cure: "Nothing to do: the session waits as long as the server asked." },
  contention: { kind: "C", cure: "Nothing to do: it is tried again." },
  bad_reply: { kind: "B", cure: "Correct the server: the message names the field, docs/protocol.md the rule." },
  not_found: { kind: "N", cure: "Use put to create the document; an item needs its parent first." },
  not_supported: { kind: "A", cure: "This version of Escale does not do that yet; see the CHANGELOG." },
  bad_option: { kind: "A", cure: "Correct the option that the message names." },
  no_store: { kind: "N", cure: "Open once in `synced` with the network up." },
  malformed: { kind: "B", cure: "Check that the address is an Escale endpoint, and that no proxy answers in its place." },
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
  const cure = "Look into the server's documentation for its code, or show its message.";
  const ofKind = typeof kind === "string" ? kind : "X";
  return new EscaleError({ code: typeof code === "string" ? code : "server_refused", kind: ofKind, retryable: isRetryable(ofKind), message: text, cure });
}

const isRetryable = (kind: string): boolean => kind === "C" || kind === "O" || kind === "X";
