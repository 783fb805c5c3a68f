// A handler in Node: `node:http` for requests, and `ws` for sockets.
import { createServer } from "node:http";

import { BODY_MAX } from "./request.mjs";

/** The body of a request of Node, cut behind the bound: the handler refuses a longer one. */
async function bodyOf(incoming) {
  if (incoming.method === "GET" || incoming.method === "HEAD") return undefined;
  // A caller may wait for the refusal before it sends so much.
  if (Number(incoming.headers["content-length"]) > BODY_MAX) return undefined;
  const chunks = [];
  let size = 0;
  for await (const chunk of incoming) {
    if (size <= BODY_MAX) chunks.push(chunk);
    size += chunk.length;
  }
  return Buffer.concat(chunks);
}

/** A request of Node as a `Request`. The path stays as it came. */
function requestOf({ method, rawHeaders, url }, body) {
  const headers = new Headers();
  for (let i = 0; i < rawHeaders.length; i += 2) headers.append(rawHeaders[i], rawHeaders[i + 1]);
  return new Request(`http://localhost${url}`, { method, headers, body });
}

async function answer(handler, incoming, outgoing) {
  const response = await handler.fetch(requestOf(incoming, await bodyOf(incoming)));
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.end(new Uint8Array(await response.arrayBuffer()));
}

/** Refuses an upgrade by HTTP. */
async function refuse(response, stream) {
  const body = Buffer.from(await response.arrayBuffer());
  const headers = { ...Object.fromEntries(response.headers), "Content-Length": body.length, Connection: "close" };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  stream.end(Buffer.concat([Buffer.from(`HTTP/1.1 ${response.status} Refused\r\n${lines.join("")}\r\n`), body]));
}

/**
 * The listeners of a server of Node: `server.on("request", request)`, `server.on("upgrade", upgrade)`. `webSockets` is a
 * `WebSocketServer` of `ws` with `noServer`.
 */
export function toNode(handler, webSockets) {
  return {
    request: (incoming, outgoing) => void answer(handler, incoming, outgoing).catch(() => outgoing.destroy()),
    upgrade(incoming, stream, head) {
      stream.on("error", () => stream.destroy());
      try {
        const opened = handler.live(requestOf(incoming));
        if (opened instanceof Response) void refuse(opened, stream);
        else webSockets.handleUpgrade(incoming, stream, head, opened);
      } catch {
        // Node announces an upgrade for any method and path, and a `Request` takes less.
        stream.destroy();
      }
    },
  };
}

/** Serves a handler on a port; 0 takes any. Resolves to `{ url, port, server, close }` once it listens. */
export async function serve(handler, { port = 7700, host = "127.0.0.1", purgeEveryMs = 3_600_000 } = {}) {
  const { WebSocketServer } = await import("ws");
  const { request, upgrade } = toNode(handler, new WebSocketServer({ noServer: true, maxPayload: 1 << 20 }));
  const server = createServer(request).on("upgrade", upgrade);
  await new Promise((resolve, reject) => server.once("error", reject).listen(port, host, resolve));
  const purge = async () => {
    try {
      await handler.purge();
    } catch (error) {
      handler.onError(error);
    }
  };
  const purging = setInterval(() => void purge(), purgeEveryMs);
  purging.unref();
  const bound = server.address().port;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${bound}`,
    port: bound,
    server,
    /** Answers the requests that are there, and closes everything. */
    async close() {
      clearInterval(purging);
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeIdleConnections();
      handler.sockets.closeAll();
      await closed;
      await handler.close();
    },
  };
}
