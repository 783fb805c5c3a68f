/** Bytes as text and back, and their hashes, for the entries that use WebCrypto. */

import { internal } from "../index.js";

/** Bytes that WebCrypto takes: never those of a shared buffer. */
export type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();

/** UTF-8. */
export const utf8 = (text: string): Bytes => encoder.encode(text);

/** The text of UTF-8. */
export const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** A number in four bytes, for {@link join}. */
export const fourBytes = (number: number): number[] => [number >> 24, number >> 16, number >> 8, number];

/** Joins bytes. Numbers are taken modulo 256. */
export function join(...parts: readonly ArrayLike<number>[]): Bytes {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  parts.reduce((at, part) => {
    joined.set(part, at);
    return at + part.length;
  }, 0);
  return joined;
}

/** Base64url and back, and the test for bytes: the main entry has them. */
export const { encodeBase64Url: toText, decodeBase64Url: toBytes, isBytes } = internal;

/** Random bytes. */
export const random = (count: number): Bytes => crypto.getRandomValues(new Uint8Array(count));

/** SHA-256. */
export const sha256 = async (bytes: Bytes): Promise<Bytes> => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
