/**
 * The account's record on the device: its key under each secret that this device has seen, and the device's id. It is in
 * a database of its own, and only sealed (docs/format.md).
 */

import { sha256, toBytes, toText, utf8, type Bytes } from "./formulas.js";
import { unwrapHere, wrapHere, type Owner, type Secret } from "./secret.js";

const STORE = "account";

/** The account as a device knows it. */
export interface Known {
  readonly key: Bytes;
  /** The device's id, once the server has given one. */
  readonly device: string | undefined;
}

/** One way to open the record. */
interface Way {
  readonly id: string;
  readonly rounds: number;
  readonly sealed: Bytes;
}

/** The record of an account on this device; without IndexedDB nothing stays. */
export class DeviceRecord {
  readonly #owner: Owner;
  readonly #name: string;

  private constructor(owner: Owner, name: string) {
    this.#owner = owner;
    this.#name = name;
  }

  static async of(owner: Owner): Promise<DeviceRecord> {
    const hash = await sha256(utf8(`escale/1/account-record/${owner.org}/${owner.login}`));
    return new DeviceRecord(owner, `escale1-account-${toText(hash.slice(0, 16))}`);
  }

  /** The ways in. */
  async ways(): Promise<Way[]> {
    return (await this.#with("readonly", (store) => store.get(0) as IDBRequest<Way[] | undefined>)) ?? [];
  }

  /** Opens the record. Undefined if the secret opens none of it. */
  async open(secret: Secret): Promise<Known | undefined> {
    const way = (await this.ways()).find(({ id, rounds }) => id === secret.id && rounds === secret.rounds);
    const plain = way && (await unwrapHere(secret, this.#owner, way.sealed));
    if (!plain) return undefined;
    const device = plain.slice(32);
    return { key: plain.slice(0, 32), device: device.length > 0 ? toText(device) : undefined };
  }

  /** Stores the account under a secret. */
  async keep(secret: Secret, { key, device }: Known): Promise<void> {
    const plain = new Uint8Array([...key, ...(device === undefined ? [] : toBytes(device))]);
    const sealed = await wrapHere(secret, this.#owner, plain);
    plain.fill(0);
    const { id, rounds } = secret;
    const others = (await this.ways()).filter((way) => way.id !== id);
    await this.#with("readwrite", (store) => store.put([...others, { id, rounds, sealed }], 0));
  }

  /** Deletes it. */
  async forget(): Promise<void> {
    if (typeof indexedDB === "undefined") return;
    await done(indexedDB.deleteDatabase(this.#name)).catch(() => {});
  }

  /** Runs one request in a transaction. Without a working IndexedDB it gives nothing: the server has the account. */
  async #with<T>(mode: IDBTransactionMode, run: (store: IDBObjectStore) => IDBRequest<T>): Promise<T | undefined> {
    if (typeof indexedDB === "undefined") return undefined;
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

const done = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("failed"));
  });
