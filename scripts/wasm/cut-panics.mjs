// Lets a panic stop the wasm at once: `node scripts/wasm/cut-panics.mjs FROM TO`. The standard library would first make a
// message with the place in the source. Nobody reads that message in a browser, and all code and data for it would be
// in each page's download. The trap names its functions by their numbers (scripts/wasm/trap-names.mjs).
import { readFileSync, writeFileSync } from "node:fs";

import { CODE, DATA, dataOf, functionNamesOf, functionsOf, HEADER_BYTES, IMPORTS, importsOf, numberBytes, sectionBytes, sectionsOf, withLength } from "./format.mjs";

/** Functions of the standard library that only a panic calls. If one is renamed, the build says so. */
const PANICS = [
  /^core\b.*::panicking::/, /^<std\b.*::panicking::panic_handler::/, /^core\b.*::cell::panic_already_/,
  /^core\b.*::option::(expect|unwrap)_failed$/, /^core\b.*::result::unwrap_failed$/, /^core\b.*::slice_index_fail$/,
  /^core\b.*::slice_error_fail$/, /^core\b.*::len_mismatch_fail$/, /^<alloc\b.*::vec::Vec<.*>>::\w+::assert_failed$/,
  /^alloc\b.*::raw_vec::(handle_error|capacity_overflow)$/, /^alloc\b.*::alloc::handle_alloc_error$/,
];
/** No locals, the instruction `unreachable`, the end. */
const TRAP = Buffer.from([0x00, 0x00, 0x0b]);
/** A place in the source, as `core::panic::Location` has it: the address and length of the path, line and column. */
const PLACE_BYTES = 16;
const SOURCE = /^[\x21-\x7e]+\.rs$/;
const [LONGEST_PATH, LAST_LINE, LAST_COLUMN] = [300, 100_000, 1_000];

/** The code, in which the functions that panic are traps. */
function withTraps(functions, names, imports) {
  for (const pattern of PANICS)
    if (![...names.values()].some((name) => pattern.test(name))) throw new Error(`no function is named ${pattern}`);
  const panics = (place) => PANICS.some((pattern) => pattern.test(names.get(imports + place) ?? ""));
  const bodies = functions.flatMap((code, place) => withLength(panics(place) ? TRAP : code));
  return sectionBytes(CODE, [...numberBytes(functions.length), ...bodies]);
}

/** Zeros each place in the source, and its path: only messages of panics read them. */
function zeroPlaces(pieces) {
  const at = (address, length) => {
    const piece = pieces.find((piece) => address >= piece.address && address + length <= piece.address + piece.bytes.length);
    return piece?.bytes.subarray(address - piece.address, address - piece.address + length);
  };
  const paths = new Set();
  for (const { address, bytes } of pieces)
    for (let offset = (4 - (address % 4)) % 4; offset + PLACE_BYTES <= bytes.length; offset += 4) {
      const [path, length, line, column] = [0, 4, 8, 12].map((field) => bytes.readUInt32LE(offset + field));
      if (length > LONGEST_PATH || line < 1 || line > LAST_LINE || column < 1 || column > LAST_COLUMN) continue;
      const text = at(path, length);
      if (!text || !SOURCE.test(text.toString("latin1"))) continue;
      paths.add(text);
      bytes.fill(0, offset, offset + PLACE_BYTES);
    }
  for (const path of paths) path.fill(0);
}

const [FROM, TO] = process.argv.slice(2);
const wasm = readFileSync(FROM);
const sections = sectionsOf(wasm);
const bodyOf = (wanted) => sections.find(({ id }) => id === wanted).body;
const code = withTraps(functionsOf(bodyOf(CODE)), functionNamesOf(sections), importsOf(bodyOf(IMPORTS)).length);
zeroPlaces(dataOf(bodyOf(DATA)));
writeFileSync(TO, Buffer.concat([wasm.subarray(0, HEADER_BYTES), ...sections.map(({ id, bytes }) => (id === CODE ? code : bytes))]));
