/** The requests of an account's owner: sign up, recover, devices, other ways in. */

import type { Adapter } from "../wasm/core.js";
import { codeOf as bytesOf, codeText } from "./code.js";
import { entries, passphraseSource, sourceOf, type Entry } from "./entry.js";
import { fault } from "./faults.js";
import { identityOf, random, saltOf, toBytes, type Bytes } from "./formulas.js";
import { recordOf } from "./record.js";
import { codeSecret, passkeySecret, passphraseSecret, wrap, type Wrap } from "./secret.js";
import { ask, changeWraps, codeOf, proven, signIn, type AccountDevice, type Server, type WrapInfo } from "./wire.js";

/** Where an account is, or is to be. */
export interface AccountPlace {
  /** The server's address, or an adapter with a method `account`. */
  server: string | URL | Adapter;
  /** The org's code. */
  org: string;
  /** The login. */
  account: string;
}

/** How often a sign-up is sent whose answer was lost. The server gives a repeat the same answer. */
const SIGN_UPS_MAX = 3;

const placeOf = ({ server, org, account, passphrase }: AccountPlace & { passphrase: string }): Server => {
  for (const [name, text] of Object.entries({ org, account, passphrase })) {
    if (typeof text !== "string" || text === "") throw fault("bad_option", `${name}: must be a string, not empty`);
  }
  return { server, org, login: account };
};

const entryOf = (session: object): Entry => {
  const entry = entries.get(session);
  if (!entry) throw fault("bad_option", "the session was not opened with `accounts`");
  return entry;
};

async function newCode(at: Server, key: Bytes): Promise<{ code: string; put: Wrap }> {
  const code = random(20);
  return { code: codeText(code), put: await wrap(await codeSecret(at, code), at, key) };
}

/**
 * Makes an account. Its key is made here, and the server never learns it. Open a session with the same passphrase
 * afterwards. With `from`, a session of the account, the server gets the same account again that it has lost. Errors: `login_taken`, `invitation_needed`, `invitation_unknown`, `too_many`, `offline`.
 */
export async function signUp(
  options: AccountPlace & { passphrase: string; invitation?: string; recoveryCode?: boolean; from?: object },
): Promise<{ account: string; code?: string }> {
  const at = placeOf(options);
  const key = options.from ? entryOf(options.from).accountKey.slice() : random(32);
  const { account, publicKey } = await identityOf(key, at.org);
  const wraps = [await wrap(await passphraseSecret(at, options.passphrase), at, key)];
  const made = options.recoveryCode ? await newCode(at, key) : undefined;
  if (made) wraps.push(made.put);
  const { invitation: invite } = options;
  for (let tries = 1; ; tries++) {
    try {
      const answer = await ask(at, { do: "sign-up", login: at.login, pub: publicKey, wraps, ...(invite && { invite }) });
      if (answer["account"] !== account) throw fault("bad_reply", "sign-up: another account's id");
      return { account, ...(made && { code: made.code }) };
    } catch (error) {
      const code = codeOf(error);
      if (code === "login_taken") return signedUpBefore(at, options, error);
      if (code !== "offline" || tries === SIGN_UPS_MAX) throw error;
    }
  }
}

/** An earlier sign-up may have happened, with its answer lost: then the passphrase opens the account. */
async function signedUpBefore(
  at: Server,
  { passphrase, recoveryCode }: { passphrase: string; recoveryCode?: boolean },
  taken: unknown,
): Promise<{ account: string; code?: string }> {
  const source = passphraseSource(at, passphrase);
  const signed = await signIn(at, source, {}).catch((error: unknown) => {
    throw codeOf(error) === "wrong_passphrase" ? taken : error;
  });
  const made = recoveryCode ? await newCode(at, signed.key) : undefined;
  if (made) await changeWraps(at, source, { put: [made.put] }, signed.token);
  await ask(at, { do: "sign-out" }, signed.token);
  return { account: signed.identity.account, ...(made && { code: made.code }) };
}

/** Sets a new passphrase by the recovery code. All devices then ask for it. Errors: `wrong_passphrase`, `offline`. */
export async function recover(options: AccountPlace & { code: string; passphrase: string }): Promise<void> {
  const at = placeOf(options);
  const code = bytesOf(options.code);
  if (!code) throw fault("wrong_passphrase", "code: not 32 letters and digits");
  const source = sourceOf(await codeSecret(at, code));
  const signed = await signIn(at, source, {});
  const put = [await wrap(await passphraseSecret(at, options.passphrase), at, signed.key)];
  await changeWraps(at, source, { put, revoke: "others" }, signed.token);
  await ask(at, { do: "sign-out" }, signed.token);
}

/** Makes a recovery code: 32 characters, shown once. It opens the account if the passphrase is lost. */
export async function addCode(session: object, passphrase: string): Promise<string> {
  const entry = entryOf(session);
  const { code, put } = await newCode(entry.at, entry.accountKey);
  await change(entry, passphrase, { put: [put] });
  return code;
}

/** @internal The salt and the login for a passkey of the session's account, and its way into the account. */
export async function placeOfPasskey(session: object): Promise<{
  salt: Bytes;
  login: string;
  /** Proves the passphrase, and gives the ids of the passkeys that there are. */
  check: (passphrase: string) => Promise<Bytes[]>;
  keep: (made: { id: Bytes; output: Bytes }, passphrase: string) => Promise<void>;
}> {
  const entry = entryOf(session);
  return {
    salt: await saltOf(entry.at.org, entry.at.login),
    login: entry.at.login,
    check: async (passphrase) => {
      await change(entry, passphrase, {});
      return (await wraps(session)).filter(({ by }) => by === "passkey").map(({ id }) => toBytes(id));
    },
    keep: async ({ id, output }, passphrase) => {
      const secret = await passkeySecret(entry.at, id, output);
      await change(entry, passphrase, { put: [await wrap(secret, entry.at, entry.accountKey)] });
      await entry.keep(secret);
    },
  };
}

const change = (entry: Entry, passphrase: string, changes: { put?: Wrap[]; remove?: string[] }): Promise<unknown> =>
  entry.withToken((token) => changeWraps(entry.at, passphraseSource(entry.at, passphrase), changes, token));

/** A request that the token alone allows. */
function asked(session: object, request: object): Promise<Record<string, unknown>> {
  const entry = entryOf(session);
  return entry.withToken((token) => ask(entry.at, request, token));
}

/** The ways to open the account. */
export const wraps = async (session: object): Promise<WrapInfo[]> => (await asked(session, { do: "wraps" }))["wraps"] as WrapInfo[];

/** Removes a way to open the account. The last passphrase or code stays. */
export async function removeWrap(session: object, id: string, passphrase: string): Promise<void> {
  await change(entryOf(session), passphrase, { remove: [id] });
}

/** The devices that have signed in. */
export const devices = async (session: object): Promise<AccountDevice[]> =>
  (await asked(session, { do: "devices" }))["devices"] as AccountDevice[];

/** Signs a device out, or all others. Its session locks once it hears of it; its data stays on it, encrypted (R77). */
export async function revoke(session: object, device: string): Promise<void> {
  await asked(session, { do: "revoke", device });
}

/**
 * Closes the account for ever. Its login stays taken. Data on devices opens in `avion`. Errors: `last_admin` for the only
 * administrator of the org, unless `force` is set.
 */
export async function close(session: object, passphrase: string, options: { force?: boolean } = {}): Promise<void> {
  const entry = entryOf(session);
  const other = options.force === true ? { force: true } : {};
  await entry.withToken((token) => proven(entry.at, passphraseSource(entry.at, passphrase), "close", other, token));
}

/** Deletes the account's record from this device, after `wipe({ org, account })`. */
export async function forget({ org, account }: { org: string; account: string }): Promise<void> {
  await (await recordOf({ org, login: account })).forget();
}
