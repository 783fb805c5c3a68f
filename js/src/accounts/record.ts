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
export class DeviceRecord {
  readonly #owner: Owner;
  readonly #name: string;
  readonly #isKept: boolean;

  private constructor(owner: Owner, name: string, isKept: boolean) {
    this.#owner = owner;
    this.#name = name;
    this.#isKept = isKept && typeof indexedDB !== "undefined";
  }

  static async of(owner: Owner, isKept = true): Promise<DeviceRecord> {
    const hash = await sha256(utf8(`escale/1/account-record/${owner.org}/${owner.login}`));
    return new DeviceRecord(owner, `escale1-account-${toText(hash.slice(0, 16))}`, isKept);
  }

  /** The record. */
  async read(): Promise<Stored> {
    const stored = await this.#with("readonly", (store) => store.get(0) as IDBRequest<Stored | undefined>);
    return stored ?? { ways: [] };
  }

  /** Opens the record: K. Undefined if the secret opens none of it. */
  async open(secret: Secret): Promise<Bytes | undefined> {
    const way = (await this.read()).ways.find(({ id, rounds }) => id === secret.id && rounds === secret.rounds);
    return way && unwrapHere(secret, this.#owner, way.sealed);
  }

  /** Adds a way into the account, or replaces the one of the same kind. */
  async keep(secret: Secret, key: Bytes, account: string): Promise<void> {
    const { id, rounds } = secret;
    const way = { id, rounds, sealed: await wrapHere(secret, this.#owner, key) };
    await this.#change((stored) => ({ ...stored, account, ways: [...stored.ways.filter((other) => other.id !== id), way] }));
  }

  /** Notes the device's id and its token. */
  async sign(key: Bytes, device: string | undefined, token: string | undefined): Promise<void> {
    const sealed = token === undefined ? undefined : await seal(await tokenKey(key), utf8(token), utf8(this.#name));
    await this.#change((stored) => ({ ...stored, device, token: sealed }));
  }

  /** The last token of this device, of any tab. */
  async token(key: Bytes): Promise<string | undefined> {
    const { token } = await this.read();
    const plain = token && (await unseal(await tokenKey(key), token, utf8(this.#name)));
    return plain && new TextDecoder().decode(plain);
  }

  /** Deletes it. */
  async forget(): Promise<void> {
    if (this.#isKept) await done(indexedDB.deleteDatabase(this.#name)).catch(() => {});
  }

  /** Changes the record in one transaction: another tab may change it, too. */
  async #change(change: (stored: Stored) => Stored): Promise<void> {
    await this.#with("readwrite", (store) => {
      const reading = store.get(0) as IDBRequest<Stored | undefined>;
      reading.onsuccess = () => store.put(change(reading.result ?? { ways: [] }), 0);
      return reading;
    });
  }

  /** Runs one request in a transaction. Without a working IndexedDB it gives nothing: the server has the account. */
  async #with<T>(mode: IDBTransactionMode, run: (store: IDBObjectStore) => IDBRequest<T>): Promise<T | undefined> {
    if (!this.#isKept) return undefined;
    try {
      const opening = indexedDB.open(this.#name, 1);
      opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
      const database = await done(opening);
      try {
        const transaction = database.transaction(STORE, mode, { durability: "strict" });
        const request = run(transaction.objectStore(STORE));
        await new Promise<void>((resolve, reject) => {
          transaction.oncomplete = () => resolve();
          transaction.onerror = transaction.onabort = () => reject(transaction.error ?? new Error("aborted"));
        });
        return request.result;
      } finally {
        database.close();
      }
    } catch {
      return undefined;
    }
  }
}

const tokenKey = (key: Bytes): Promise<Bytes> => derive(key, "device-token");

const done = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("failed"));
  });
