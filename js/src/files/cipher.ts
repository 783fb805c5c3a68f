/**
 * Sealing (R27): AES-256-GCM by WebCrypto, bound to the place of a record. Names are a keyed function of the hash, so that a
 * database tells nothing of its files. The keys cannot be read back.
 */

import { join, random, toText, utf8, type Bytes } from "../base/binary.js";
import { closed } from "./faults.js";

/** `c` has chunks, `d` has records about files and rules. */
export type Table = "c" | "d";

/** The bytes of a nonce, in front of each record. */
const NONCE = 12;

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
async function of(raw: Keys = { seal: random(32), index: random(32) }): Promise<Cipher> {
  const { subtle } = crypto;
  let keys: CryptoKey[] = [];
  const key = (place: number): CryptoKey => {
    const key = keys[place];
    if (!key) throw closed();
    return key;
  };
  try {
    keys = [
      await subtle.importKey("raw", raw.seal, "AES-GCM", false, ["encrypt", "decrypt"]),
      await subtle.importKey("raw", raw.index, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]),
    ];
  } finally {
    raw.seal.fill(0);
    raw.index.fill(0);
  }
  return {
    async name(table, text) {
      const full = await subtle.sign("HMAC", key(1), utf8(`${table}/${text}`));
      return toText(new Uint8Array(full, 0, NAME));
    },
    async seal(table, name, plain) {
      const iv = random(NONCE);
      return join(iv, new Uint8Array(await subtle.encrypt(how(table, name, iv), key(0), plain)));
    },
    async open(table, name, sealed) {
      const own = key(0);
      try {
        return new Uint8Array(await subtle.decrypt(how(table, name, sealed.subarray(0, NONCE)), own, sealed.subarray(NONCE)));
      } catch {
        return undefined;
      }
    },
    end() {
      keys = [];
    },
  };
}

export const Cipher = { of };

const how = (table: Table, name: string, iv: Bytes): AesGcmParams => ({
  name: "AES-GCM",
  iv,
  additionalData: utf8(`escale/1/${table}${name}`),
});
