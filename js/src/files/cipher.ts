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
export class Cipher {
  #seal: CryptoKey | undefined;
  #index: CryptoKey | undefined;

  private constructor(seal: CryptoKey, index: CryptoKey) {
    this.#seal = seal;
    this.#index = index;
  }

  /** Takes the keys, and clears them. Without any, it makes some that nobody knows. */
  static async of(keys: Keys = { seal: random(32), index: random(32) }): Promise<Cipher> {
    const { subtle } = crypto;
    try {
      return new Cipher(
        await subtle.importKey("raw", keys.seal, "AES-GCM", false, ["encrypt", "decrypt"]),
        await subtle.importKey("raw", keys.index, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]),
      );
    } finally {
      keys.seal.fill(0);
      keys.index.fill(0);
    }
  }

  /** The name of the record about an object, a file or a rule. */
  async name(table: Table, text: string): Promise<string> {
    const full = await crypto.subtle.sign("HMAC", this.#has(this.#index), utf8(`${table}/${text}`));
    return toText(new Uint8Array(full, 0, NAME));
  }

  async seal(table: Table, name: string, plain: Bytes): Promise<Bytes> {
    const iv = random(NONCE);
    const sealed = await crypto.subtle.encrypt(how(table, name, iv), this.#has(this.#seal), plain);
    return join(iv, new Uint8Array(sealed));
  }

  /** Undefined if the keys, the place or a byte is another. */
  async open(table: Table, name: string, sealed: Bytes): Promise<Bytes | undefined> {
    const key = this.#has(this.#seal);
    const iv = sealed.subarray(0, NONCE);
    try {
      return new Uint8Array(await crypto.subtle.decrypt(how(table, name, iv), key, sealed.subarray(NONCE)));
    } catch {
      return undefined;
    }
  }

  /** Drops the keys. */
  end(): void {
    this.#seal = this.#index = undefined;
  }

  #has(key: CryptoKey | undefined): CryptoKey {
    if (!key) throw closed();
    return key;
  }
}

const how = (table: Table, name: string, iv: Bytes): AesGcmParams => ({
  name: "AES-GCM",
  iv,
  additionalData: utf8(`escale/1/${table}${name}`),
});
