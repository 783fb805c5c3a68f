/**
 * The formulas of accounts (R72 to R74), on WebCrypto. docs/protocol.md has them for other servers.
 */

import type { Identity } from "../session/entry.js";
import { join, random, sha256, toBytes, toText, utf8, type Bytes } from "../base/binary.js";
import { fault } from "./faults.js";

export { join, random, sha256, toBytes, toText, utf8, type Bytes };

/** Rounds of PBKDF2: the bounds of `src/limits.rs`. A new wrap has the least. */
export const ROUNDS = { least: 600_000, most: 10_000_000 } as const;

const subtle = (): SubtleCrypto => crypto.subtle;

/** HMAC-SHA-256. */
export async function hmac(key: Bytes, bytes: Bytes): Promise<Bytes> {
  const imported = await subtle().importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await subtle().sign("HMAC", imported, bytes));
}

/** A key derived from another for one purpose, as the core derives keys. */
export const derive = (key: Bytes, purpose: string, context: Uint8Array = new Uint8Array()): Promise<Bytes> =>
  hmac(key, join(utf8(`escale/1/${purpose}`), new Uint8Array(1), context));

/** A text after its length in two bytes. */
export function lengthAnd(text: string): Bytes {
  const bytes = utf8(text);
  return join(new Uint8Array([bytes.length >> 8, bytes.length & 0xff]), bytes);
}

/** A number in four bytes. */
export function fourBytes(number: number): Bytes {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, number);
  return bytes;
}

/** The salt of a login. */
export const saltOf = (org: string, login: string): Promise<Bytes> => sha256(utf8(`escale/1/${org}/${login}`));

/** X of a passphrase. */
export async function fromPassphrase(passphrase: string, salt: Bytes, rounds: number): Promise<Bytes> {
  const secret = utf8(passphrase.normalize("NFC"));
  const key = await subtle().importKey("raw", secret, "PBKDF2", false, ["deriveBits"]);
  secret.fill(0);
  const bits = await subtle().deriveBits({ name: "PBKDF2", hash: "SHA-256", salt, iterations: rounds }, key, 256);
  return new Uint8Array(bits);
}

/** Encrypts: nonce, ciphertext, tag. */
export async function seal(key: Bytes, plain: Bytes, aad: Bytes): Promise<Bytes> {
  const iv = random(12);
  const imported = await subtle().importKey("raw", key, "AES-GCM", false, ["encrypt"]);
  const sealed = await subtle().encrypt({ name: "AES-GCM", iv, additionalData: aad }, imported, plain);
  return join(iv, new Uint8Array(sealed));
}

/** Decrypts. Undefined if the key, the place or a byte is another. */
export async function unseal(key: Bytes, sealed: Bytes, aad: Bytes): Promise<Bytes | undefined> {
  const imported = await subtle().importKey("raw", key, "AES-GCM", false, ["decrypt"]);
  const iv = sealed.slice(0, 12);
  try {
    const plain = await subtle().decrypt({ name: "AES-GCM", iv, additionalData: aad }, imported, sealed.slice(12));
    return new Uint8Array(plain);
  } catch {
    return undefined;
  }
}

/** The bytes before a private key of X25519 in PKCS #8 (RFC 8410). */
const PKCS8 = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20];

/** The public key of a private key of X25519 (RFC 7748). */
export async function publicKey(secret: Uint8Array): Promise<Bytes> {
  try {
    const der = join(new Uint8Array(PKCS8), secret);
    const key = await subtle().importKey("pkcs8", der, { name: "X25519" }, true, ["deriveBits"]);
    const { x = "" } = await subtle().exportKey("jwk", key);
    return toBytes(x);
  } catch (cause) {
    throw fault("not_supported", "this browser has no X25519: accounts need Chrome 133, Firefox 130 or Safari 17", cause);
  }
}

/** The identity that follows from K. */
export async function identityOf(key: Bytes, org: string): Promise<Identity> {
  const made = await publicKey(await derive(key, "identity"));
  const zero = new Uint8Array(1);
  const id = (await sha256(join(utf8("escale/1/account"), zero, utf8(org), zero, made))).slice(0, 16);
  const groups = Array.from({ length: 8 }, (_, n) => String(((id[2 * n] ?? 0) << 8) | (id[2 * n + 1] ?? 0)).padStart(5, "0"));
  return Object.freeze({ account: toText(id), publicKey: made, fingerprint: groups.join(" ") });
}

/** Canonical msgpack: keys in byte order, shortest encodings. Of the values, only those of requests. */
export function pack(value: unknown): Bytes {
  if (value === true) return new Uint8Array([0xc3]);
  if (typeof value === "number") return packNumber(value);
  if (typeof value === "string") {
    const bytes = utf8(value);
    return join(head(bytes.length, [0xa0, 32], [0xd9, 0xda]), bytes);
  }
  if (value instanceof Uint8Array) return join(head(value.length, [0, 0], [0xc4, 0xc5]), value);
  if (Array.isArray(value)) return join(head(value.length, [0x90, 16], [0, 0xdc]), ...value.map(pack));
  const entries = Object.entries(value as object).filter(([, field]) => field !== undefined);
  // All names of fields are ASCII.
  entries.sort(([a], [b]) => (a < b ? -1 : 1));
  return join(head(entries.length, [0x80, 16], [0, 0xde]), ...entries.flat().map(pack));
}

function packNumber(value: number): Bytes {
  if (value < 128) return new Uint8Array([value]);
  if (value < 256) return new Uint8Array([0xcc, value]);
  if (value < 65_536) return new Uint8Array([0xcd, value >> 8, value & 0xff]);
  return join(new Uint8Array([0xce]), fourBytes(value));
}

/** The head of a text, list or map: in one byte below `short[1]`, else with a length of one or two bytes. */
function head(length: number, short: [number, number], long: [number, number]): Bytes {
  if (length < short[1]) return new Uint8Array([short[0] | length]);
  if (long[0] && length < 256) return new Uint8Array([long[0], length]);
  return new Uint8Array([long[1], length >> 8, length & 0xff]);
}
