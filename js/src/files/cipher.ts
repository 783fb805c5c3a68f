/**
 * Sealing (R27): AES-256-GCM by WebCrypto, bound to the place of a record. Names are a keyed function of the hash, so that a
 * database tells nothing of its files. The keys cannot be read back.
 */

import { aes, HMAC, hmac, importKey, random, seal, toText, unseal, utf8, type Bytes } from "../shared.js";
import { closed } from "./faults.js";

/** `c` has chunks, `d` has records about files and rules. */
export type Table = "c" | "d";

/** The bytes of a name. */
const NAME = 16;

/** The raw keys: 32 bytes each. */
export interface Keys {
  readonly seal: Bytes;
  readonly index: Bytes;
}

/** Names records, seals and opens them. */
export interface Cipher {
  /** The name of the record about an object, a file or a rule. */
  name(table: Table, text: string): Promise<string>;
  seal(table: Table, name: string, plain: Bytes): Promise<Bytes>;
  /** Undefined if the keys, the place or a byte is another. */
  open(table: Table, name: string, sealed: Bytes): Promise<Bytes | undefined>;
  /** Drops the keys. */
  end(): void;
}

/** Takes the keys, and clears them. Without any, it makes some that nobody knows. */
export async function cipherOf(raw: Keys = { seal: random(32), index: random(32) }): Promise<Cipher> {
  let keys: CryptoKey[] = [];
  const key = (place: number): CryptoKey => {
    const key = keys[place];
    if (!key) throw closed();
    return key;
  };
  try {
    keys = [await importKey(raw.seal, aes(), "encrypt", "decrypt"), await importKey(raw.index, HMAC, "sign")];
  } finally {
    raw.seal.fill(0);
    raw.index.fill(0);
  }
  return {
    name: async (table, text) => toText((await hmac(key(1), utf8(`${table}/${text}`))).subarray(0, NAME)),
    seal: async (table, name, plain) => seal(key(0), plain, placeOf(table, name)),
    open: async (table, name, sealed) => unseal(key(0), sealed, placeOf(table, name)),
    end() {
      keys = [];
    },
  };
}

/** The place that a record is bound to. */
const placeOf = (table: Table, name: string): Bytes => utf8(`escale/1/${table}${name}`);
