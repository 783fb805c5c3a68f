// A second server, written from docs/protocol.md, docs/schema.md and docs/rules.md alone: it shows that they are
// enough. It keeps everything in memory and needs nothing but Node. It must not share code with server/ or with the
// package.
//
// Invariant: a request is served without interruption, so no write happens between its `now` and its snapshot.
//
//     node tests/servers/second.mjs --schema FILE --port N
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

import { DAY_MS, MIB, compare } from "./second/common.mjs";
import { Write } from "./second/database.mjs";
import { Engine } from "./second/engine.mjs";
import { serve } from "./second/http.mjs";
import { execute } from "./second/operations.mjs";
import { upgrade } from "./second/socket.mjs";

/**
 * Starts a server. `trouble` decides the fate of each request before it is served: "lost request", "lost reply",
 * "unavailable", or nothing. Any of them refuses a socket.
 *
 * `backup` keeps a copy of the database; `restore` restores the last copy under a new epoch.
 */
export async function start({ schema, port = 0, clock = Date.now, retentionMs = 365 * DAY_MS, pageBytes = MIB, trouble = () => undefined }) {
  const engine = new Engine({ schema, clock, retentionMs, pageBytes });
  const sockets = new Set();
  let [http, copy, bound] = [undefined, engine.db.copy(), port];
  const listen = async () => {
    http = createServer((request, response) => {
      serve(engine, trouble, request, response).catch(() => response.destroy());
    });
    http.on("upgrade", (request, stream) => upgrade(engine, trouble, sockets, request, stream));
    await new Promise((resolve, reject) => http.on("error", reject).listen(bound, "127.0.0.1", resolve));
    bound = http.address().port;
  };
  /** Closes the sockets whose paths begin with `base`: all of them by default. */
  const closeSockets = (base = "") => {
    for (const socket of [...sockets]) if (socket.url.startsWith(base)) socket.close(1012, "stopping");
  };
  const stop = async () => {
    closeSockets();
    const closed = new Promise((resolve) => http.close(resolve));
    http.closeAllConnections();
    await closed;
  };
  const restart = async () => {
    await stop();
    engine.tries.clear();
    await listen();
  };
  await listen();
  return {
    url: `http://127.0.0.1:${bound}`,
    stop,
    restart,
    closeSockets,
    backup: () => void (copy = engine.db.copy()),
    async restore() {
      await stop();
      engine.restore(copy);
      await listen();
    },
    purge: () => engine.purge(),
    /** The highest version that it has given. */
    highest: () => engine.db.highest,
    /** A write of the server itself. Returns the version, or throws the fault. */
    write(org, name, args) {
      const write = new Write(engine, org);
      try {
        execute(write, { name, args });
      } catch (error) {
        write.rollBack();
        throw error;
      }
      engine.commit(write);
      return write.given;
    },
    /** The living documents of an org, ascending by class and pk, each with the defs that hold it. */
    dump(org) {
      const now = engine.tellNow();
      const isAlive = ({ deleted, maxLife }) => !deleted && !(maxLife * 60_000 <= now);
      return [...engine.classes.keys()].sort().flatMap((name) => {
        const rows = [...(engine.db.documents.get(`${org} ${name}`) ?? [])].filter(([, document]) => isAlive(document));
        return rows.sort(([a], [b]) => compare(a, b)).map(([pk, { v, data, links }]) => {
          return { class: name, pk, v, data, defs: [name, `${name}@${pk}`, ...links.map((link) => `${name}/${link}`)] };
        });
      });
    },
  };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const option = (name) => process.argv[process.argv.indexOf(`--${name}`) + 1];
  const schema = JSON.parse(readFileSync(option("schema"), "utf8"));
  const server = await start({ schema, port: Number(option("port")) });
  console.log(server.url);
}
