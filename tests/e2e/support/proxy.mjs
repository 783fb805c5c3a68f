// A proxy in front of the server that records messages, and can delay or cut them.
import { once } from "node:events";
import { createServer, request as send } from "node:http";
import { connect } from "node:net";
import { buffer } from "node:stream/consumers";

import { decode } from "@msgpack/msgpack";

/** Starts a proxy in front of `server`. Its address stays while the server stops and starts. */
export async function startProxy(t, server) {
  const sockets = new Set();
  const proxy = {
    /** Every sync request in order: `{ at, ops, subs, up, down, status, reply, ended }`. */
    requests: [],
    /** Called with each request before it is passed on; a true result cuts the connection instead. */
    cuts: () => false,
    /** Called with each request; returns `{ status, headers, body }` to answer instead of the server. */
    answers: () => undefined,
    /** Called with each answered request, its reply included; a true result loses the answer on its way back. */
    loses: () => false,
    /** Called with each reply of the server, decoded; returns the bytes to send instead. */
    rewrites: () => undefined,
    url: "",
    /** The encodings that the server may use. The proxy reads plain replies only, and records no other. */
    encodings: "identity",
    /** How often a page's browser has sent a preflight request (OPTIONS). */
    preflights: 0,
    /** Bytes of the replies since the request of that number. */
    bytesSince: (number) => proxy.requests.slice(number).reduce((sum, one) => sum + one.down, 0),
    /** Breaks every connection, as a lost network would. */
    cutAll() {
      for (const socket of sockets) socket.destroy();
    },
  };
  const http = createServer((request, response) => {
    void pass(proxy, server, request, response);
  });
  http.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => {});
  });
  http.on("upgrade", passSocket(server));
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  proxy.url = `http://127.0.0.1:${http.address().port}`;
  t.after(() => {
    proxy.cutAll();
    http.close();
  });
  return proxy;
}

/** Passes a socket on, unread: a listener for `upgrade`. It connects with the port that the server has then. */
export const passSocket = (server) => (request, socket, head) => {
  const beyond = connect(server.port, "127.0.0.1");
  const end = () => {
    beyond.destroy();
    socket.destroy();
  };
  for (const side of [beyond, socket]) side.on("error", end).on("close", end);
  const lines = [`${request.method} ${request.url} HTTP/1.1`];
  for (let i = 0; i < request.rawHeaders.length; i += 2) lines.push(`${request.rawHeaders[i]}: ${request.rawHeaders[i + 1]}`);
  beyond.on("connect", () => {
    beyond.write(`${lines.join("\r\n")}\r\n\r\n`);
    beyond.write(head);
    beyond.pipe(socket).pipe(beyond);
  });
};

async function pass(proxy, server, request, response) {
  const body = await buffer(request);
  const isSync = request.method === "POST" && request.url.endsWith("/sync");
  const entry = { at: Date.now(), ops: [], subs: [], up: body.length, down: 0, status: 0, reply: undefined, ended: false };
  if (request.method === "OPTIONS") proxy.preflights += 1;
  if (isSync) {
    const { ops, subs } = decode(body);
    Object.assign(entry, { ops, subs });
    proxy.requests.push(entry);
    if (await proxy.cuts(entry, proxy.requests.length)) return request.socket.destroy();
    const answer = proxy.answers(entry);
    if (answer) return respond(request, response, answer);
  }
  const headers = { ...request.headers, "accept-encoding": proxy.encodings };
  const onward = send(
    { host: "127.0.0.1", port: server.port, method: request.method, path: request.url, headers, agent: false },
    async (reply) => {
      try {
        const bytes = await buffer(reply);
        Object.assign(entry, { down: bytes.length, status: reply.statusCode });
        const isPlain = reply.headers["content-encoding"] === undefined;
        if (isSync && isPlain && reply.statusCode === 200) entry.reply = decode(bytes);
        if (isSync && (await proxy.loses(entry))) return request.socket.destroy();
        const instead = entry.reply && proxy.rewrites(entry.reply, bytes);
        if (instead) return respond(request, response, { body: instead });
        response.writeHead(reply.statusCode, reply.headers).end(bytes);
        entry.ended = true;
      } catch {
        request.socket.destroy();
      }
    },
  );
  onward.on("error", () => request.socket.destroy());
  onward.end(body);
}

/** Answers like a server that allows every page. */
function respond(request, response, { status = 200, headers = {}, body = "", breaks = false }) {
  const open = { "access-control-allow-origin": "*", "access-control-expose-headers": "retry-after" };
  response.writeHead(status, { "content-type": "application/msgpack", ...open, ...headers });
  if (!breaks) return response.end(body);
  return response.write(body, () => request.socket.destroy());
}
