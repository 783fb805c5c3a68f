// Serves the built pages, isolated from other origins unless it is asked not to: clocks are then precise, and memory can be
// measured. But then Chromium keeps all bytes that a page has put into IndexedDB.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".wasm": "application/wasm" };

/** Returns the address, and a function that stops the server. */
export async function serve(folder, { isIsolated = true } = {}) {
  const isolation = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };
  const server = createServer(async (request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    const file = join(folder, path === "/" ? "index.html" : path);
    try {
      if (!file.startsWith(folder)) throw new Error("outside");
      response.writeHead(200, {
        "content-type": TYPES[extname(file)] ?? "application/octet-stream",
        // As sites serve files with a hash in their names: the browser caches the file, and the code compiled from it.
        "cache-control": path.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache",
        ...(isIsolated && isolation),
      });
      response.end(await readFile(file));
    } catch {
      if (!response.headersSent) response.writeHead(404);
      response.end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://localhost:${server.address().port}/`, stop: () => server.close() };
}
