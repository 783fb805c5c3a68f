/** The wasm as JavaScript carries it: a text in a module of its own, which needs no file and no address. */

import { packed } from "./packed.js";

/** The functions of Node that are used here. */
interface Zlib {
  inflateRawSync(bytes: Uint8Array): Uint8Array;
}

/**
 * The bytes of the wasm. The text is base64 of its compressed bytes: servers compress it to the size of the wasm, while
 * base64 of the plain bytes would stay a third larger.
 */
export async function load(): Promise<Uint8Array> {
  const bytes = Uint8Array.from(atob(packed), (character) => character.charCodeAt(0));
  if (typeof DecompressionStream === "undefined") return inflateInNode(bytes);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Tests under jsdom have Node, but none of its streams. */
function inflateInNode(bytes: Uint8Array): Uint8Array {
  const { process } = globalThis as { process?: { getBuiltinModule?(name: string): Zlib } };
  const zlib = process?.getBuiltinModule?.("node:zlib");
  if (!zlib) throw new Error("there is no DecompressionStream here");
  return zlib.inflateRawSync(bytes);
}
