/** The part of `escale/accounts` that a session uses. The main entry holds its types only. */

import type { Adapter, Ending, Role } from "../wasm/core.js";
import type { EscaleError } from "../base/errors.js";
import type { LiveStatus, Mode } from "./status.js";
import type { TokenSource } from "./token.js";

/** Who a session's user is, as other people can check it. */
export interface Identity {
  /** The account id: 22 characters that follow from the public key. */
  readonly account: string;
  /** The public key of X25519: 32 bytes. */
  readonly publicKey: Uint8Array;
  /** The account id as 8 groups of 5 digits, for two people to compare. */
  readonly fingerprint: string;
  /**
   * The role in the org, as the server gave it last: at the sign-in, with no network too, and by each reply since. The object
   * is another one after a change, and `status` calls back. Undefined if the server gave none.
   */
  readonly role?: Role | undefined;
}

/** The way into an account, as `open` takes it: the `accounts` of `escale/accounts`. */
export interface Door {
  /** Opens an account, on this device or by the server. */
  enter(options: EnterOptions): Promise<AccountEntry>;
}

/** The `passkeys` of `escale/passkeys`. */
export interface PasskeySource {
  /** Asks the user for a passkey, and gives its id and its secret. */
  use(salt: Uint8Array<ArrayBuffer>, ids: readonly Uint8Array<ArrayBuffer>[]): Promise<{ id: Uint8Array<ArrayBuffer>; output: Uint8Array<ArrayBuffer> }>;
}

/** The options of `open` that lead to an account. */
export interface EnterOptions {
  readonly org: string;
  readonly account: string;
  readonly mode: Mode;
  readonly server: string | Adapter | undefined;
  readonly passphrase: string | undefined;
  readonly passkey: PasskeySource | undefined;
  readonly device: string | undefined;
}

/** An account that a session has entered. */
export interface AccountEntry {
  readonly identity: Identity;
  /** Opens the store of the device. Undefined in incognito. */
  readonly key: Uint8Array | undefined;
  readonly token: TokenSource;
  /** The session is open. `end` ends it in every tab. */
  follow(session: { end(word: Ending): Promise<void> }, status: LiveStatus): void;
  /** The error for a store that the account's key does not open. */
  mismatch(cause: EscaleError): EscaleError;
  changePassphrase(old: string, next: string): Promise<void>;
  unlock(passphrase: string): Promise<void>;
  /** Signs the device out if the server can be reached, and deletes the account's record on the device. */
  wipe(): Promise<void>;
  /** Clears every secret. */
  end(): void;
}
