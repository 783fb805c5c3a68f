// The static server of the test page: an empty page, the package in pkg/, and the page's helpers.
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { once } from "node:events";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";

import { ROOT } from "./paths.mjs";

/** `modules` are the modules that the package is bundled from; they use the package's wasm. `handler` serves within the page. */
const FOLDERS = { handler: join(ROOT, "handler"), pkg: join(ROOT, "pkg"), modules: join(ROOT, "js/dist"), msgpack: join(ROOT, "node_modules/@msgpack/msgpack/dist.esm") };
const TYPES = { ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };
const PAGE = '<!doctype html><html lang="en"><meta charset="utf-8"><title>test</title><body></body></html>';
/** The same page, driven from outside of the browser. */
const DRIVEN = PAGE.replace("<body>", '<body><script type="module" src="/driven.js"></script>');
const HELPERS = ["driven.js", "films.js", "in-page.js", "lying-server.js", "page-server.js", "random.js"];

/**
 * Serves the page on a separate port. `policy` is its Content-Security-Policy; `isKept` lets the browser cache pages.
 */
export async function startSite(t, { policy, isKept = false } = {}) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url, "http://localhost");
    const headers = { "cache-control": isKept ? "no-cache" : "no-store" };
    if (pathname === "/" || pathname === "/driven") {
      if (policy) headers["content-security-policy"] = policy;
      return response.writeHead(200, { ...headers, "content-type": "text/html" }).end(pathname === "/" ? PAGE : DRIVEN);
    }
    const [, folder, name] = /^\/(handler|pkg|modules|msgpack)\/([\w./-]+)$/.exec(pathname) ?? [];
    const helper = HELPERS.find((one) => pathname === `/${one}`);
    if (pathname === "/modules/escale_bg.wasm") return response.writeHead(302, { ...headers, location: "/pkg/escale_bg.wasm" }).end();
    const file = helper ? fileURLToPath(new URL(`in-page/${helper}`, import.meta.url)) : name && join(FOLDERS[folder], normalize(`/${name}`));
    const bytes = file ? readFile(file) : Promise.reject(new Error("no such file"));
    return bytes.then(
      (body) => response.writeHead(200, { ...headers, "content-type": TYPES[extname(file)] ?? "text/plain" }).end(body),
      () => response.writeHead(404, headers).end(),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const stop = () => {
    server.closeAllConnections();
    server.close();
  };
  t.after(stop);
  return { url: `http://localhost:${server.address().port}/`, stop };
}
