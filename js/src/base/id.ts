/** `newId`: ids for documents without a natural key. */

/**
 * Makes an id for a new document: a UUID of version 7 as 32 hexadecimal digits. Ids sort by the millisecond at which they
 * were made. It works without a network and without a secure context.
 *
 * @example
 * ```js
 * import { newId } from "escale";
 *
 * const [first, second] = [newId(), newId()];
 * show(first.length, first !== second); // 32, true
 * ```
 */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  let time = Date.now();
  for (let place = 5; place >= 0; place--) {
    bytes[place] = time % 256;
    time = Math.floor(time / 256);
  }
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0"));
  // The version, and the variant in the two upper bits of its byte.
  digits[6] = `7${digits[6]?.[1]}`;
  digits[8] = `${"89ab"[(bytes[8] ?? 0) >> 6]}${digits[8]?.[1]}`;
  return digits.join("");
}
