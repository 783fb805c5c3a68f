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
  const random = Array.from(crypto.getRandomValues(new Uint8Array(10)), (byte, place) => {
    // The version, and the variant in the two upper bits of its byte.
    const bits = place === 0 ? 0x70 | (byte & 0x0f) : place === 2 ? 0x80 | (byte & 0x3f) : byte;
    return hex(bits, 2);
  });
  return hex(Date.now(), 12) + random.join("");
}

const hex = (number: number, digits: number): string => number.toString(16).padStart(digits, "0");
