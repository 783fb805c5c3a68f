/** AES-256-GCM over whole records, and HMAC-SHA-256, by WebCrypto. */

import { isBytes, join, random, type Bytes } from "../base/binary.js";

/** The bytes of a nonce, in front of each record. */
const NONCE = 12;

/** The use of a key. WebCrypto has a method of the same name. */
type Use = "decrypt" | "deriveBits" | "encrypt" | "sign";

/** An algorithm and its parameters. */
interface Algorithm {
  readonly name: string;
  readonly [parameter: string]: unknown;
}

type Method = (algorithm: Algorithm, key: CryptoKey, of: Bytes | number) => Promise<ArrayBuffer>;

/** A key that was imported, or the bytes of one that is used once. */
export type Key = CryptoKey | Bytes;

/** The algorithm of names and proofs. */
export const HMAC = { name: "HMAC", hash: "SHA-256" };

/** Imports a key for some uses. Nobody can read it back. */
export const importKey = (raw: Bytes, algorithm: Algorithm, ...uses: Use[]): Promise<CryptoKey> =>
  crypto.subtle.importKey("raw", raw, algorithm, false, uses);

/** Uses a key with an algorithm: on bytes, or for a number of bits. */
export const use = async (key: Key, to: Use, algorithm: Algorithm, of: Bytes | number): Promise<Bytes> => {
  const imported = isBytes(key) ? await importKey(key, algorithm, to) : key;
  return new Uint8Array(await (crypto.subtle as unknown as Record<Use, Method>)[to](algorithm, imported, of));
};

/** HMAC-SHA-256. */
export const hmac = (key: Key, bytes: Bytes): Promise<Bytes> => use(key, "sign", HMAC, bytes);

/** AES-GCM with a nonce, bound to a place. */
export const aes = (iv?: Bytes, additionalData?: Bytes): Algorithm => ({ name: "AES-GCM", iv, additionalData });

/** Encrypts, bound to a place: nonce, ciphertext, tag. */
export const seal = async (key: Key, plain: Bytes, place: Bytes): Promise<Bytes> => {
  const iv = random(NONCE);
  return join(iv, await use(key, "encrypt", aes(iv, place), plain));
};

/** Decrypts. Undefined if the key, the place or a byte is another. */
export const unseal = (key: Key, sealed: Bytes, place: Bytes): Promise<Bytes | undefined> =>
  use(key, "decrypt", aes(sealed.subarray(0, NONCE), place), sealed.subarray(NONCE)).catch(() => undefined);
