/**
 * The formulas of accounts (R72 to R74), on WebCrypto. docs/protocol.md has them for other servers.
 */

import { fourBytes, hmac, join, sha256, toBytes, toText, use, utf8, type Bytes } from "../shared.js";
import type { Identity } from "../session/entry.js";
import { fault } from "./faults.js";

/** The owner of an account: the org and the login. */
export interface Owner {
  readonly org: string;
  readonly login: string;
}

/** A key derived from another for one purpose, as the core derives keys. */
export const derive = (key: Bytes, purpose: string, context: ArrayLike<number> = []): Promise<Bytes> =>
  hmac(key, join(utf8(`escale/1/${purpose}\0`), context));

/** A text after its length in two bytes. */
export const lengthAnd = (text: string): Bytes => {
  const bytes = utf8(text);
  return join([bytes.length >> 8, bytes.length], bytes);
};

/**
 * The login that somebody has typed, as an account has it: half width, lower case, Unicode's form NFC. The server says which
 * characters it takes.
 */
export const loginOf = (typed: string): string =>
  typed.replace(/[\u3000\uff00-\uffef]/g, (wide) => wide.normalize("NFKC")).toLowerCase().normalize("NFC");

/** The salt of a login. */
export const saltOf = ({ org, login }: Owner): Promise<Bytes> => sha256(utf8(`escale/1/${org}/${login}`));

/** X of a passphrase. */
export const fromPassphrase = (passphrase: string, salt: Bytes, rounds: number): Promise<Bytes> => {
  const secret = utf8(passphrase.normalize("NFC"));
  return use(secret, "deriveBits", { name: "PBKDF2", hash: "SHA-256", salt, iterations: rounds }, 256).finally(() => secret.fill(0));
};

/** The bytes before a private key of X25519 in PKCS #8 (RFC 8410). */
const PKCS8 = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x6e, 4, 0x22, 4, 0x20];

const X25519 = { name: "X25519" };

/** A private key of X25519 (RFC 7748), and its public key. */
const pairOf = async (secret: Uint8Array): Promise<{ own: CryptoKey; pub: Bytes }> => {
  try {
    const { subtle } = crypto;
    const own = await subtle.importKey("pkcs8", join(PKCS8, secret), X25519, true, ["deriveBits"]);
    const { x = "" } = await subtle.exportKey("jwk", own);
    return { own, pub: toBytes(x) };
  } catch (cause) {
    throw fault("not_supported", "this browser has no X25519: accounts need Chrome 133, Firefox 130 or Safari 17", cause);
  }
};

/** The public key of a private key of X25519. */
export const publicKey = async (secret: Uint8Array): Promise<Bytes> => (await pairOf(secret)).pub;

/** The secret that the owner of an account's key shares with a server, for one purpose. Errors: `bad_reply`. */
export const sharedKey = async (key: Bytes, serverKey: unknown, purpose: "sign-up" | "token"): Promise<Bytes> => {
  const { own, pub } = await pairOf(await derive(key, "identity"));
  const { subtle } = crypto;
  try {
    const server = await subtle.importKey("raw", serverKey as Bytes, X25519, false, []);
    const shared = await subtle.deriveBits({ ...X25519, public: server }, own, 256);
    return await derive(new Uint8Array(shared), purpose, join(serverKey as Bytes, pub));
  } catch (cause) {
    throw fault("bad_reply", "the server's key is none", cause);
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
