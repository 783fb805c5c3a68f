/** Searches bytes for readable text, as an attacker with the disk would: plain, UTF-16, base64 and hexadecimal. */

/** Shorter texts occur in random bytes by chance. */
export const NEEDLE_BYTES_MIN = 5;

/** The encodings in which each text is searched. */
export const ENCODINGS = "UTF-8, UTF-16, base64 and hexadecimal";

/** Bytes that `String.fromCharCode` gets at once. */
const CHUNK = 8_192;

/** A text and its possible stored forms, each as a string of bytes. */
export interface Needle {
  text: string;
  forms: string[];
}

/** Prepares a text; `undefined` for one that is too short to mean anything. */
export function needle(text: string): Needle | undefined {
  const utf8 = new TextEncoder().encode(text);
  if (utf8.length < NEEDLE_BYTES_MIN) return undefined;
  const utf16 = Array.from(text, (_, i) => text.charCodeAt(i)).flatMap((unit) => [unit & 255, unit >> 8]);
  const hex = toHex(utf8);
  const forms = [byteString(utf8), byteString(utf16), hex, hex.toUpperCase(), ...base64Forms(utf8)];
  return { text, forms: [...new Set(forms)] };
}

/** The number of occurrences of the text in the bytes, in any form. */
export function occurrences({ forms }: Needle, haystack: string): number {
  let found = 0;
  for (const form of forms) {
    for (let at = haystack.indexOf(form); at >= 0; at = haystack.indexOf(form, at + 1)) found += 1;
  }
  return found;
}

/** Bytes as a string with one character each: the engine searches that fastest. */
export function byteString(bytes: Uint8Array | number[]): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += CHUNK) text += String.fromCharCode(...bytes.slice(i, i + CHUNK));
  return text;
}

/** Bytes in hexadecimal. */
export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Hexadecimal as bytes. */
export function fromHex(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/**
 * The three forms of bytes within a longer base64 text, one for each alignment, without the characters that depend on
 * neighbouring bytes.
 */
function base64Forms(bytes: Uint8Array): string[] {
  const forms: string[] = [];
  for (let shift = 0; shift < 3; shift++) {
    const text = btoa("\0".repeat(shift) + byteString(bytes)).replace(/=+$/, "");
    const first = shift === 0 ? 0 : shift + 1;
    const last = Math.floor(((shift + bytes.length) * 8) / 6);
    const form = text.slice(first, last);
    forms.push(form, form.replaceAll("+", "-").replaceAll("/", "_"));
  }
  return forms;
}
