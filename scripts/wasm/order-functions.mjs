// Names the functions of a wasm so that `wasm-opt --reorder-functions-by-name` puts similar ones side by side:
// `node scripts/wasm/order-functions.mjs FROM TO NAMES`. Their names so far go to NAMES, a line each
// (scripts/wasm/trap-names.mjs). gzip refers to at most 32 KiB before, and the copies of a generic function are far apart
// otherwise. The order is greedy: next comes the function with most pieces in the functions just before it. It is made from
// several first functions, and the one that compresses best is taken: they differ by a kilobyte, and the names of copies of
// a generic function, which decide where one begins, differ from folder to folder.
import { readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

import {
  CODE, CUSTOM, FUNCTION_NAMES, functionNamesOf, functionsOf, HEADER_BYTES, IMPORTS, importsOf, isOfNames, numberBytes,
  sectionBytes, sectionsOf, textBytes, withLength,
} from "./format.mjs";

/** How many bytes are one piece. */
const PIECE = 6;
/** A piece that more functions have says little about any of them. */
const COMMON = 300;
/** How many bytes before a function gzip still sees, but for some room. */
const WINDOW = 30_000;
/** How many orders are tried. */
const ORDERS = 6;
/** So many pieces are counted on top of a function's own, or the smallest ones would come first. */
const BALANCE = 20;

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

/** The functions' numbers in the order that compresses best. */
function bestOrderOf(functions) {
  const shared = piecesOf(functions);
  const sizeOf = (order) => gzipSync(Buffer.concat(order.map((number) => functions[number])), { level: 9 }).length;
  const orders = Array.from({ length: ORDERS }, (_, k) => orderOf(functions, Math.floor((functions.length * k) / ORDERS), shared));
  return orders.map((order) => ({ order, size: sizeOf(order) })).sort((a, b) => a.size - b.size)[0].order;
}

/** Their numbers in an order that begins with one of them. */
function orderOf(functions, first, { holders, pieces }) {
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
  for (let next = first; order.length < functions.length; ) {
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
  const list = entries.flatMap(([number, name]) => [...numberBytes(number), ...textBytes(name)]);
  return sectionBytes(CUSTOM, [...textBytes("name"), FUNCTION_NAMES, ...withLength([...numberBytes(entries.length), ...list])]);
}

const [FROM, TO, NAMES] = process.argv.slice(2);
const wasm = readFileSync(FROM);
const sections = sectionsOf(wasm);
const bodyOf = (wanted) => sections.find(({ id }) => id === wanted).body;
const imports = importsOf(bodyOf(IMPORTS));
const order = bestOrderOf(functionsOf(bodyOf(CODE)));
const kept = sections.filter((section) => !isOfNames(section)).map(({ bytes }) => bytes);
writeFileSync(TO, Buffer.concat([wasm.subarray(0, HEADER_BYTES), ...kept, namesOf(order, imports.length)]));
const names = functionNamesOf(sections);
const lines = [...imports.map(({ name }) => name), ...order.map((number) => names.get(number + imports.length))];
writeFileSync(NAMES, lines.map((line) => `${line}\n`).join(""));
