/** Recovery codes as text. */

import type { Bytes } from "./formulas.js";

/** The letters of a code: digits and letters that nobody takes for others. */
const LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** A recovery code as text: 32 characters in 8 groups. */
export function codeText(code: Uint8Array): string {
  let text = "";
  let bits = 0;
  let held = 0;
  for (const byte of code) {
    held = (held << 8) | byte;
    bits += 8;
    for (; bits >= 5; bits -= 5) text += LETTERS[(held >> (bits - 5)) & 31] ?? "";
    held &= 31;
  }
  return (text.match(/.{4}/g) ?? []).join("-");
}

/** The code of a text that somebody typed. Undefined if it is none. */
export function codeOf(text: string): Bytes | undefined {
  const letters = text.toUpperCase().replaceAll(/[\s-]/g, "").replaceAll("O", "0").replaceAll(/[IL]/g, "1");
  if (!/^[0-9A-HJKMNP-TV-Z]{32}$/.test(letters)) return undefined;
  const code = new Uint8Array(20);
  let bits = 0;
  let held = 0;
  let at = 0;
  for (const letter of letters) {
    held = (held << 5) | LETTERS.indexOf(letter);
    bits += 5;
    if (bits >= 8) {
      code[at++] = (held >> (bits - 8)) & 0xff;
      bits -= 8;
      held &= 0xff;
    }
  }
  return code;
}
