// Gives the functions that the wasm imports short names, in the wasm and in its glue:
// `node scripts/wasm/shorten-imports.mjs WASM GLUE`. wasm-bindgen's names end in a hash, which does not compress.
import { readFileSync, writeFileSync } from "node:fs";

import { HEADER_BYTES, IMPORTS, importsBytes, importsOf, sectionsOf } from "./format.mjs";

const [WASM, GLUE] = process.argv.slice(2);
const wasm = readFileSync(WASM);
let glue = readFileSync(GLUE, "utf8");

const shortened = (imported, place) => {
  const name = `i${place.toString(36)}`;
  const inGlue = new RegExp(`\\b${imported.name}\\b`, "g");
  if (glue.match(inGlue)?.length !== 1) throw new Error(`${GLUE}: not once: ${imported.name}`);
  glue = glue.replace(inGlue, name);
  return { ...imported, name };
};
const sections = sectionsOf(wasm).map(({ id, body, bytes }) => (id === IMPORTS ? importsBytes(importsOf(body).map(shortened)) : bytes));
writeFileSync(WASM, Buffer.concat([wasm.subarray(0, HEADER_BYTES), ...sections]));
writeFileSync(GLUE, glue);
