// Serves a folder of static files to this machine: `node scripts/serve-www.mjs FOLDER [PORT]`.
import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, resolve, sep } from "node:path";

const TYPES = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".txt": "text/plain; charset=utf-8",
  // Without a parameter, or browsers do not compile it while it arrives.
  ".wasm": "application/wasm",
  ".webmanifest": "application/manifest+json",
  ".woff2": "font/woff2",
};

// A visitor may enter any server's address; everything else comes from here.
const POLICY = [
  "default-src 'none'",
  "script-src 'self' 'wasm-unsafe-eval'",
  "style-src 'self'",
  "img-src 'self'",
  "font-src 'self'",
  "manifest-src 'self'",
  "worker-src 'self'",
  "connect-src 'self' http: https: ws: wss:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const [folder = "www/dist", port = "7800"] = process.argv.slice(2);
const root = resolve(folder);

const server = createServer((request, response) => {
  answer(request, response).catch((error) => {
    if (response.headersSent) response.destroy(error);
    else refuse(response, 500);
  });
});
server.on("error", (error) => {
  const taken = error.code === "EADDRINUSE";
  console.error(taken ? `error: port ${port} is taken; give another one` : `error: ${error.message}`);
  process.exit(1);
});
// Port 0 takes a free one: the starting process reads it here.
server.listen(Number(port), "127.0.0.1", () => console.log(`listening on http://localhost:${server.address().port}`));

async function answer(request, response) {
  if (request.method !== "GET" && request.method !== "HEAD") return refuse(response, 405);
  const path = pathOf(request.url);
  const file = path && (await fileAt(path));
  if (!file) return refuse(response, 404);
  const headers = {
    "content-type": TYPES[extname(file.path)] ?? "application/octet-stream",
    "content-length": file.size,
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    // Files under assets/ have their content's hash in their names; the others are requested again each time.
    "cache-control": path.startsWith(join(root, "assets") + sep) ? "public, max-age=31536000, immutable" : "no-cache",
    etag: `"${file.size.toString(36)}-${Math.trunc(file.mtimeMs).toString(36)}"`,
  };
  if (request.headers["if-none-match"] === headers.etag) {
    delete headers["content-length"];
    response.writeHead(304, headers).end();
  } else if (request.method === "HEAD") {
    response.writeHead(200, headers).end();
  } else {
    response.writeHead(200, headers);
    createReadStream(file.path).on("error", (error) => response.destroy(error)).pipe(response);
  }
}

/** The path inside the folder that a request asks for; undefined if it leads out of the folder. */
function pathOf(url) {
  try {
    const path = resolve(join(root, decodeURIComponent(new URL(url, "http://localhost").pathname)));
    return path === root || path.startsWith(root + sep) ? path : undefined;
  } catch {
    return undefined;
  }
}

async function fileAt(path) {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory()) return fileAt(join(path, "index.html"));
  return found?.isFile() ? { path, size: found.size, mtimeMs: found.mtimeMs } : undefined;
}

function refuse(response, status) {
  response.writeHead(status, { "content-type": "text/plain", "content-security-policy": POLICY }).end(`${status}\n`);
}
