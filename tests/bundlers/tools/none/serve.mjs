// A server of files that knows nothing of wasm: it names no types but those of pages and scripts.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";

const TYPES = { ".html": "text/html", ".js": "text/javascript" };

createServer(async ({ url }, response) => {
  const path = `.${new URL(url, "http://localhost").pathname}`.replace(/\/$/, "/index.html");
  const body = await readFile(path).catch(() => undefined);
  response.writeHead(body ? 200 : 404, { "content-type": TYPES[extname(path)] ?? "text/plain" }).end(body);
}).listen(Number(process.argv[2]), "localhost");
