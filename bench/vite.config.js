import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));

/** The npm package that the pages import, and the folder that they are built into. */
const { PACKAGE: pkg = here("../pkg"), DIST: outDir = here("dist") } = process.env;

const { exports } = JSON.parse(readFileSync(`${pkg}/package.json`, "utf8"));

/** Builds without this entry have no files, and no page of theirs asks for it. */
const files = exports["./files"] ? `${pkg}/files.js` : here("page/rehearsal-before.js");

/** Builds without this entry rehearse if `rehearsal` is true. */
const rehearsal = exports["./rehearsal"] ? `${pkg}/rehearsal.js` : here("page/rehearsal-before.js");

export default defineConfig({
  root: here("page"),
  base: "./",
  resolve: { alias: { "escale/files": files, "escale/rehearsal": rehearsal, escale: `${pkg}/index.js`, events: here("node_modules/events/events.js"), buffer: here("node_modules/buffer/index.js") } },
  define: { global: "globalThis", "process.env.NODE_ENV": '"production"' },
  logLevel: "warn",
  worker: { format: "es" },
  build: { outDir, emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, chunkSizeWarningLimit: 10_000 },
});
