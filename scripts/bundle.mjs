// Bundles the modules of js/dist and the glue of the wasm into one small file, pkg/index.js, with a source map that
// only debuggers read. A page then requests two files, with less than half the bytes of the separate modules.
import { writeFile } from "node:fs/promises";

import { rolldown } from "rolldown";

const bundle = await rolldown({ input: "js/dist/index.js" });
const { output } = await bundle.generate({ file: "pkg/index.js", format: "es", minify: true, sourcemap: true });
await bundle.close();
const [chunk, ...others] = output;
if (others.some(({ type }) => type === "chunk")) throw new Error("the package is more than one file");

// Applications' bundlers find the wasm by this expression, some only if its text is in quotes.
const quoted = chunk.code.replace("`./escale_bg.wasm`", '"./escale_bg.wasm"');
if (!quoted.includes('new URL("./escale_bg.wasm",import.meta.url)')) throw new Error("the wasm's address is lost");
await writeFile("pkg/index.js", quoted.replace(/\n?\/\/# sourceMappingURL=.*\n?$/, "") + "\n//# sourceMappingURL=index.js.map\n");
await writeFile("pkg/index.js.map", chunk.map.toString());
