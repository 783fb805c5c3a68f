// Serves a folder of static files to this machine: `node scripts/serve-www.mjs FOLDER [PORT] [DOCS]`. The folder DOCS
// is under /docs; it may come into being later.
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, resolve, sep } from "node:path";

const TYPES = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json",
  ".md": "text/markdown; charset=utf-8",
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
];

const [folder = "www/dist", port = "7800", docs] = process.argv.slice(2);
const root = resolve(folder);
const docsRoot = docs && resolve(docs);

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
  const found = pathOf(request.url);
  const file = found && (await fileAt(found.path));
  if (!file) return refuse(response, 404, found?.isDocs && !(await fileAt(docsRoot)) ? "The documentation is still being built: reload this page in a minute.\n" : undefined);
  const headers = {
    "content-type": TYPES[extname(file.path)] ?? "application/octet-stream",
    "content-length": file.size,
    "content-security-policy": found.isDocs ? await policyOfDocs(file.path) : POLICY.join("; "),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    // Files under assets/ have their content's hash in their names; the others are requested again each time.
    "cache-control": found.path.startsWith(join(found.isDocs ? docsRoot : root, "assets") + sep) ? "public, max-age=31536000, immutable" : "no-cache",
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

/** The path inside a folder that a request asks for; undefined if it leads out of the folder. */
function pathOf(url) {
  try {
    const path = decodeURIComponent(new URL(url, "http://localhost").pathname);
    const isDocs = docsRoot !== undefined && /^\/docs(\/|$)/.test(path);
    const [from, name] = isDocs ? [docsRoot, path.slice("/docs".length)] : [root, path];
    const found = resolve(join(from, name));
    return found === from || found.startsWith(from + sep) ? { path: found, isDocs } : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The policy of a page of the documentation. Its generator writes a few scripts into each page: their hashes are allowed,
 * and no others. It colours examples by attributes, and its icons are in its style sheet.
 */
async function policyOfDocs(path) {
  const scripts = path.endsWith(".html") ? [...(await readFile(path, "utf8")).matchAll(/<script(?![^>]*\bsrc=)[^>]*>([\s\S]*?)<\/script>/g)] : [];
  const hashes = scripts.map(([, code]) => `'sha256-${createHash("sha256").update(code).digest("base64")}'`);
  return POLICY.map((rule) => {
    if (rule.startsWith("script-src")) return ["script-src 'self'", ...new Set(hashes)].join(" ");
    if (rule.startsWith("img-src")) return "img-src 'self' data:";
    return rule.startsWith("style-src") ? "style-src 'self' 'unsafe-inline'" : rule;
  }).join("; ");
}

async function fileAt(path) {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory()) return fileAt(join(path, "index.html"));
  return found?.isFile() ? { path, size: found.size, mtimeMs: found.mtimeMs } : undefined;
}

function refuse(response, status, text = `${status}\n`) {
  response.writeHead(status, { "content-type": "text/plain", "content-security-policy": POLICY.join("; ") }).end(text);
}
