// A server of files: `node files.mjs FOLDER PORT`. It knows nothing of wasm, and names no types but those of pages and scripts.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";

const TYPES = { ".html": "text/html", ".js": "text/javascript" };

createServer(async ({ url }, response) => {
  const path = `${process.argv[2]}${new URL(url, "http://localhost").pathname}`.replace(/\/$/, "/index.html");
  const body = await readFile(path).catch(() => undefined);
  response.writeHead(body ? 200 : 404, { "content-type": TYPES[extname(path)] ?? "text/plain" }).end(body);
}).listen(Number(process.argv[3]), "localhost");
