/**
 * The formulas of accounts (R72 to R74), on WebCrypto. docs/protocol.md has them for other servers.
 */

import type { Identity } from "../session/entry.js";
import { random, sha256, toBytes, toText, utf8, type Bytes } from "../base/binary.js";
import { fault } from "./faults.js";

export { random, sha256, toBytes, toText, utf8, type Bytes };

/** Joins bytes, some hundreds of them. Numbers are taken modulo 256. */
export const join = (...parts: readonly Iterable<number>[]): Bytes => Uint8Array.from(parts.flatMap((part) => [...part]));

/** The owner of an account: the org and the login. */
export interface Owner {
  readonly org: string;
  readonly login: string;
}

/** The use of a key. WebCrypto has a method of the same name. */
type Use = "decrypt" | "deriveBits" | "encrypt" | "sign";

type Method = (algorithm: { name: string }, key: CryptoKey, of: Bytes | number) => Promise<ArrayBuffer>;

/** Imports a key, and uses it once, with one algorithm: on bytes, or for a number of bits. */
const use = async (key: Bytes, to: Use, algorithm: { name: string; [parameter: string]: unknown }, of: Bytes | number): Promise<Bytes> => {
  const { subtle } = crypto;
  const imported = await subtle.importKey("raw", key, algorithm, false, [to]);
  return new Uint8Array(await (subtle as unknown as Record<Use, Method>)[to](algorithm, imported, of));
};

/** HMAC-SHA-256. */
export const hmac = (key: Bytes, bytes: Bytes): Promise<Bytes> => use(key, "sign", { name: "HMAC", hash: "SHA-256" }, bytes);

/** A key derived from another for one purpose, as the core derives keys. */
export const derive = (key: Bytes, purpose: string, context: Iterable<number> = []): Promise<Bytes> =>
  hmac(key, join(utf8(`escale/1/${purpose}\0`), context));

/** A text after its length in two bytes. */
export const lengthAnd = (text: string): Bytes => {
  const bytes = utf8(text);
  return join([bytes.length >> 8, bytes.length], bytes);
};

/** A number in four bytes, for `join`. */
export const fourBytes = (number: number): number[] => [number >> 24, number >> 16, number >> 8, number];

/** The salt of a login. */
export const saltOf = ({ org, login }: Owner): Promise<Bytes> => sha256(utf8(`escale/1/${org}/${login}`));

/** X of a passphrase. */
export const fromPassphrase = (passphrase: string, salt: Bytes, rounds: number): Promise<Bytes> => {
  const secret = utf8(passphrase.normalize("NFC"));
  return use(secret, "deriveBits", { name: "PBKDF2", hash: "SHA-256", salt, iterations: rounds }, 256).finally(() => secret.fill(0));
};

const aes = (to: Use, key: Bytes, iv: Bytes, bytes: Bytes, aad: Bytes): Promise<Bytes> =>
  use(key, to, { name: "AES-GCM", iv, additionalData: aad }, bytes);

/** Encrypts: nonce, ciphertext, tag. */
export const seal = async (key: Bytes, plain: Bytes, aad: Bytes): Promise<Bytes> => {
  const iv = random(12);
  return join(iv, await aes("encrypt", key, iv, plain, aad));
};

/** Decrypts. Undefined if the key, the place or a byte is another. */
export const unseal = (key: Bytes, sealed: Bytes, aad: Bytes): Promise<Bytes | undefined> =>
  aes("decrypt", key, sealed.slice(0, 12), sealed.slice(12), aad).catch(() => undefined);

/** The bytes before a private key of X25519 in PKCS #8 (RFC 8410). */
const PKCS8 = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20];

/** The public key of a private key of X25519 (RFC 7748). */
export const publicKey = async (secret: Uint8Array): Promise<Bytes> => {
  try {
    const { subtle } = crypto;
    const key = await subtle.importKey("pkcs8", join(PKCS8, secret), { name: "X25519" }, true, ["deriveBits"]);
    const { x = "" } = await subtle.exportKey("jwk", key);
    return toBytes(x);
  } catch (cause) {
    throw fault("not_supported", "this browser has no X25519: accounts need Chrome 133, Firefox 130 or Safari 17", cause);
  }
};

/** The identity that follows from K. */
export const identityOf = async (key: Bytes, org: string): Promise<Identity> => {
  const made = await publicKey(await derive(key, "identity"));
  const id = (await sha256(join(utf8(`escale/1/account\0${org}\0`), made))).slice(0, 16);
  const numbers = new DataView(id.buffer);
  const groups = Array.from({ length: 8 }, (_, n) => String(numbers.getUint16(2 * n)).padStart(5, "0"));
  return Object.freeze({ account: toText(id), publicKey: made, fingerprint: groups.join(" ") });
};

/** Canonical msgpack: keys in byte order, shortest encodings. Of the values, only those of requests. */
export const pack = (value: unknown): Bytes => {
  if (value === true) return join([0xc3]);
  if (typeof value === "number") return join(head(value, 0, 128, 0xcc));
  if (typeof value === "string") {
    const bytes = utf8(value);
    return join(head(bytes.length, 0xa0, 32, 0xd9), bytes);
  }
  if (value instanceof Uint8Array) return join(head(value.length, 0, 0, 0xc4), value);
  // A list or a map never has its length in one byte: the code before that of two bytes is another's.
  if (Array.isArray(value)) return join(head(value.length, 0x90, 16, 0xdb, 0), ...value.map(pack));
  const map = value as Record<string, unknown>;
  // All names of fields are ASCII.
  const names = Object.keys(map).filter((name) => map[name] !== undefined).sort();
  return join(head(names.length, 0x80, 16, 0xdd, 0), ...names.flatMap((name) => [pack(name), pack(map[name])]));
};

/** A number, or the length of a value: in one byte below `short`, else after the code for one, two or four bytes. */
const head = (number: number, kind: number, short: number, code: number, ofByte = 256): number[] => {
  if (number < short) return [kind | number];
  if (number < ofByte) return [code, number];
  if (number < 65_536) return [code + 1, number >> 8, number];
  return [code + 2, ...fourBytes(number)];
};
