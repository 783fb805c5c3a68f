/** An account that a session has entered: its tokens, and its passphrase (R74 to R77). */

import type { EscaleError } from "../base/errors.js";
import { backOff, codeOf, sleep, toBytes, toText, wake, type Bytes, type Sleepers } from "../shared.js";
import type { LiveStatus } from "../session/status.js";
import type { AccountEntry, EnterOptions, Identity } from "../session/entry.js";
import type { Ending, Role } from "../wasm/core.js";
import { fault } from "./faults.js";
import { derive, identityOf, loginOf, saltOf } from "./formulas.js";
import { recordOf, type DeviceRecord } from "./record.js";
import { passkeySecret, passphraseSecret, unsealKey, wrap, type Secret } from "./secret.js";
import { ask, proven, signIn, type Server, type SignedIn, type Way } from "./wire.js";

/** The pauses between attempts to sign in while the server cannot be reached. */
const PAUSE_FIRST_MS = 1_000;
const PAUSE_MAX_MS = 60_000;

/** A pause is longer by less than that: devices must not come back all at once. */
const JITTER_MS = 256;

/** How often a tab that waits for a new passphrase looks whether another tab has it. */
const LOOK_MS = 3_000;

/** How long the sign-out of a wiped device may take. */
const SIGN_OUT_MS = 3_000;

/** Enters an account. The first time on a device, and in incognito, it asks the server. */
export const enter = async (options: EnterOptions): Promise<Entry> => {
  const { org, account: login, mode, server = "", passphrase, passkey, device: label } = options;
  if (login === "") throw fault("bad_option", "account: missing");
  const at: Server = { org, login, server };
  const record = await recordOf(at, mode !== "incognito");
  const { ways, device, account, role } = await record.read();
  const wayOf = (id: string): (typeof ways)[number] | undefined => ways.find((way) => way.id === id);
  let secret: Secret;
  if (passkey) {
    const ids = ways.filter(({ id }) => id !== "passphrase").map(({ id }) => toBytes(id));
    const { id, output } = await passkey.use(await saltOf(at), ids);
    secret = await passkeySecret(at, id, output);
  } else {
    if (passphrase === undefined) throw fault("bad_option", "passphrase: missing");
    secret = await passphraseSecret(at, passphrase, wayOf("passphrase")?.rounds);
  }
  const way = wayOf(secret.id);
  const key = way && (await unsealKey("device", secret, at, way.sealed));
  const mismatch = (cause?: unknown): EscaleError => fault("wrong_passphrase", "the account does not open with it here", cause);
  const known = key && (async () => entryOf(options, at, record, { key, secret, device, role: (await record.openRole(key, role)) as Role | undefined }));
  // Without a device's id, the server has ended the device or the account: it says first whether the account may enter.
  if (known && (device || mode === "avion")) return known();
  if (mode === "avion") {
    throw way ? mismatch() : fault("no_store", "the account was never opened here");
  }
  const sign = (id?: string): Promise<SignedIn> => signIn(at, passphrase ?? secret, { id, label });
  try {
    const signed = await sign(device).catch((error: unknown) => {
      // A device that was ended signs in as a new one.
      if (device && codeOf(error) === "device_revoked") return sign();
      throw error;
    });
    // Its record, and the store that opens by it, stay as they are (R75).
    if (account && account !== signed.identity.account) throw fault("account_mismatch", "the login has another account here");
    return await entryOf(options, at, record, signed);
  } catch (error) {
    if (known && codeOf(error) !== "account_closed") return known();
    // An account of an earlier version may have such a login, so the server was asked first.
    if (codeOf(error) === "wrong_passphrase" && loginOf(login) !== login) throw fault("bad_login", "it is not mapped", error);
    // With no network, a device that knows the account can tell that the passphrase is not the one it knows.
    throw codeOf(error) === "offline" && way ? mismatch(error) : error;
  }
};

/** An account that a session has entered, for this folder. */
export interface Entry extends AccountEntry {
  readonly at: Server;
  /** K. */
  readonly accountKey: Bytes;
  /** Adds a way in on this device. */
  readonly keep: (way: Secret) => Promise<void>;
  /** The account is closed: a later opening asks the server first. */
  readonly leave: () => Promise<unknown>;
  /** Asks with a token, and once more with another one if the server refuses it. */
  withToken<T>(call: (at: Server, token: string) => Promise<T>): Promise<T>;
}

const entryOf = async (
  { mode, device: label }: EnterOptions,
  at: Server,
  record: DeviceRecord,
  opened: Pick<SignedIn, "key" | "secret" | "role"> & { device: string | undefined } | SignedIn,
): Promise<Entry> => {
  const accountKey = opened.key;
  let { secret, device } = opened;
  let identity: Identity = Object.freeze({ ...(await identityOf(accountKey, at.org)), role: opened.role });
  const key = mode === "incognito" ? undefined : await derive(accountKey, "device-store", await saltOf(at));
  /** The token of this tab. */
  let token: string | undefined;
  /** The last token, valid or not: a renewal carries it. */
  let last: string | undefined;
  /** The token that the session has now. */
  let given: string | undefined;
  /** The sign-in in flight. */
  let renewing: Promise<void> | undefined;
  /** The answer in flight to the session, which may ask again meanwhile. */
  let asking: Promise<string | undefined> | undefined;
  /** The pauses in flight. */
  const sleepers: Sleepers = new Set();
  let isEnded = false;
  let session: { end(word: Ending): Promise<void> } | undefined;
  let status: LiveStatus | undefined;

  const check = (): void => {
    if (isEnded) throw fault("bad_option", "the session is closed");
  };

  /** Before a request: in avion there is none. */
  const checkServer = (): void => {
    check();
    if (status?.mode === "avion") throw fault("offline", "the session is in avion");
  };

  /** Another secret opens the account from now on. The earlier one is cleared, once no sign-in in flight uses it. */
  const use = (next: Secret): void => {
    const before = secret;
    secret = next;
    if (before !== next) void Promise.allSettled([renewing]).then(() => before.x.fill(0));
  };

  /** Adds a way in on this device, and notes the results of a sign-in. */
  const keep = async (way: Secret, signed?: SignedIn): Promise<void> => {
    check();
    // A copy: the session may end meanwhile, and nothing may be sealed under a key that was cleared.
    const copy = accountKey.slice();
    await record.keep(way, copy, identity.account, signed);
    copy.fill(0);
  };

  /** A sign-in has happened: all tabs of the device have its token. */
  const has = (signed: SignedIn): Promise<void> => {
    token = last = signed.token;
    device = signed.device;
    use(signed.secret);
    return keep(signed.secret, signed);
  };

  /** Signs in again. Errors: those of `signIn`; `account_mismatch` if the server has another key. */
  const renew = async (way: Way): Promise<void> => {
    checkServer();
    const signed = await signIn(at, way, { id: device, label }, last);
    check();
    if (toText(signed.key) !== toText(accountKey)) {
      throw fault("account_mismatch", "the login has another account on the server");
    }
    signed.key.fill(0);
    await has(signed);
  };

  /** A token other than that one: this tab's, another tab's, or a new one. */
  const other = async (than?: string): Promise<string> => {
    check();
    const isFine = (): unknown => token && token !== than;
    if (!isFine()) {
      token = await record.token(accountKey);
      last = token ?? last;
    }
    if (!isFine()) await (renewing ??= renew(secret).finally(() => (renewing = undefined)));
    return token as string;
  };

  /** Ends after a while, when the network comes back, or by `wake`. */
  const pause = (ms: number): Promise<void> => sleep(sleepers, ms + Math.random() * JITTER_MS, true);

  const answer = async (refused: boolean): Promise<string | undefined> => {
    for (let failures = 0; !isEnded; failures++) {
      try {
        return (given = await other(refused ? given : undefined));
      } catch (error) {
        if (isEnded) break;
        const { code, retryable } = error as EscaleError;
        // The session finds that itself, says so, and tries again. The server will refuse this token.
        if (code === "offline" && !refused) return (given = "none");
        if (code === "wrong_passphrase") {
          status?.fail(fault("passphrase_changed", "the account has another passphrase", error));
          // Until this tab is unlocked, or another tab of the device has a token again.
          const before = token;
          for (;;) {
            const stored = await record.token(accountKey);
            const isOther = stored && stored !== given && stored !== last;
            if (isEnded || token !== before || isOther) break;
            await pause(LOOK_MS);
          }
          failures = 0;
        } else if (retryable) {
          await pause(backOff(PAUSE_FIRST_MS, PAUSE_MAX_MS, failures));
        } else {
          // The reason comes before the end, so that the application knows it then.
          status?.fail(error);
          // The server has ended this device or the account: the session locks, and a later opening is a new device.
          if (!isEnded && (code === "device_revoked" || code === "account_closed")) {
            await record.leave();
            await session?.end(code === "account_closed" ? "barred" : "revoked");
          }
          break;
        }
      }
    }
    return undefined;
  };

  const entry: Entry = {
    at,
    get identity() {
      return identity;
    },
    /** Opens the store of the device. */
    key,
    /** The account's key. */
    accountKey,
    keep,
    leave: record.leave,

    follow(opened: { end(word: Ending): Promise<void> }, live: LiveStatus): void {
      entries.set(opened, entry);
      session = opened;
      status = live;
      let seen: EscaleError | null = null;
      live.subscribe(({ error, role }) => {
        if (role && role !== identity.role) {
          identity = Object.freeze({ ...identity, role });
          // A copy: the session may end meanwhile.
          const copy = accountKey.slice();
          void record.keepRole(copy, role).finally(() => copy.fill(0));
        }
        if (error === seen) return;
        seen = error;
        // Without a socket only a sign-in tells whether the account may enter at all (R89).
        if (error?.code === "forbidden") void entry.token({ refused: true });
      });
    },

    mismatch: (cause: EscaleError) => fault("account_mismatch", "the store here is of another account, or of none", cause),

    /** The token for the session. It waits for the server, and for the new passphrase if that was changed elsewhere. */
    token: ({ refused }: { readonly refused: boolean }): Promise<string | undefined> =>
      (asking ??= answer(refused).finally(() => (asking = undefined))),

    /** Asks with a token, and once more with another one if the server refuses it. */
    async withToken(call) {
      checkServer();
      const first = await other();
      try {
        return await call(at, first);
      } catch (error) {
        if (codeOf(error) !== "unauthorized") throw error;
        return call(at, await other(first));
      }
    },

    async changePassphrase(old: string, next: string): Promise<void> {
      const way = await passphraseSecret(at, next);
      const put = [await wrap(way, at, accountKey)];
      try {
        await entry.withToken((_, allowing) => proven(at, old, "wraps", { put, revoke: "others" }, allowing));
      } catch (error) {
        if (codeOf(error) !== "offline") throw error;
        // The answer may be lost. If the new passphrase signs in, the change has happened.
        await renew(way).catch(() => {
          throw error;
        });
      }
      await keep(way);
      use(way);
    },

    async unlock(passphrase: string): Promise<void> {
      await renew(passphrase);
      wake(sleepers);
    },

    async wipe(): Promise<void> {
      const own = token ?? (await record.token(accountKey));
      // From here on nothing makes the record again.
      isEnded = true;
      wake(sleepers);
      if (own && status?.mode !== "avion") {
        void ask(at, { do: "sign-out" }, own).catch(() => {}).then(() => wake(sleepers));
        await pause(SIGN_OUT_MS);
      }
      await record.forget();
    },

    end(): void {
      isEnded = true;
      wake(sleepers);
      secret.x.fill(0);
      accountKey.fill(0);
      key?.fill(0);
      token = undefined;
    },
  };
  if ("token" in opened) await has(opened);
  return entry;
};

/** The account of each open session. */
export const entries = new WeakMap<object, Entry>();
