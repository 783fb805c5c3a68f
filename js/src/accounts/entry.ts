/** An account that a session has entered: its tokens, and its passphrase (R74 to R77). */

import type { EscaleError } from "../base/errors.js";
import type { LiveStatus } from "../session/status.js";
import type { AccountEntry, EnterOptions, Identity, PasskeySource } from "../session/entry.js";
import { fault } from "./faults.js";
import { derive, identityOf, random, saltOf, toBytes, toText, type Bytes } from "./formulas.js";
import { recordOf, type DeviceRecord } from "./record.js";
import { passkeySecret, passphraseSecret, wrap, type Secret } from "./secret.js";
import { ask, changeWraps, codeOf, signIn, type SecretSource, type Server, type SignedIn } from "./wire.js";

/** The pauses between attempts to sign in while the server cannot be reached. */
const PAUSE_MS = { first: 1_000, longest: 60_000 } as const;

/** How often a tab that waits for a new passphrase looks whether another tab has it. */
const LOOK_MS = 3_000;

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
    rounds === secret.rounds ? Promise.resolve(secret) : Promise.reject(fault("wrong_passphrase", "it was stored with other rounds")),
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

/** Enters an account. The first time on a device, and in incognito, it asks the server. */
export async function enter(options: EnterOptions): Promise<Entry> {
  const { org, account: login, mode, server, passphrase, passkey, device: label } = options;
  if (login === "") throw fault("bad_option", "account: missing");
  const at: Server = { org, login, server: server ?? "" };
  const isIncognito = mode === "incognito";
  const record = await recordOf(at, !isIncognito);
  const { ways, device, account: known } = await record.read();
  const secret = await secretOf(at, ways, passphrase, passkey);
  const key = await record.open(secret);
  if (key) return Entry.of({ at, record, secret, key, device, label, isIncognito });
  const isKnown = ways.some(({ id }) => id === secret.id);
  if (mode === "avion") {
    throw isKnown ? fault("wrong_passphrase", "the account does not open with it here") : fault("no_store", "the account was never opened here");
  }
  try {
    const source = passphrase === undefined ? sourceOf(secret) : passphraseSource(at, passphrase);
    const signed = await signInHere(at, source, device, label);
    if (known !== undefined && known !== signed.identity.account) {
      // Its record, and the store that opens by it, stay as they are (R75).
      throw fault("account_mismatch", "the login has another account here");
    }
    const entry = await Entry.of({ ...signed, at, record, label, isIncognito });
    await entry.has(signed);
    return entry;
  } catch (error) {
    // With no network, a device that knows the account can tell that the passphrase is not the one it knows.
    throw codeOf(error) === "offline" && isKnown
      ? fault("wrong_passphrase", "the account does not open with it here, and the server is not reached", error)
      : error;
  }
}

async function secretOf(
  at: Server,
  ways: readonly { id: string; rounds: number }[],
  passphrase: string | undefined,
  passkey: PasskeySource | undefined,
): Promise<Secret> {
  if (passkey) {
    const ids = ways.filter(({ id }) => id !== "passphrase").map(({ id }) => toBytes(id));
    const { id, output } = await passkey.use(await saltOf(at.org, at.login), ids);
    return passkeySecret(at, id, output);
  }
  if (passphrase === undefined) throw fault("bad_option", "passphrase: missing");
  return passphraseSecret(at, passphrase, ways.find(({ id }) => id === "passphrase")?.rounds);
}

/** The parts of an account that a session has entered. */
interface EntryParts {
  readonly at: Server;
  readonly record: DeviceRecord;
  readonly secret: Secret;
  /** K. */
  readonly key: Bytes;
  readonly device: string | undefined;
  readonly label: string | undefined;
  readonly isIncognito: boolean;
}

/** An account that a session has entered. */
export class Entry implements AccountEntry {
  readonly at: Server;
  readonly identity: Identity;
  /** Opens the store of the device. */
  readonly key: Bytes | undefined;
  /** The account's key. */
  readonly accountKey: Bytes;
  readonly #record: DeviceRecord;
  readonly #label: string | undefined;
  #secret: Secret;
  #device: string | undefined;
  #token: string | undefined;
  /** The last token, valid or not: a renewal carries it. */
  #last: string | undefined;
  /** The token that the session has now. */
  #given: string | undefined;
  /** The sign-in in flight. */
  #renewing: Promise<void> | undefined;
  /** The answer in flight to the session, which may ask again meanwhile. */
  #asking: Promise<string | undefined> | undefined;
  /** Ends the pause that the answer to the session makes. */
  #wake: (() => void) | undefined;
  #isEnded = false;
  #session: { lock(): Promise<void> } | undefined;
  #status: LiveStatus | undefined;

  private constructor({ at, record, secret, key, device, label }: EntryParts, identity: Identity, storeKey: Bytes | undefined) {
    this.at = at;
    this.#record = record;
    this.#secret = secret;
    this.accountKey = key;
    this.#device = device;
    this.#label = label;
    this.identity = identity;
    this.key = storeKey;
  }

  static async of(parts: EntryParts): Promise<Entry> {
    const { at, key, isIncognito } = parts;
    const storeKey = isIncognito ? undefined : await derive(key, "device-store", await saltOf(at.org, at.login));
    return new Entry(parts, await identityOf(key, at.org), storeKey);
  }

  /** A sign-in has happened: all tabs of the device have its token. */
  async has({ token, device, secret }: SignedIn & { secret: Secret }): Promise<void> {
    this.#check();
    this.#token = this.#last = token;
    this.#device = device;
    this.#use(secret);
    // A copy: the session may end meanwhile, and nothing may be sealed under a key that was cleared.
    const key = this.accountKey.slice();
    await this.#record.keep(secret, key, this.identity.account);
    await this.#record.sign(key, device, token);
    key.fill(0);
  }

  follow(session: { lock(): Promise<void> }, status: LiveStatus): void {
    entries.set(session, this);
    this.#session = session;
    this.#status = status;
    let last: EscaleError | null = null;
    status.subscribe(({ error }) => {
      if (error === last) return;
      last = error;
      // Without a socket only a sign-in tells whether the account may enter at all (R89).
      if (error?.code === "forbidden") void this.token({ refused: true });
    });
  }

  mismatch(cause: EscaleError): EscaleError {
    return fault("account_mismatch", "the store here is of another account, or of none", cause);
  }

  /** The token for the session. It waits for the server, and for the new passphrase if that was changed elsewhere. */
  readonly token = (why: { readonly refused: boolean }): Promise<string | undefined> =>
    (this.#asking ??= this.#ask(why).finally(() => (this.#asking = undefined)));

  async #ask({ refused }: { readonly refused: boolean }): Promise<string | undefined> {
    for (let pause: number = PAUSE_MS.first; !this.#isEnded; pause = Math.min(pause * 2, PAUSE_MS.longest)) {
      try {
        this.#given = await this.#other(refused ? this.#given : undefined);
        return this.#given;
      } catch (error) {
        const failed = error as EscaleError;
        if (failed.code === "offline" && !refused) {
          // The session finds that itself, says so, and tries again. The server will refuse this token.
          this.#given = "none";
          return this.#given;
        }
        if (failed.code === "wrong_passphrase") {
          this.#status?.fail(fault("passphrase_changed", "the account has another passphrase", error));
          await this.#newPassphrase();
          pause = PAUSE_MS.first;
        } else if (failed.retryable) {
          await this.#rest(pause);
        } else {
          // The reason comes before the end, so that the application knows it then.
          if (!this.#isEnded) this.#status?.fail(failed);
          if (failed.code === "device_revoked" || failed.code === "account_closed") await this.#turnedAway();
          return undefined;
        }
      }
    }
    return undefined;
  }

  /** Waits until this tab is unlocked, or another tab of the device has a token again. */
  async #newPassphrase(): Promise<void> {
    const before = this.#token;
    for (;;) {
      const token = await this.#record.token(this.accountKey);
      const isOther = token !== undefined && token !== this.#given && token !== this.#last;
      if (this.#isEnded || this.#token !== before || isOther) return;
      await this.#rest(LOOK_MS);
    }
  }

  /** Ends after a while, when the network comes back, or when there is no more to wait for. */
  async #rest(ms: number): Promise<void> {
    if (!this.#isEnded) await rest(ms, (wake) => (this.#wake = wake));
  }

  /** Asks with a token, and once more with another one if the server refuses it. */
  async withToken<T>(call: (token: string) => Promise<T>): Promise<T> {
    const token = await this.#other(undefined);
    try {
      return await call(token);
    } catch (error) {
      if (codeOf(error) !== "unauthorized") throw error;
      return call(await this.#other(token));
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
    await this.keep(secret);
    this.#use(secret);
  }

  async unlock(passphrase: string): Promise<void> {
    await this.#renew(passphraseSource(this.at, passphrase));
    this.#wake?.();
  }

  async wipe(): Promise<void> {
    const token = this.#token ?? (await this.#record.token(this.accountKey));
    // From here on nothing makes the record again.
    this.#isEnded = true;
    if (token !== undefined) {
      const signOut = ask(this.at, { do: "sign-out" }, token).catch(() => {});
      await rest(SIGN_OUT_MS, (wake) => void signOut.then(wake));
    }
    await this.#record.forget();
  }

  end(): void {
    this.#isEnded = true;
    this.#wake?.();
    this.#secret.x.fill(0);
    this.accountKey.fill(0);
    this.key?.fill(0);
    this.#token = undefined;
  }

  /** Another secret opens the account from now on. The earlier one is cleared, once no sign-in in flight uses it. */
  #use(secret: Secret): void {
    const { x } = this.#secret;
    this.#secret = secret;
    if (x !== secret.x) void (this.#renewing ?? Promise.resolve()).catch(() => {}).then(() => x.fill(0));
  }

  /** Adds a way in on this device. */
  async keep(secret: Secret): Promise<void> {
    this.#check();
    const key = this.accountKey.slice();
    await this.#record.keep(secret, key, this.identity.account);
    key.fill(0);
  }

  #check(): void {
    if (this.#isEnded) throw fault("bad_option", "the session is closed");
  }

  /** A token other than that one: this tab's, another tab's, or a new one. */
  async #other(than: string | undefined): Promise<string> {
    this.#check();
    const isFine = (): boolean => this.#token !== undefined && this.#token !== than;
    if (!isFine()) {
      this.#token = await this.#record.token(this.accountKey);
      this.#last = this.#token ?? this.#last;
    }
    if (!isFine()) await (this.#renewing ??= this.#renew(sourceOf(this.#secret)).finally(() => (this.#renewing = undefined)));
    return this.#token as string;
  }

  /** Signs in again. Errors: those of `signIn`; `account_mismatch` if the server has another key. */
  async #renew(source: SecretSource): Promise<void> {
    const signed = await signIn(this.at, source, { id: this.#device, label: this.#label }, this.#last);
    this.#check();
    if (toText(signed.key) !== toText(this.accountKey)) {
      throw fault("account_mismatch", "the login has another account on the server");
    }
    signed.key.fill(0);
    await this.has(signed);
  }

  /** The server has ended this device or the account: the session locks, and a later opening is a new device. */
  async #turnedAway(): Promise<void> {
    if (this.#isEnded) return;
    await this.#record.sign(this.accountKey, undefined, undefined);
    await this.#session?.lock();
  }
}

/** The account of each open session. */
export const entries = new WeakMap<object, Entry>();

/** Ends after a while, when the network comes back, or when `end` is called. */
function rest(ms: number, take: (end: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      globalThis.removeEventListener?.("online", end);
      resolve();
    };
    const timer = setTimeout(end, ms + (random(1)[0] ?? 0));
    globalThis.addEventListener?.("online", end);
    take(end);
  });
}
