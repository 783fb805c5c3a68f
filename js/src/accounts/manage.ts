/** The requests of an account's owner: sign up, recover, devices, other ways in. */

import { codeOf, isBytes, random, toBytes, type Bytes } from "../shared.js";
import type { Adapter } from "../wasm/core.js";
import { codeOf as bytesOf, codeText } from "./code.js";
import { entries, type Entry } from "./entry.js";
import { fault } from "./faults.js";
import { identityOf, saltOf } from "./formulas.js";
import { recordOf } from "./record.js";
import { codeSecret, passkeySecret, passphraseSecret, proveKey, wrap, type Wrap } from "./secret.js";
import { ask, proven, signIn, type AccountDevice, type Server, type WrapInfo } from "./wire.js";

/** Where an account is, or is to be. */
export interface AccountPlace {
  /** The server's address, or an adapter with a method `account`. */
  server: string | URL | Adapter;
  /** The org's code. */
  org: string;
  /** The login. */
  account: string;
}

/** Makes a passkey for a salt and a login. `others` are those that the account has. */
type MakePasskey = (salt: Bytes, login: string, others: readonly Bytes[]) => Promise<{ id: Bytes; output: Bytes }>;

/** How often a sign-up is sent whose answer was lost. The server gives a repeat the same answer. */
const SIGN_UPS_MAX = 3;

const placeOf = (options: AccountPlace & { passphrase: string }): Server => {
  for (const name of ["org", "account", "passphrase"] as const) {
    const text: unknown = options[name];
    if (typeof text !== "string" || text === "") throw fault("bad_option", `${name}: missing`);
  }
  return { ...options, login: options.account };
};

const entryOf = (session: object): Entry => {
  const entry = entries.get(session);
  if (!entry) throw fault("bad_option", "the session was not opened with `accounts`");
  return entry;
};

/**
 * Makes an account. Its key is made here, and the server never learns it. Open a session with the same passphrase
 * afterwards. With `from`, a session of the account, the server gets the same account again that it has lost. Errors: `bad_login`, `login_taken`, `invitation_needed`, `invitation_unknown`, `too_many`, `offline`.
 */
export const signUp = async (
  options: AccountPlace & { passphrase: string; invitation?: string; recoveryCode?: boolean; from?: object },
): Promise<{ account: string; code?: string }> => {
  const at = placeOf(options);
  const { passphrase, invitation: invite, recoveryCode, from } = options;
  const bytes = random(20);
  const made = recoveryCode ? { code: codeText(bytes) } : undefined;
  /** The key under the code, if there is to be one. */
  const codes = async (key: Bytes): Promise<Wrap[]> => (made ? [await wrap(await codeSecret(at, bytes), at, key)] : []);
  const key = from ? entryOf(from).accountKey.slice() : random(32);
  const { account, publicKey } = await identityOf(key, at.org);
  const wraps = [await wrap(await passphraseSecret(at, passphrase), at, key), ...(await codes(key))];
  const other = { pub: publicKey, wraps, ...(invite && { invite }) };
  for (let tries = 1; ; tries++) {
    try {
      const { login } = at;
      const { challenge, serverKey } = await ask(at, { do: "start", login });
      if (!isBytes(challenge)) throw fault("bad_reply", "start: a field is missing");
      const asked = { do: "sign-up", challenge, nonce: random(32) };
      const proof = await proveKey(key, serverKey, at, asked, other);
      const answer = await ask(at, { ...asked, login, proof, ...other });
      if (answer["account"] !== account) throw fault("bad_reply", "sign-up: another account's id");
      return { account, ...made };
    } catch (error) {
      const code = codeOf(error);
      if (code === "login_taken") {
        // An earlier sign-up may have happened, with its answer lost: then the passphrase opens the account.
        const signed = await signIn(at, passphrase).catch((later: unknown) => {
          throw codeOf(later) === "wrong_passphrase" ? error : later;
        });
        // A passphrase may open an account of another key as well. It is not the one of `from`.
        const isOwn = !from || signed.identity.account === account;
        if (made && isOwn) await proven(at, passphrase, "wraps", { put: await codes(signed.key) }, signed.token);
        await ask(at, { do: "sign-out" }, signed.token);
        if (!isOwn) throw error;
        return { account: signed.identity.account, ...made };
      }
      if ((code !== "offline" && code !== "contention") || tries === SIGN_UPS_MAX) throw error;
    }
  }
};

/** Sets a new passphrase by the recovery code. All devices then ask for it. Errors: `wrong_passphrase`, `offline`. */
export const recover = async (options: AccountPlace & { code: string; passphrase: string }): Promise<void> => {
  const at = placeOf(options);
  const code = bytesOf(options.code);
  if (!code) throw fault("wrong_passphrase", "code: not 32 letters and digits");
  const secret = await codeSecret(at, code);
  // A passphrase that cannot be one is refused before anything is sent.
  const next = await passphraseSecret(at, options.passphrase);
  const signed = await signIn(at, secret);
  const put = [await wrap(next, at, signed.key)];
  await proven(at, secret, "wraps", { put, revoke: "others" }, signed.token);
  await ask(at, { do: "sign-out" }, signed.token);
};

/** Makes a recovery code: 32 characters, shown once. It opens the account if the passphrase is lost. */
export const addCode = async (session: object, passphrase: string): Promise<string> => {
  const { at, accountKey } = entryOf(session);
  const code = random(20);
  await change(session, passphrase, { put: [await wrap(await codeSecret(at, code), at, accountKey)] });
  return codeText(code);
};

/** @internal Adds a passkey as a way into the session's account, once the passphrase is proved. */
export const addPasskey = async (session: object, passphrase: string, make: MakePasskey): Promise<void> => {
  const { at, accountKey, keep } = entryOf(session);
  // Before anything is made: a new passkey may take the place of the one that works.
  await change(session, passphrase, {});
  const others = (await wraps(session)).filter(({ by }) => by === "passkey").map(({ id }) => toBytes(id));
  const { id, output } = await make(await saltOf(at), at.login, others);
  const secret = await passkeySecret(at, id, output);
  await change(session, passphrase, { put: [await wrap(secret, at, accountKey)] });
  await keep(secret);
};

/** A request that the passphrase proves. */
const change = async (session: object, passphrase: string, other: object, name = "wraps"): Promise<void> => {
  await entryOf(session).withToken((at, token) => proven(at, passphrase, name, other, token));
};

/** A request that the token alone allows. Its result is the field of its name, if there is one. */
const asked = async (session: object, name: string, device?: string): Promise<unknown> =>
  (await entryOf(session).withToken((at, token) => ask(at, { do: name, device }, token)))[name];

/** The ways to open the account. */
export const wraps = (session: object): Promise<WrapInfo[]> => asked(session, "wraps") as Promise<WrapInfo[]>;

/** Removes a way to open the account. The last passphrase or code stays. */
export const removeWrap = (session: object, id: string, passphrase: string): Promise<void> =>
  change(session, passphrase, { remove: [id] });

/** The devices that have signed in. */
export const devices = (session: object): Promise<AccountDevice[]> => asked(session, "devices") as Promise<AccountDevice[]>;

/** Signs a device out, or all others. Its session locks once it hears of it; its data stays on it, encrypted (R77). */
export const revoke = async (session: object, device: string): Promise<void> => {
  await asked(session, "revoke", device);
};

/**
 * Closes the account for ever. Its login stays taken. Data on devices opens in `avion`. Errors: `last_admin` for the only
 * administrator of the org, unless `force` is set.
 */
export const close = async (session: object, passphrase: string, options: { force?: boolean } = {}): Promise<void> => {
  await change(session, passphrase, { force: options.force === true || undefined }, "close");
  await entryOf(session).leave();
};

/** Deletes the account's record from this device, after `wipe({ org, account })`. */
export const forget = async ({ org, account }: { org: string; account: string }): Promise<void> => {
  await (await recordOf({ org, login: account })).forget();
};
