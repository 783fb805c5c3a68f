// `escale-handler` under a network and an administrator that a test commands. It was written from docs/protocol.md and
// docs/schema.md alone, and shares no code with server/ or with the core.
import { createServer } from "node:http";
import { WebSocketServer } from "ws";

import { run } from "../../handler/src/engine/run.mjs";
import { META } from "../../handler/src/engine/tables.mjs";
import { createHandler, Fault, memory } from "../../handler/src/index.mjs";
import { toNode } from "../../handler/src/node.mjs";

/** Answers as a server does that is closed for a moment. */
function unavailable(request, response) {
  const fault = new Fault("unavailable", "O", "closed for a while").toMap();
  const { origin = "*" } = request.headers;
  response.writeHead(503, {
    "Cache-Control": "no-store",
    "Content-Type": "application/json",
    "Retry-After": "0",
    "Access-Control-Allow-Origin": origin,
    "Access-Control-Expose-Headers": "Retry-After",
  });
  response.end(JSON.stringify(fault));
}

/** Serves a request under a fate: it may be lost, or its reply, or it may be refused. */
function serve(listener, fate, request, response) {
  if (fate === "lost request") return response.destroy();
  if (fate === "unavailable") return unavailable(request, response);
  if (fate === "lost reply") Object.assign(response, { writeHead: () => response, end: () => response.destroy() });
  return listener(request, response);
}

/**
 * Starts a server. `trouble` decides the fate of each request before it is served: "lost request", "lost reply",
 * "unavailable", or nothing. Any of them refuses a socket.
 *
 * `backup` keeps a copy of the database; `restore` restores the last copy under a new epoch.
 */
export async function start({ trouble = () => undefined, clock, ...options }) {
  const storage = memory();
  // An operation that only this server has: it shows a custom error code.
  const credit = () => {
    throw new Fault("credit_limit", "A", "The account has no credit left.", { phase: 1 });
  };
  const streams = new Set();
  let [http, handler, copy, bound, highest] = [undefined, undefined, undefined, 0, 0];
  const listen = async () => {
    handler = createHandler({ storage, clock, operations: { credit }, origins: "*", ...options });
    handler.engine.listeners.add((org, defs, time) => (highest = Math.max(highest, time)));
    run(handler.engine.opened());
    copy ??= storage.copy();
    const { request: listener, upgrade } = toNode(handler, new WebSocketServer({ noServer: true }));
    http = createServer((request, response) => void serve(listener, request.method === "POST" ? trouble(request) : undefined, request, response));
    http.on("upgrade", (request, stream, head) => {
      stream.on("error", () => stream.destroy());
      if (trouble(request)) return stream.destroy();
      const open = { stream, url: request.url };
      streams.add(open);
      stream.on("close", () => streams.delete(open));
      upgrade(request, stream, head);
    });
    await new Promise((resolve, reject) => http.on("error", reject).listen(bound, "127.0.0.1", resolve));
    bound = http.address().port;
  };
  const stop = async () => {
    handler.sockets.closeAll();
    const closed = new Promise((resolve) => http.close(resolve));
    http.closeAllConnections();
    await closed;
  };
  await listen();
  const epoch = () => storage.read("", (tx) => tx.get("", META, ["epoch"]))[0];
  return {
    url: `http://127.0.0.1:${bound}`,
    stop,
    async restart() {
      await stop();
      await listen();
    },
    /** Closes all sockets, or cuts those whose paths begin with `base`. */
    closeSockets(base) {
      if (base === undefined) handler.sockets.closeAll();
      else for (const { stream, url } of streams) if (url.startsWith(base)) stream.destroy();
    },
    backup: () => void (copy = storage.copy()),
    async restore() {
      await stop();
      const last = epoch();
      storage.restore(copy);
      // The new epoch is later than the last one, which the copy may not know.
      storage.write("", (tx) => tx.set([["", META, "epoch", last]]));
      await listen();
      handler.renewEpoch();
    },
    purge: () => handler.purge(),
    /** The highest version that it has given. */
    highest: () => highest,
    /** A write of the server itself. Returns the version, or throws the fault. */
    write: (org, name, args) => handler.write(org, name, args),
    /** The living documents of an org, ascending by class and pk, each with the defs that hold it. */
    dump(org) {
      const { engine } = handler;
      const found = [...engine.classes.keys()].sort().map((name) => run(engine.documents(org, name)).map((one) => ({ class: name, ...one })));
      return found.flat();
    },
  };
}
