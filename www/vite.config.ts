import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { shell } from "./build/shell";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  // The page can be served from any folder.
  base: "./",
  root: here("."),
  resolve: { alias: { "escale/rehearsal": here("../pkg/rehearsal.js"), escale: here("../pkg/index.js") } },
  server: { port: 7800, fs: { allow: [here("..")] } },
  preview: { port: 7800 },
  plugins: [shell()],
  build: {
    target: "es2022",
    // The page's policy allows no data: address and no inline script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      input: { index: here("index.html"), sw: here("src/sw.ts") },
      output: { entryFileNames: ({ name }) => (name === "sw" ? "sw.js" : "assets/[name]-[hash].js") },
    },
  },
});
