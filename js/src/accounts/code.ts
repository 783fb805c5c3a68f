/** Recovery codes as text. */

import type { Bytes } from "../shared.js";

/** The letters of a code: digits and letters that nobody takes for others. */
const LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** The same bits, in numbers of another width. */
const regroup = (numbers: readonly number[], from: number, to: number): number[] => {
  const bits = numbers.map((number) => number.toString(2).padStart(from, "0")).join("");
  return Array.from({ length: bits.length / to }, (_, at) => parseInt(bits.slice(at * to, (at + 1) * to), 2));
};

/** A recovery code as text: 32 characters in 8 groups. */
export const codeText = (code: Uint8Array): string =>
  regroup([...code], 8, 5).map((number) => LETTERS.charAt(number)).join("").replace(/.{4}(?=.)/g, "$&-");

/** The code of a text that somebody typed. Undefined if it is none. */
export const codeOf = (text: string): Bytes | undefined => {
  const letters = text.toUpperCase().replace(/[\s-]/g, "").replace(/O/g, "0").replace(/[IL]/g, "1");
  const numbers = Array.from(letters, (letter) => LETTERS.indexOf(letter));
  return numbers.length === 32 && !numbers.includes(-1) ? new Uint8Array(regroup(numbers, 5, 8)) : undefined;
};
