// Gives the functions that the wasm imports, and all that it exports, short names, in the wasm and in its glue:
// `node scripts/wasm/shorten-names.mjs WASM GLUE`. wasm-bindgen's names end in a hash, which does not compress. It
// leaves out imports and exports without a user.
import { readFileSync, writeFileSync } from "node:fs";

import { EXPORTS, exportsBytes, exportsOf, HEADER_BYTES, IMPORTS, importsBytes, importsOf, sectionsOf } from "./format.mjs";

const [WASM, GLUE] = process.argv.slice(2);
/** `write-glue.mjs` names them, too. */
const KEPT = ["memory", "__wbindgen_externrefs"];
const wasm = readFileSync(WASM);
let glue = readFileSync(GLUE, "utf8");

const shortenedImport = (imported, place) => {
  const name = `i${place.toString(36)}`;
  const inGlue = new RegExp(`\\b${imported.name}\\b`, "g");
  if (glue.match(inGlue)?.length !== 1) throw new Error(`${GLUE}: not once: ${imported.name}`);
  glue = glue.replace(inGlue, name);
  return { ...imported, name };
};

const shortenedExport = (exported, place) => {
  if (KEPT.includes(exported.name)) return [exported];
  const name = `x${place.toString(36)}`;
  const before = glue;
  glue = glue.replace(new RegExp(`\\bwasm\\.${exported.name}\\b`, "g"), `wasm.${name}`);
  return glue === before ? [] : [{ ...exported, name }];
};

const shortened = ({ id, body, bytes }) => {
  if (id === IMPORTS) return importsBytes(importsOf(body).map(shortenedImport));
  if (id === EXPORTS) return exportsBytes(exportsOf(body).flatMap(shortenedExport));
  return bytes;
};
const sections = sectionsOf(wasm).map(shortened);
const unused = /^ {8}__wbg_\w+: function\(.*\n(?: {12}.*\n)* {8}\}.*,\n/gm;
glue = glue.replace(unused, "");
writeFileSync(WASM, Buffer.concat([wasm.subarray(0, HEADER_BYTES), ...sections]));
writeFileSync(GLUE, glue);
