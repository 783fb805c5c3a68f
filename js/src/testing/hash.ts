/**
 * SHA-256, and the names that are made of it. It is here, and synchronous, because some test environments have no
 * `crypto.subtle`, and because the server in memory serves a request without interruption.
 */

/** The constants of SHA-256 are the fractions of roots of the first primes. */
function constants(): { start: number[]; round: number[] } {
  const start: number[] = [];
  const round: number[] = [];
  const fraction = (root: number): number => ((root - Math.floor(root)) * 2 ** 32) | 0;
  for (let n = 2; round.length < 64; n++) {
    if (Array.from({ length: n - 2 }, (_, at) => at + 2).some((divisor) => n % divisor === 0)) continue;
    if (start.length < 8) start.push(fraction(Math.sqrt(n)));
    round.push(fraction(Math.cbrt(n)));
  }
  return { start, round };
}

const { start, round } = /* @__PURE__ */ constants();
const turned = (word: number, by: number): number => (word >>> by) | (word << (32 - by));

/** The SHA-256 of bytes. */
export function sha256(bytes: Uint8Array): Uint8Array {
  const padded = new Uint8Array(((bytes.length + 8) >> 6) * 64 + 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  const state = Int32Array.from(start);
  const words = new Int32Array(64);
  const at = (index: number): number => words[index] ?? 0;
  for (let block = 0; block < padded.length; block += 64) {
    for (let i = 0; i < 64; i++) {
      const [early, late] = [at(i - 15), at(i - 2)];
      const small = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
      const large = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
      words[i] = i < 16 ? view.getInt32(block + i * 4) : at(i - 16) + small + at(i - 7) + large;
    }
    let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
    for (let i = 0; i < 64; i++) {
      const mixed = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + (round[i] ?? 0) + at(i);
      const added = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + mixed) | 0, c, b, a, (mixed + added) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (state[i] = (state[i] ?? 0) + word));
  }
  const hash = new Uint8Array(32);
  state.forEach((word, i) => new DataView(hash.buffer).setInt32(i * 4, word));
  return hash;
}

/** `shaS` of docs/protocol.md: 22 characters that name a document, or a value of a collection. */
export function shaS(text: string): string {
  const bytes = sha256(new TextEncoder().encode(text)).subarray(3, 19);
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
