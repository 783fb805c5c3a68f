// Gathers the pages: documents of the repository, and the first page. They are made in site/pages,
// which is not kept.
import { cp, mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { asPage, descriptionOf } from "./links.mjs";
import { pages, PAGES, ROOT } from "./pages.mjs";

const known = await pages();
const assets = new Map();

await rm(PAGES, { recursive: true, force: true });
for (const [path, page] of known) {
  const text = asPage(await readFile(join(ROOT, path), "utf8"), path, known, assets);
  await write(page, `---\ndescription: ${JSON.stringify(descriptionOf(text))}\n---\n\n${text}`);
}
for (const [source, asset] of assets) {
  await mkdir(dirname(join(PAGES, asset)), { recursive: true });
  await cp(join(ROOT, source), join(PAGES, asset));
}
await mkdir(join(PAGES, "public"), { recursive: true });
await cp(join(ROOT, "www/public/favicon.svg"), join(PAGES, "public/favicon.svg"));
await write("index.md", await readFile(new URL("../home.md", import.meta.url), "utf8"));

async function write(page, text) {
  const file = join(PAGES, page);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, text);
}
