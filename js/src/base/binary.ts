/** Bytes as text and back, and their hashes, for the entries that use WebCrypto. */

/** Bytes that WebCrypto takes: never those of a shared buffer. */
export type Bytes = Uint8Array<ArrayBuffer>;

const encoder = new TextEncoder();

/** UTF-8. */
export const utf8 = (text: string): Bytes => encoder.encode(text);

/** The text of UTF-8. */
export const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** Joins bytes. */
export function join(...parts: readonly Uint8Array[]): Bytes {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

/** @internal Base64url and back: the main entry has both. */
export { encodeBase64Url as toText, decodeBase64Url as toBytes } from "../index.js";

/** Random bytes. */
export const random = (count: number): Bytes => crypto.getRandomValues(new Uint8Array(count));

/** SHA-256. */
export const sha256 = async (bytes: Bytes): Promise<Bytes> => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
