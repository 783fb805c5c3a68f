import { fileURLToPath } from "node:url";
import { escale } from "escale/vite";
import { defineConfig } from "vite";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  // The page can be served from any folder.
  base: "./",
  root: here("."),
  resolve: {
    alias: {
      "escale/accounts": here("../pkg/accounts.js"),
      "escale/files": here("../pkg/files.js"),
      "escale/offline": here("../pkg/offline.js"),
      "escale/devtools": here("../pkg/devtools.js"),
      "escale/advice": here("../pkg/advice.js"),
      "escale/rehearsal": here("../pkg/rehearsal.js"),
      escale: here("../pkg/index.js"),
    },
  },
  server: { port: 7800, fs: { allow: [here("..")] } },
  preview: { port: 7800 },
  // Registered after a first opening that stores data: see src/shell.ts.
  plugins: [escale({ register: false })],
  build: {
    target: "es2022",
    // The page's policy allows no data: address and no inline script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: { input: { index: here("index.html"), accounts: here("accounts/index.html") } },
  },
});
