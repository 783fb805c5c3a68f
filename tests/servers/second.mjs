// The server of examples/servers/node, under a network and an administrator that a test commands. The server was written
// from docs/protocol.md and docs/schema.md alone, and shares no code with server/ or with the package.
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";

import { Fault, Server, Write, closeSockets, handle, upgrade } from "../../examples/servers/node/server.mjs";

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

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
function serve(server, fate, request, response) {
  if (fate === "lost request") return response.destroy();
  if (fate === "unavailable") return unavailable(request, response);
  if (fate === "lost reply") response.writeHead = () => ({ end: () => response.destroy() });
  return handle(server, request, response).catch(() => response.destroy());
}

/**
 * Starts a server. `trouble` decides the fate of each request before it is served: "lost request", "lost reply",
 * "unavailable", or nothing. Any of them refuses a socket.
 *
 * `backup` keeps a copy of the database; `restore` restores the last copy under a new epoch.
 */
export async function start({ trouble = () => undefined, ...options }) {
  const server = new Server(options);
  const { db } = server;
  // An operation that only this server has: it shows a custom error code.
  server.operations.credit = () => {
    throw new Fault("credit_limit", "A", "The account has no credit left.", { phase: 1 });
  };
  const streams = new Set();
  let [http, copy, bound] = [undefined, structuredClone(db.tables), 0];
  const listen = async () => {
    http = createServer((request, response) => void serve(server, request.method === "POST" ? trouble(request) : undefined, request, response));
    http.on("upgrade", (request, stream, head) => {
      stream.on("error", () => stream.destroy());
      if (trouble(request)) return stream.destroy();
      const open = { stream, url: request.url };
      streams.add(open);
      stream.on("close", () => streams.delete(open));
      upgrade(server, request, stream, head);
    });
    await new Promise((resolve, reject) => http.on("error", reject).listen(bound, "127.0.0.1", resolve));
    bound = http.address().port;
  };
  const stop = async () => {
    closeSockets();
    const closed = new Promise((resolve) => http.close(resolve));
    http.closeAllConnections();
    await closed;
  };
  await listen();
  return {
    url: `http://127.0.0.1:${bound}`,
    stop,
    async restart() {
      await stop();
      await listen();
    },
    /** Closes all sockets, or cuts those whose paths begin with `base`. */
    closeSockets(base) {
      if (base === undefined) closeSockets();
      else for (const { stream, url } of streams) if (url.startsWith(base)) stream.destroy();
    },
    backup: () => void (copy = structuredClone(db.tables)),
    async restore() {
      await stop();
      const [last] = db.meta("epoch");
      db.tables = structuredClone(copy);
      db.put("meta", "epoch", [Math.max(server.clock(), last + 1), randomBytes(8).toString("hex")]);
      await listen();
    },
    purge: () => server.purge(),
    /** The highest version that it has given. */
    highest: () => db.meta("highest"),
    /** A write of the server itself. Returns the version, or throws the fault. */
    write(org, name, args) {
      const write = new Write(server, org);
      server.execute(write, { name, args });
      server.commit(write);
      return write.given;
    },
    /** The living documents of an org, ascending by class and pk, each with the defs that hold it. */
    dump(org) {
      const now = server.tellNow();
      const isAlive = ({ deleted, maxLife }) => !deleted && !(maxLife * 60_000 <= now);
      return [...server.classes.keys()].sort().flatMap((name) => {
        const hasEnded = (pk, document) => server.isBelow(org, name, pk, document, Infinity);
        const rows = [...db.table(`documents ${org} ${name}`)].filter(([pk, document]) => isAlive(document) && !hasEnded(pk, document));
        return rows.sort(([a], [b]) => compare(a, b)).map(([pk, { v, data, links }]) => {
          return { class: name, pk, v, data, defs: [name, `${name}@${pk}`, ...links.map((link) => `${name}/${link}`)] };
        });
      });
    },
  };
}
