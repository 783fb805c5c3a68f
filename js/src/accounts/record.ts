/**
 * The account's record on the device: its key under each secret that this device has seen, its token, and the device's id.
 * Key and token are sealed. It is in a database of its own, which all tabs share (docs/format.md).
 */

import { openDatabase, seal, settled, sha256, textOf, toText, transact, unseal, utf8, type Bytes } from "../shared.js";
import { derive, type Owner } from "./formulas.js";
import { sealKey, type Secret } from "./secret.js";

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
  /** The last role, under the same key. */
  readonly role?: Bytes | undefined;
}

/** The record of an account on this device; without IndexedDB, and in incognito, nothing stays. */
export type DeviceRecord = Awaited<ReturnType<typeof recordOf>>;

/** The record of an account. */
export const recordOf = async (owner: Owner, isKept = true) => {
  const hash = await sha256(utf8(`escale/1/account-record/${owner.org}/${owner.login}`));
  const name = `escale1-account-${toText(hash.slice(0, 16))}`;

  /** Without a working IndexedDB nothing stays: the server has the account. */
  const onDevice = async (run: () => Promise<unknown>): Promise<void> => {
    if (isKept) await run().catch(() => {});
  };

  /** Reads the record, and changes it in the same transaction: another tab may change it, too. */
  const access = async (change?: (stored: Stored) => Stored): Promise<Stored> => {
    let stored: Stored = { ways: [] };
    await onDevice(async () => {
      const database = await openDatabase(indexedDB, name, STORE);
      try {
        await transact(database, change ? "readwrite" : "readonly", "strict", async (transaction) => {
          const store = transaction.objectStore(STORE);
          stored = (await settled(store.get(0) as IDBRequest<Stored | undefined>)) ?? stored;
          if (change) store.put(change(stored), 0);
        });
      } finally {
        database.close();
      }
    });
    return stored;
  };

  const sealed = async (key: Bytes, text: string, as: string): Promise<Bytes> => seal(await tokenKey(key), utf8(text), utf8(as));
  const opened = async (key: Bytes, box: Bytes | undefined, as: string): Promise<string | undefined> => {
    const plain = box && (await unseal(await tokenKey(key), box, utf8(as)));
    return plain && textOf(plain);
  };
  const roleName = `${name}/role`;

  return {
    /** The record. */
    read: access,

    /** Adds a way into the account, or replaces the one of the same kind. After a sign-in it notes the results, too. */
    async keep(secret: Secret, key: Bytes, account: string, signed?: { device: string; token: string; role?: string | undefined }): Promise<void> {
      const { id, rounds } = secret;
      const way = { id, rounds, sealed: await sealKey("device", secret, owner, key) };
      const results = signed && {
        device: signed.device,
        token: await sealed(key, signed.token, name),
        ...(signed.role && { role: await sealed(key, signed.role, roleName) }),
      };
      await access(({ ways, ...stored }) => ({ ...stored, account, ways: [...ways.filter((other) => other.id !== id), way], ...results }));
    },

    /** The device is none of the account's any more. */
    leave: (): Promise<unknown> => access(({ ways, account }) => ({ ways, account })),

    /** The last token of this device, of any tab. */
    async token(key: Bytes): Promise<string | undefined> {
      return opened(key, (await access()).token, name);
    },

    /** The last role that the server gave, as the record holds it. */
    openRole: (key: Bytes, box: Bytes | undefined): Promise<string | undefined> => opened(key, box, roleName),

    /** The server gives another role. */
    async keepRole(key: Bytes, text: string): Promise<void> {
      const role = await sealed(key, text, roleName);
      await access((stored) => ({ ...stored, role }));
    },

    /** Deletes it. */
    forget: () => onDevice(async () => settled(indexedDB.deleteDatabase(name))),
  };
};

const tokenKey = (key: Bytes): Promise<Bytes> => derive(key, "device-token");
