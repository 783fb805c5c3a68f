// Loads the page's TypeScript modules in Node, as Vite compiles them for the browser.
import { fileURLToPath } from "node:url";
import { createServer } from "vite";

/** Gives `load(path)` to the tests, and stops its server after them. */
export async function loader(after) {
  const server = await createServer({
    configFile: false,
    root: fileURLToPath(new URL("..", import.meta.url)),
    logLevel: "error",
    optimizeDeps: { noDiscovery: true },
    server: { middlewareMode: true, ws: false, watch: null },
    appType: "custom",
  });
  after(() => server.close());
  return (path) => server.ssrLoadModule(path);
}
