// The cost of each byte of a file with gzip. It reads the compressed form, and divides the bits of each symbol among
// the bytes that it stands for. So a second copy of some code counts as little as it adds.
import { deflateRawSync } from "node:zlib";

const [STORED, FIXED] = [0, 1];
const END = 256;
const LENGTH_BASE = [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258];
const LENGTH_BITS = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
const distanceBits = (code) => (code < 4 ? 0 : (code >> 1) - 1);
/** The order in which a block gives the lengths of its codes for lengths (RFC 1951, 3.2.7). */
const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const [REPEAT, ZEROS] = [16, 17];
const FIXED_LITERALS = [...Array(144).fill(8), ...Array(112).fill(9), ...Array(24).fill(7), ...Array(8).fill(8)];
const FIXED_DISTANCES = Array(30).fill(5);

/** Reads bits, the lowest of each byte first. */
class Bits {
  constructor(bytes) {
    [this.bytes, this.at] = [bytes, 0];
  }
  take(count) {
    let value = 0;
    for (let i = 0; i < count; i++, this.at++) value |= ((this.bytes[this.at >> 3] >> (this.at & 7)) & 1) << i;
    return value;
  }
  /** A symbol, and the length of its code. */
  symbol({ counts, symbols }) {
    for (let [length, code, first, index] = [1, 0, 0, 0]; length < counts.length; length++) {
      code = (code << 1) | this.take(1);
      first <<= 1;
      if (code - first < counts[length]) return [symbols[index + code - first], length];
      index += counts[length];
      first += counts[length];
    }
    throw new Error("the compressed form has no such code");
  }
}

/** The canonical code of these lengths. */
function codeOf(lengths) {
  const counts = Array(16).fill(0);
  for (const length of lengths) if (length > 0) counts[length]++;
  const symbols = [...lengths.keys()].filter((symbol) => lengths[symbol] > 0);
  return { counts, symbols: symbols.sort((a, b) => lengths[a] - lengths[b] || a - b) };
}

/** The codes of a block: for literals and lengths, and for distances. */
function codesOf(bits, type) {
  if (type === FIXED) return [codeOf(FIXED_LITERALS), codeOf(FIXED_DISTANCES)];
  const [literals, distances, count] = [bits.take(5) + 257, bits.take(5) + 1, bits.take(4) + 4];
  const ofLengths = Array(ORDER.length).fill(0);
  for (const symbol of ORDER.slice(0, count)) ofLengths[symbol] = bits.take(3);
  const [code, lengths] = [codeOf(ofLengths), []];
  while (lengths.length < literals + distances) {
    const [symbol] = bits.symbol(code);
    if (symbol < REPEAT) lengths.push(symbol);
    else if (symbol === REPEAT) lengths.push(...Array(3 + bits.take(2)).fill(lengths.at(-1)));
    else lengths.push(...Array(symbol === ZEROS ? 3 + bits.take(3) : 11 + bits.take(7)).fill(0));
  }
  return [codeOf(lengths.slice(0, literals)), codeOf(lengths.slice(literals))];
}

/** The bits of each byte, at zlib's level 9. */
export function bitsOf(bytes) {
  const costs = new Float64Array(bytes.length);
  const bits = new Bits(deflateRawSync(bytes, { level: 9 }));
  let at = 0;
  const add = (count, cost) => {
    costs.fill(cost / count, at, at + count);
    at += count;
  };
  for (let isLast = false; !isLast; ) {
    isLast = bits.take(1) === 1;
    const type = bits.take(2);
    if (type === STORED) {
      bits.at = (bits.at + 7) & ~7;
      const length = bits.take(16);
      bits.at += 16 + 8 * length;
      add(length, 8 * length);
      continue;
    }
    const [literals, distances] = codesOf(bits, type);
    for (;;) {
      const [symbol, width] = bits.symbol(literals);
      if (symbol === END) break;
      if (symbol < END) {
        add(1, width);
        continue;
      }
      const more = LENGTH_BITS[symbol - END - 1];
      const length = LENGTH_BASE[symbol - END - 1] + bits.take(more);
      const [code, wide] = bits.symbol(distances);
      bits.take(distanceBits(code));
      add(length, width + more + wide + distanceBits(code));
    }
  }
  return costs;
}
