// Names the functions of a wasm so that `wasm-opt --reorder-functions-by-name` puts similar ones side by side:
// `node scripts/order-functions.mjs FROM TO`. gzip refers to at most 32 KiB before, and the copies of a generic function
// are far apart otherwise. The order is greedy: next comes the function with most pieces in the functions just before it.
import { readFileSync, writeFileSync } from "node:fs";

/** How many bytes are one piece. */
const PIECE = 6;
/** A piece that more functions have says little about any of them. */
const COMMON = 300;
/** How many bytes before a function gzip still sees, but for some room. */
const WINDOW = 30_000;
/** So many pieces are counted on top of a function's own, or the smallest ones would come first. */
const BALANCE = 20;

const [CUSTOM, IMPORTS, CODE] = [0, 2, 10];
const FUNCTION = 0;
const HEADER_BYTES = 8;

/** Reads little-endian base-128 numbers and the bytes between them. */
class Reader {
  constructor(bytes) {
    [this.bytes, this.at] = [bytes, 0];
  }
  get isDone() {
    return this.at >= this.bytes.length;
  }
  number() {
    for (let value = 0, scale = 1; ; scale *= 128) {
      const byte = this.bytes[this.at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  }
  take(length) {
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }
  text() {
    return this.take(this.number()).toString();
  }
}

function numberBytes(number) {
  const bytes = [];
  for (let rest = number; ; rest >>>= 7) {
    if (rest < 128) return [...bytes, rest];
    bytes.push((rest & 127) | 128);
  }
}

const withLength = (bytes) => [...numberBytes(bytes.length), ...bytes];

/** The sections of a wasm: the number of each, its contents, and all its bytes. */
function sectionsOf(wasm) {
  const reader = new Reader(wasm);
  reader.take(HEADER_BYTES);
  const sections = [];
  while (!reader.isDone) {
    const start = reader.at;
    const id = reader.take(1)[0];
    const body = reader.take(reader.number());
    sections.push({ id, body, bytes: wasm.subarray(start, reader.at) });
  }
  return sections;
}

/** How many functions are imported: they have the first numbers. wasm-bindgen imports nothing but functions. */
function importsOf(body) {
  const reader = new Reader(body);
  const count = reader.number();
  for (let n = 0; n < count; n++) {
    const name = `${reader.text()} ${reader.text()}`;
    if (reader.take(1)[0] !== FUNCTION) throw new Error(`${name} is no function`);
    reader.number();
  }
  return count;
}

function functionsOf(body) {
  const reader = new Reader(body);
  return Array.from({ length: reader.number() }, () => reader.take(reader.number()));
}

/** The pieces that each function shares with others, and the functions of each piece. */
function piecesOf(functions) {
  const holders = new Map();
  const pieces = functions.map((code, number) => {
    const own = new Set();
    for (let at = 0; at + PIECE <= code.length; at++) own.add(code.toString("latin1", at, at + PIECE));
    for (const piece of own) {
      if (!holders.has(piece)) holders.set(piece, []);
      holders.get(piece).push(number);
    }
    return own;
  });
  const isShared = (piece) => holders.get(piece).length > 1 && holders.get(piece).length <= COMMON;
  return { holders, pieces: pieces.map((own) => [...own].filter(isShared)) };
}

/** The functions' numbers in their new order. */
function orderOf(functions) {
  const { holders, pieces } = piecesOf(functions);
  const [shared, isPlaced] = [new Uint32Array(functions.length), new Uint8Array(functions.length)];
  const inWindow = new Map();
  const count = (number, change) => {
    for (const piece of pieces[number]) {
      const before = inWindow.get(piece) ?? 0;
      inWindow.set(piece, before + change);
      if (before + Math.min(change, 0) === 0) for (const holder of holders.get(piece)) shared[holder] += change;
    }
  };
  const order = [];
  let [oldest, bytes] = [0, 0];
  for (let next = 0; order.length < functions.length; ) {
    isPlaced[next] = 1;
    order.push(next);
    count(next, 1);
    bytes += functions[next].length;
    while (bytes > WINDOW && oldest < order.length - 1) {
      bytes -= functions[order[oldest]].length;
      count(order[oldest++], -1);
    }
    let best = -1;
    for (let number = 0; number < functions.length; number++) {
      const likeness = isPlaced[number] ? -1 : shared[number] / (pieces[number].length + BALANCE);
      if (likeness > best) [next, best] = [number, likeness];
    }
  }
  return order;
}

/** The section with the functions' names, which sort as in that order. */
function namesOf(order, imports) {
  const entries = order.map((number, place) => [number + imports, `f${String(place).padStart(6, "0")}`]);
  entries.sort(([a], [b]) => a - b);
  const list = entries.flatMap(([number, name]) => [...numberBytes(number), ...withLength(Buffer.from(name))]);
  const names = [1, ...withLength([...numberBytes(entries.length), ...list])];
  return Buffer.from([CUSTOM, ...withLength([...withLength(Buffer.from("name")), ...names])]);
}

const [FROM, TO] = process.argv.slice(2);
const wasm = readFileSync(FROM);
const sections = sectionsOf(wasm);
const bodyOf = (wanted) => sections.find(({ id }) => id === wanted).body;
const order = orderOf(functionsOf(bodyOf(CODE)));
const isOfNames = ({ id, body }) => id === CUSTOM && new Reader(body).text() === "name";
const kept = sections.filter((section) => !isOfNames(section)).map(({ bytes }) => bytes);
writeFileSync(TO, Buffer.concat([wasm.subarray(0, HEADER_BYTES), ...kept, namesOf(order, importsOf(bodyOf(IMPORTS)))]));
