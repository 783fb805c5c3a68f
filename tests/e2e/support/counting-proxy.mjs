// A proxy in front of the server that counts the bytes of files on their way to it. It reads nothing, so sockets pass too.
import { once } from "node:events";
import { createServer, request as send } from "node:http";

import { passSocket } from "./proxy.mjs";

/** Starts it. Its address stays while the server stops and starts. */
export async function startCountingProxy(t, server) {
  const proxy = {
    url: "",
    /** Bytes of objects on their way to a server that listens, those of broken requests too. */
    up: 0,
    /** The bytes that were sent a second time since the last call: those of objects which were sent before it, too. */
    again() {
      let again = 0;
      for (const [path, bytes] of lately) {
        again += Math.min(bytes, before.get(path) ?? 0);
        before.set(path, Math.max(bytes, before.get(path) ?? 0));
      }
      lately.clear();
      return again;
    },
    /** Waits until so many bytes have arrived in all. */
    reached: (bytes) => new Promise((resolve) => waits.add({ bytes, resolve })),
  };
  const waits = new Set();
  /** Bytes by object: before the last call of `again`, and since. */
  const [before, lately] = [new Map(), new Map()];
  const count = (path, { length }) => {
    proxy.up += length;
    lately.set(path, (lately.get(path) ?? 0) + length);
    for (const wait of waits) if (proxy.up >= wait.bytes && waits.delete(wait)) wait.resolve();
  };
  const http = createServer((request, response) => {
    const beyond = send({ port: server.port, host: "127.0.0.1", path: request.url, method: request.method, headers: request.headers });
    beyond.on("response", (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    beyond.on("error", () => response.destroy());
    request.on("error", () => beyond.destroy());
    response.on("error", () => beyond.destroy());
    // A server that is down takes no bytes. Otherwise the retries of a session would count as sent.
    const pass = () => {
      if (request.method === "PUT") request.on("data", (bytes) => count(request.url, bytes));
      request.pipe(beyond);
    };
    beyond.on("socket", (socket) => (socket.connecting ? socket.once("connect", pass) : pass()));
  });
  http.on("upgrade", passSocket(server));
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  proxy.url = `http://127.0.0.1:${http.address().port}`;
  t.after(() => {
    http.closeAllConnections();
    http.close();
  });
  return proxy;
}
