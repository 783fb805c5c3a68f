/**
 * A Vite plugin: writes the list of the page's files into the service worker, and a version computed from their
 * contents.
 */

import { createHash } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Plugin } from "vite";

const WORKER = "sw.js";

/** Makes the plugin. */
export function shell(): Plugin {
  let folder = "";
  return {
    name: "escale-demo-shell",
    apply: "build",
    enforce: "post",
    configResolved(config) {
      folder = join(config.root, config.build.outDir);
    },
    // After everything is written, including the files copied from `public`.
    async closeBundle(error?: Error) {
      // The bundler reports it.
      if (error) return;
      const files = await filesOf(folder);
      const version = createHash("sha256");
      for (const file of [...files, WORKER]) version.update(file).update(await readFile(join(folder, file)));
      const manifest = { version: version.digest("hex").slice(0, 16), files };
      const path = join(folder, WORKER);
      const code = await readFile(path, "utf8");
      if (!code.includes("__SHELL__")) throw new Error(`${WORKER} has no place for its list of files`);
      await writeFile(path, `const __SHELL__ = ${JSON.stringify(manifest)};\n${code}`);
    },
  };
}

async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && entry.name !== WORKER && !entry.name.endsWith(".map"))
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1).replaceAll("\\", "/"))
    .sort();
}
