// A site that serves a folder, and answers the pulls of the application in `offline-app`. A test deploys another folder,
// stops it, or changes single answers.
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".txt": "text/plain", ".wasm": "application/wasm" };
const START = 1_700_000_000_000;
// pk = shaS(id): see tests/vectors/hash.json for the function.
const ROWS = [{ pk: "E8QD73URYucI8dur4zj-2Q", v: START, data: { id: "Zola" } }];

export class Site {
  /** Called with each path and awaited; `{ status, headers, body }` answers in place of the folder. */
  changes = () => undefined;
  /** Every request, as `METHOD path`. */
  requests = [];
  #port = 0;
  #server;

  constructor(folder) {
    this.folder = folder;
  }

  get url() {
    return `http://localhost:${this.#port}/`;
  }

  async start() {
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error) => response.destroy(error));
    });
    this.#server.listen(this.#port, "127.0.0.1");
    await once(this.#server, "listening");
    this.#port = this.#server.address().port;
    return this;
  }

  async stop() {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request, response) {
    const { pathname } = new URL(request.url, this.url);
    this.requests.push(`${request.method} ${pathname}`);
    const changed = await this.changes(pathname);
    if (changed) return response.writeHead(changed.status ?? 200, changed.headers).end(changed.body);
    if (request.method === "POST") return response.writeHead(200, { "cache-control": "no-store" }).end(await replyTo(request));
    if (pathname === "/api/me") return response.writeHead(200, { "cache-control": "no-store" }).end("Zola");
    const name = pathname.endsWith("/") ? `${pathname}index.html` : pathname;
    let body;
    try {
      body = await readFile(join(this.folder, name));
    } catch {
      return response.writeHead(404, { "content-type": "text/plain" }).end("not found");
    }
    const isHashed = pathname.startsWith("/assets/");
    const caching = isHashed ? "public, max-age=31536000, immutable" : "no-cache";
    response.writeHead(200, { "content-type": TYPES[extname(name)], "cache-control": caching }).end(body);
  }
}

async function replyTo(request) {
  let body = "";
  for await (const piece of request) body += piece;
  const { subs } = JSON.parse(body);
  const parts = subs.map(([def, v]) => (v === 0 ? { def, rows: ROWS, present: ROWS.map(({ pk }) => pk) } : { def }));
  return JSON.stringify({ p: 1, epoch: [START, "offline"], now: START + 100_000, delta: 2_000, seq: 0, results: [], parts });
}
