/** The errors of accounts. */

import type { Faults } from "../base/error-codes.js";
import type { EscaleError } from "../index.js";
import { COMMON, faultOf, refused, type Refusal } from "../shared.js";

const FAULTS = {
  ...COMMON,
  // Nothing of accounts tries again by itself but a session that is open.
  offline: ["X", "Try again in `synced` with the network up."],
  // True for a recovery code, too. The account outlives this device, so nothing here is to be wiped.
  wrong_passphrase: ["S", "Ask for it again; accounts.recover sets another by the recovery code."],
  bad_login: ["A", "Pass accounts.loginOf(typed), or ask for another login."],
  login_taken: ["A", "Choose another login, or sign in."],
  invitation_unknown: ["N", "Ask for another invitation."],
  invitation_needed: ["S", "Ask the org's administrator for an invitation."],
  account_closed: ["S", "Open in `avion` to read this device's data."],
  device_revoked: ["S", "Open again, as a new device."],
  passphrase_changed: ["S", "Call session.unlock(passphrase) with the new passphrase."],
  account_mismatch: ["A", "Call wipe and accounts.forget to make room."],
  no_store: ["N", "Open once in `synced` with the network up."],
} as const satisfies Faults;

/** An error of this table. */
export const fault = (code: keyof typeof FAULTS, message: string, cause?: unknown): EscaleError => faultOf(FAULTS, code, message, cause);

/** The error for the fault that a server or an adapter has given. Undefined if it is none: a fault has a code. */
export const refusalOf = (given: (Refusal & { status?: number }) | undefined, status = given?.status ?? 0): EscaleError | undefined =>
  typeof given?.code === "string" ? refused(FAULTS, status, given.code, given) : undefined;
