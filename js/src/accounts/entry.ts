/** An account that a session has entered: its tokens, and its passphrase (R74 to R77). */

import type { EscaleError } from "../base/errors.js";
import type { AccountEntry, EnterOptions, Identity, PasskeySource } from "../session/entry.js";
import { Deferred } from "../base/deferred.js";
import { fault } from "./faults.js";
import { derive, identityOf, random, saltOf, toBytes, toText, type Bytes } from "./formulas.js";
import { DeviceRecord, type Known } from "./record.js";
import { passkeySecret, passphraseSecret, wrap, type Secret } from "./secret.js";
import { ask, changeWraps, signIn, type SecretSource, type Server, type SignedIn } from "./wire.js";

/** The pauses between attempts to sign in while the server cannot be reached. */
const PAUSE_MS = { first: 1_000, longest: 60_000 } as const;

/** How long the sign-out of a wiped device may take. */
const SIGN_OUT_MS = 3_000;

/** The source of a passphrase, for the rounds that the server names. */
export const passphraseSource = (at: Server, passphrase: string): SecretSource => ({
  id: "passphrase",
  of: (rounds) => passphraseSecret(at, passphrase, rounds),
});

/** The source of a secret that was made before. */
export const sourceOf = (secret: Secret): SecretSource => ({
  id: secret.id,
  of: (rounds) =>
    rounds === secret.rounds ? Promise.resolve(secret) : Promise.reject(fault("wrong_passphrase", "the passphrase was stored anew")),
});

/** Signs in with the device's id; if that was ended, as a new device. */
async function signInHere(at: Server, source: SecretSource, id: string | undefined, label: string | undefined): Promise<SignedIn & { secret: Secret }> {
  try {
    return await signIn(at, source, { id, label });
  } catch (error) {
    if (id === undefined || codeOf(error) !== "device_revoked") throw error;
    return signIn(at, source, { label });
  }
}

const codeOf = (error: unknown): unknown => (error as { code?: unknown }).code;

/** Enters an account. The first time on a device, and in incognito, it asks the server. */
export async function enter(options: EnterOptions): Promise<Entry> {
  const { org, account: login, mode, server, passphrase, passkey, device: label } = options;
  if (login === "") throw fault("bad_option", "account: the login is missing");
  const at: Server = { org, login, server: server ?? "" };
  const record = await DeviceRecord.of(at);
  const ways = mode === "incognito" ? [] : await record.ways();
  const secret = await secretOf(at, ways, passphrase, passkey);
  const known = mode === "incognito" ? undefined : await record.open(secret);
  if (known) return Entry.of(at, record, secret, known, label);
  if (mode === "avion") {
    const isKnown = ways.some(({ id }) => id === secret.id);
    throw isKnown ? fault("wrong_passphrase", "the account does not open with it") : fault("no_store", "the account was never opened on this device");
  }
  let signed: SignedIn & { secret: Secret };
  try {
    const source = passphrase === undefined ? sourceOf(secret) : passphraseSource(at, passphrase);
    signed = await signInHere(at, source, undefined, label);
  } catch (error) {
    // With no network, a device that knows the account can tell that the passphrase is not the one it knows.
    const isWrong = codeOf(error) === "offline" && ways.some(({ id }) => id === secret.id);
    throw isWrong ? fault("wrong_passphrase", "the device does not open with it, and the server cannot be asked", error) : error;
  }
  const entered = { key: signed.key, device: signed.device };
  if (mode !== "incognito") await record.keep(signed.secret, entered);
  const entry = await Entry.of(at, record, signed.secret, entered, label);
  entry.has(signed, mode === "incognito");
  return entry;
}

async function secretOf(
  at: Server,
  ways: { id: string; rounds: number }[],
  passphrase: string | undefined,
  passkey: PasskeySource | undefined,
): Promise<Secret> {
  if (passkey) {
    const ids = ways.filter(({ id }) => id !== "passphrase").map(({ id }) => toBytes(id));
    const { id, output } = await passkey.use(await saltOf(at.org, at.login), ids);
    return passkeySecret(at, id, output);
  }
  if (passphrase === undefined) throw fault("bad_option", "passphrase: an account needs it, or a passkey");
  return passphraseSecret(at, passphrase, ways.find(({ id }) => id === "passphrase")?.rounds);
}

/** An account that a session has entered. */
export class Entry implements AccountEntry {
  readonly at: Server;
  readonly identity: Identity;
  /** Opens the store of the device. */
  key: Bytes | undefined;
  /** The account's key. */
  readonly accountKey: Bytes;
  readonly #record: DeviceRecord;
  readonly #label: string | undefined;
  #secret: Secret;
  #device: string | undefined;
  #isIncognito = false;
  #token: string | undefined;
  /** Whether the session has not taken the token yet. */
  #isFresh = false;
  #unlocked: Deferred<void> | undefined;
  readonly #ended = new Deferred<void>();
  #isEnded = false;
  #on: { fail(error: EscaleError): void; lock(): Promise<void> } | undefined;

  private constructor(at: Server, record: DeviceRecord, secret: Secret, known: Known, identity: Identity, label: string | undefined) {
    this.at = at;
    this.#record = record;
    this.#secret = secret;
    this.accountKey = known.key;
    this.#device = known.device;
    this.#label = label;
    this.identity = identity;
  }

  static async of(at: Server, record: DeviceRecord, secret: Secret, known: Known, label: string | undefined): Promise<Entry> {
    const entry = new Entry(at, record, secret, known, await identityOf(known.key, at.org), label);
    entry.key = await derive(known.key, "device-store", await saltOf(at.org, at.login));
    return entry;
  }

  /** A sign-in has given a token. */
  has({ token, device }: SignedIn, isIncognito = this.#isIncognito): void {
    this.#isIncognito = isIncognito;
    if (isIncognito) this.key = undefined;
    this.#token = token;
    this.#isFresh = true;
    this.#device = device;
  }

  follow(session: object, on: { fail(error: EscaleError): void; lock(): Promise<void> }): void {
    entries.set(session, this);
    this.#on = on;
  }

  mismatch(cause: EscaleError): EscaleError {
    return fault("account_mismatch", "the store on this device belongs to another account, or was made without accounts", cause);
  }

  /** The token for the session. It waits for the network, and for the new passphrase if that was changed elsewhere. */
  readonly token = async (): Promise<string | undefined> => {
    for (let pause: number = PAUSE_MS.first; !this.#isEnded; pause = Math.min(pause * 2, PAUSE_MS.longest)) {
      try {
        if (!this.#isFresh) await this.#renew(sourceOf(this.#secret));
        this.#isFresh = false;
        return this.#token;
      } catch (error) {
        const failed = error as EscaleError;
        if (failed.code === "wrong_passphrase") {
          this.#on?.fail(fault("passphrase_changed", "the passphrase was changed on another device", error));
          this.#unlocked = new Deferred();
          await Promise.race([this.#unlocked.promise, this.#ended.promise]);
          pause = PAUSE_MS.first;
        } else if (failed.retryable) {
          await Promise.race([rest(pause), this.#ended.promise]);
        } else {
          if (failed.code === "device_revoked" || failed.code === "account_closed") await this.#turnedAway();
          this.#on?.fail(failed);
          return undefined;
        }
      }
    }
    return undefined;
  };

  /** A valid token, for a request of the application. */
  async validToken(): Promise<string> {
    if (this.#token === undefined) await this.#renew(sourceOf(this.#secret));
    return this.#token as string;
  }

  /** Asks with a token, and once more with a new one if the server refuses it. */
  async withToken<T>(call: (token: string) => Promise<T>): Promise<T> {
    try {
      return await call(await this.validToken());
    } catch (error) {
      if (codeOf(error) !== "unauthorized") throw error;
      await this.#renew(sourceOf(this.#secret));
      return call(await this.validToken());
    }
  }

  async changePassphrase(old: string, next: string): Promise<void> {
    const secret = await passphraseSecret(this.at, next);
    const put = [await wrap(secret, this.at, this.accountKey)];
    try {
      await this.withToken((token) => changeWraps(this.at, passphraseSource(this.at, old), { put, revoke: "others" }, token));
    } catch (error) {
      if (codeOf(error) !== "offline") throw error;
      // The answer may be lost. If the new passphrase signs in, the change has happened.
      await this.#renew(sourceOf(secret)).catch(() => {
        throw error;
      });
    }
    this.#secret = secret;
    await this.keep(secret);
  }

  async unlock(passphrase: string): Promise<void> {
    await this.#renew(passphraseSource(this.at, passphrase));
    this.#unlocked?.resolve();
  }

  async wipe(): Promise<void> {
    const token = this.#token;
    if (token !== undefined) {
      const signOut = ask(this.at, { do: "sign-out" }, token).catch(() => {});
      await Promise.race([signOut, rest(SIGN_OUT_MS)]);
    }
    await this.#record.forget();
  }

  end(): void {
    this.#isEnded = true;
    this.#ended.resolve();
    this.#secret.x.fill(0);
    this.accountKey.fill(0);
    this.key?.fill(0);
    this.#token = undefined;
  }

  /** Signs in again. Errors: those of `signIn`; `account_mismatch` if the server has another key. */
  async #renew(source: SecretSource): Promise<void> {
    const device = { id: this.#device, label: this.#label };
    const signed = await signIn(this.at, source, device, this.#token);
    if (toText(signed.key) !== toText(this.accountKey)) {
      throw fault("account_mismatch", "the server has another key for this login");
    }
    this.has(signed);
    await this.keep(signed.secret);
    this.#secret = signed.secret;
  }

  /** Stores a way in on this device, with its device id. */
  async keep(secret: Secret): Promise<void> {
    if (!this.#isIncognito) await this.#record.keep(secret, { key: this.accountKey, device: this.#device });
  }

  /** The server has ended this device or the account: the session locks, and a later opening is a new device. */
  async #turnedAway(): Promise<void> {
    this.#device = undefined;
    await this.keep(this.#secret);
    await this.#on?.lock();
  }
}

/** The account of each open session. */
export const entries = new WeakMap<object, Entry>();

/** Ends after a while, or when the network comes back. */
function rest(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      globalThis.removeEventListener?.("online", end);
      resolve();
    };
    const timer = setTimeout(end, ms + (random(1)[0] ?? 0));
    globalThis.addEventListener?.("online", end);
  });
}
