// SHA-256, and the names that are made of it. It is synchronous, and needs no module of a runtime: the engine serves a
// write without interruption, and runs in test environments that have no `crypto.subtle`.

/** The constants of SHA-256 are the fractions of roots of the first primes. */
function constants() {
  const [start, round] = [[], []];
  const fraction = (root) => ((root - Math.floor(root)) * 2 ** 32) | 0;
  for (let n = 2; round.length < 64; n++) {
    if (Array.from({ length: n - 2 }, (_, at) => at + 2).some((divisor) => n % divisor === 0)) continue;
    if (start.length < 8) start.push(fraction(Math.sqrt(n)));
    round.push(fraction(Math.cbrt(n)));
  }
  return { start, round: Int32Array.from(round) };
}

const { start, round } = /* @__PURE__ */ constants();
const turned = (word, by) => (word >>> by) | (word << (32 - by));

/** The SHA-256 of bytes. */
export function sha256(bytes) {
  const padded = new Uint8Array(((bytes.length + 8) >> 6) * 64 + 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  const state = Int32Array.from(start);
  const words = new Int32Array(64);
  for (let block = 0; block < padded.length; block += 64) {
    for (let i = 0; i < 64; i++) {
      if (i < 16) words[i] = view.getInt32(block + i * 4);
      else {
        const [early, late] = [words[i - 15], words[i - 2]];
        const small = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
        const large = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
        words[i] = words[i - 16] + small + words[i - 7] + large;
      }
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const mixed = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + round[i] + words[i]) | 0;
      const added = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + mixed) | 0, c, b, a, (mixed + added) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] = (state[i] + word) | 0));
  }
  const hash = new Uint8Array(32);
  state.forEach((word, i) => new DataView(hash.buffer).setInt32(i * 4, word));
  return hash;
}

/** HMAC-SHA-256, with a key of at most 64 bytes. */
export function hmac(key, bytes) {
  const pad = (with_, more) => {
    const block = new Uint8Array(64 + more.length).fill(with_, 0, 64);
    key.forEach((byte, i) => (block[i] ^= byte));
    block.set(more, 64);
    return sha256(block);
  };
  return pad(0x5c, pad(0x36, bytes));
}

export const bytesOf = (text) => new TextEncoder().encode(text);

/** Node, Bun and Deno have a fast base64. */
const { Buffer } = globalThis;

/** base64url without padding. */
export function toBase64Url(bytes) {
  if (Buffer) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64url");
  let chars = "";
  for (let at = 0; at < bytes.length; at += 0x8000) chars += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(chars).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** The bytes of a text of base64url; undefined if it is none, or not in its only form. */
export function fromBase64Url(text) {
  if (!/^[-\w]*$/.test(text) || text.length % 4 === 1) return undefined;
  const bytes = Buffer
    ? Uint8Array.from(Buffer.from(text, "base64url"))
    : Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
  return toBase64Url(bytes) === text ? bytes : undefined;
}

/** `shaS` of docs/protocol.md: 22 characters that name a document, or a value of a collection. */
export const shaS = (text) => toBase64Url(sha256(bytesOf(text)).subarray(3, 19));

/** Random bytes as a text. */
export const randomText = (count) => toBase64Url(crypto.getRandomValues(new Uint8Array(count)));
