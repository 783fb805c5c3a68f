/**
 * The account's record on the device: its key under each secret that this device has seen, its token, and the device's id.
 * Key and token are sealed. It is in a database of its own, which all tabs share (docs/format.md).
 */

import { derive, seal, sha256, toText, unseal, utf8, type Bytes } from "./formulas.js";
import { unwrapHere, wrapHere, type Owner, type Secret } from "./secret.js";

const STORE = "account";

/** One way to open the record. */
interface Way {
  readonly id: string;
  readonly rounds: number;
  readonly sealed: Bytes;
}

/** The record as it is stored. */
interface Stored {
  readonly ways: readonly Way[];
  /** The account id: a record never changes to another account. */
  readonly account?: string | undefined;
  /** The device's id, once the server has given one. */
  readonly device?: string | undefined;
  /** The last token, under a key that follows from K. */
  readonly token?: Bytes | undefined;
}

/** The record of an account on this device; without IndexedDB, and in incognito, nothing stays. */
export type DeviceRecord = Awaited<ReturnType<typeof recordOf>>;

/** The record of an account. */
export async function recordOf(owner: Owner, isKept = true) {
  const hash = await sha256(utf8(`escale/1/account-record/${owner.org}/${owner.login}`));
  const name = `escale1-account-${toText(hash.slice(0, 16))}`;

  /** Reads the record, and changes it in the same transaction: another tab may change it, too. */
  const access = async (change?: (stored: Stored) => Stored): Promise<Stored> => {
    let stored: Stored = { ways: [] };
    const run = async (): Promise<void> => {
      const opening = indexedDB.open(name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
      const database = await done(opening);
      try {
        const transaction = database.transaction(STORE, change ? "readwrite" : "readonly", { durability: "strict" });
        const store = transaction.objectStore(STORE);
        const reading = store.get(0) as IDBRequest<Stored | undefined>;
        reading.onsuccess = () => {
          stored = reading.result ?? stored;
          if (change) store.put(change(stored), 0);
        };
        await new Promise((resolve, reject) => {
          transaction.oncomplete = resolve;
          transaction.onabort = reject;
        });
      } finally {
        database.close();
      }
    };
    if (isKept) await attempt(run);
    return stored;
  };

  return {
    /** The record. */
    read: (): Promise<Stored> => access(),

    /** Opens the record: K. Undefined if the secret opens none of it. */
    async open(secret: Secret): Promise<Bytes | undefined> {
      const way = (await access()).ways.find(({ id, rounds }) => id === secret.id && rounds === secret.rounds);
      return way && unwrapHere(secret, owner, way.sealed);
    },

    /** Adds a way into the account, or replaces the one of the same kind. */
    async keep(secret: Secret, key: Bytes, account: string): Promise<void> {
      const { id, rounds } = secret;
      const way = { id, rounds, sealed: await wrapHere(secret, owner, key) };
      await access((stored) => ({ ...stored, account, ways: [...stored.ways.filter((other) => other.id !== id), way] }));
    },

    /** Notes the device's id and its token. */
    async sign(key: Bytes, device: string | undefined, token: string | undefined): Promise<void> {
      const sealed = token === undefined ? undefined : await seal(await tokenKey(key), utf8(token), utf8(name));
      await access((stored) => ({ ...stored, device, token: sealed }));
    },

    /** The last token of this device, of any tab. */
    async token(key: Bytes): Promise<string | undefined> {
      const { token } = await access();
      const plain = token && (await unseal(await tokenKey(key), token, utf8(name)));
      return plain && new TextDecoder().decode(plain);
    },

    /** Deletes it. */
    async forget(): Promise<void> {
      if (isKept) await attempt(() => done(indexedDB.deleteDatabase(name)));
    },
  };
}

/** Without a working IndexedDB nothing stays: the server has the account. */
async function attempt(run: () => Promise<unknown>): Promise<void> {
  try {
    await run();
  } catch {
    // Nothing stays.
  }
}

const tokenKey = (key: Bytes): Promise<Bytes> => derive(key, "device-token");

const done = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = reject;
  });
