// Storages for tests: in memory, in SQLite by each library that is there, and in PostgreSQL.
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";

import { memory } from "../../../handler/src/index.mjs";
import { postgres } from "../../../handler/src/storage/postgres.mjs";
import { sqlite } from "../../../handler/src/storage/sqlite.mjs";
import { ROOT } from "../../e2e/support/paths.mjs";

/** Starts a PostgreSQL that ends with this process, and returns pools of its database, and `stop`. */
export function startPostgres() {
  const script = join(ROOT, "scripts/postgres");
  const folder = execFileSync(script, ["start", String(process.pid)], { encoding: "utf8" }).trim();
  const pools = [];
  const pool = (options = {}) => {
    const made = new pg.Pool({ host: folder, user: "postgres", database: "postgres", ...options });
    pools.push(made);
    return made;
  };
  const stop = async () => {
    for (const made of pools) await made.end();
    execFileSync(script, ["stop", folder]);
  };
  return { folder, pool, stop };
}

/** The libraries of SQLite that this Node can load. One of them is a dependency of the tests. */
export async function libraries() {
  const require = createRequire(import.meta.url);
  const found = [];
  for (const [library, name] of [["node:sqlite", "DatabaseSync"], ["better-sqlite3"], ["node-sqlite3-wasm", "Database"]]) {
    try {
      const loaded = require(library);
      found.push([library, name ? loaded[name] : loaded]);
    } catch (error) {
      if (!/MODULE_NOT_FOUND|UNKNOWN_BUILTIN/.test(error.code)) throw error;
    }
  }
  return found;
}

/** A storage that gives each answer later, as a database of another process does. */
function later(storage) {
  const lateTx = (tx) => Object.fromEntries(["get", "page", "count", "set"].map((name) => [name, async (...given) => await tx[name](...given)]));
  const within = (name) => async (lock, run) => await storage[name](lock, (tx) => run(lateTx(tx)));
  return { read: within("read"), write: within("write"), close: () => storage.close() };
}

/**
 * The kinds of storages, each with `make`, which makes an empty one for a test. Each test of PostgreSQL has a table of its
 * own.
 */
export async function kinds(postgresql) {
  const inSqlite = ([library, Database]) => [
    library,
    (t) => {
      const folder = mkdtempSync(join(tmpdir(), "escale-handler-"));
      const storage = sqlite(new Database(join(folder, "data.sqlite")), { synchronous: "OFF" });
      t.after(() => {
        storage.close();
        rmSync(folder, { recursive: true });
      });
      return storage;
    },
  ];
  let count = 0;
  const inPostgres = async (t) => {
    count += 1;
    const pool = postgresql.pool();
    const storage = await postgres(pool, { table: `rows_${count}` });
    t.after(() => storage.close());
    return storage;
  };
  return [["memory", () => memory()], ["a storage that answers later", () => later(memory())], ...(await libraries()).map(inSqlite), ["PostgreSQL", inPostgres]];
}

/** Resolves with the next message of a socket that `isWanted`. */
export async function nextMessage(socket, isWanted = () => true) {
  for (;;) {
    const [data] = await once(socket, "message");
    const message = JSON.parse(data.toString());
    if (isWanted(message)) return message;
  }
}
