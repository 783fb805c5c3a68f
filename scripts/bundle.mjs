// Bundles the modules of js/dist and the glue of the wasm: one small file for each entry of the package. Source maps are
// for debuggers alone. A page then requests two files, with less than half the bytes of the separate modules.
import { readdir, rm, writeFile } from "node:fs/promises";

import { rolldown } from "rolldown";

import { ENTRIES, MAIN } from "./entries.mjs";

/**
 * Writes the bundle of an entry. It may import the other entries of `external`, packages of the application that are its
 * `peer`, and modules of Node.
 */
async function write(name, { external = [], peer = {}, edit = (code) => code }) {
  const files = external.filter((other) => other !== name).map((other) => new RegExp(`^\\.\\.?/${other}\\.js$`));
  const bundle = await rolldown({ input: `js/dist/${name}.js`, external: [/^node:/, ...files, ...Object.keys(peer)] });
  const { output } = await bundle.generate({ file: `pkg/${name}.js`, format: "es", minify: true, sourcemap: true });
  await bundle.close();
  const [chunk, ...others] = output;
  if (others.some(({ type }) => type === "chunk")) throw new Error(`${name} is more than one file`);
  const code = edit(chunk.code).replace(/\n?\/\/# sourceMappingURL=.*\n?$/, "");
  await writeFile(`pkg/${name}.js`, `${code}\n//# sourceMappingURL=${name}.js.map\n`);
  await writeFile(`pkg/${name}.js.map`, chunk.map.toString());
}

// An earlier build may have left entries that are none any more.
const names = [MAIN, ...ENTRIES].flatMap(({ name }) => [`${name}.js`, `${name}.js.map`]);
const left = (await readdir("pkg")).filter((file) => /\.js(\.map)?$/.test(file) && !names.includes(file));
await Promise.all(left.map((file) => rm(`pkg/${file}`)));

await write(MAIN.name, {
  edit(code) {
    // Applications' bundlers find the wasm by this expression, some only if its text is in quotes.
    const quoted = code.replace("`./escale_bg.wasm`", '"./escale_bg.wasm"');
    if (!quoted.includes('new URL("./escale_bg.wasm",import.meta.url)')) throw new Error("the wasm's address is lost");
    return quoted;
  },
});
const entries = [MAIN, ...ENTRIES].map((entry) => entry.name);
for (const { name, peer } of ENTRIES) await write(name, { external: entries, peer });
