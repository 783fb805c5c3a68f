// A storage in a file of SQLite, for one process. It takes an open database of `node:sqlite`, of `better-sqlite3` or of
// `node-sqlite3-wasm`. All of them answer at once.
import { isPromise } from "../engine/run.mjs";
import { textOfValue, valueOfText } from "../forms/json.mjs";
import { STATES, stateOf } from "./states.mjs";
import { inTurns } from "./turns.mjs";

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS escale_rows (
    org TEXT NOT NULL, tab TEXT NOT NULL, key TEXT NOT NULL,
    v INTEGER NOT NULL, at INTEGER NOT NULL, state INTEGER NOT NULL, ends INTEGER, value TEXT,
    PRIMARY KEY (org, tab, key)
  );
  CREATE INDEX IF NOT EXISTS escale_rows_by_version ON escale_rows (org, tab, v, key, state, ends);
`;
const GET = "SELECT key, v, at, state, ends, value FROM escale_rows WHERE org = ? AND tab = ? AND key = ?";
const pageOf = (value) => `SELECT key, v, at, state, ends, ${value} AS value FROM escale_rows
  WHERE org = ? AND tab = ? AND (v, key) > (?, ?) ORDER BY v, key LIMIT ?`;
const COUNT = `SELECT count(*) AS n FROM escale_rows WHERE org = ? AND tab = ? AND v >= ? AND state <> 2
  AND ((state = 0 AND (ends IS NULL OR ends > ?)) OR v >= ?)`;
const SET = "INSERT OR REPLACE INTO escale_rows (org, tab, key, v, at, state, ends, value) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
const REMOVE = "DELETE FROM escale_rows WHERE org = ? AND tab = ? AND key = ?";

/** The interface of all three libraries, with prepared statements. */
function connect(database) {
  const statements = new Map();
  // A database of node-sqlite3-wasm has this method, and its statements take a list.
  const takesList = typeof database.all === "function";
  const call = (method) => (sql, ...values) => {
    if (!statements.has(sql)) statements.set(sql, database.prepare(sql));
    const statement = statements.get(sql);
    return takesList ? statement[method](values) : statement[method](...values);
  };
  const close = () => {
    for (const statement of statements.values()) statement.finalize?.();
    database.close();
  };
  return { exec: (sql) => database.exec(sql), all: call("all"), run: call("run"), close, isAlone: takesList };
}

/** Opens a file with the library that is there: the one of Node, else `better-sqlite3`, else `node-sqlite3-wasm`. */
export async function openSqlite(file, options) {
  const libraries = [["node:sqlite", "DatabaseSync"], ["better-sqlite3", "default"], ["node-sqlite3-wasm", "Database"]];
  for (const [library, name] of libraries) {
    let found;
    try {
      found = await import(library);
    } catch {
      continue;
    }
    const Database = found[name] ?? found.default[name];
    return sqlite(new Database(file), options);
  }
  throw new Error("no SQLite: use Node 22.13 or later, or install better-sqlite3 or node-sqlite3-wasm");
}

/**
 * A storage in this open database. It makes its table there, and leaves all others alone. `synchronous` is the pragma of
 * that name: with less than FULL, a crash of the machine can lose the newest writes.
 */
export function sqlite(database, { synchronous = "FULL" } = {}) {
  if (!["FULL", "NORMAL", "OFF"].includes(synchronous)) throw new TypeError("synchronous: FULL, NORMAL or OFF");
  const { exec, all, run, close, isAlone } = connect(database);
  // Without shared memory, a library has this mode for one process alone.
  if (isAlone) exec("PRAGMA locking_mode = EXCLUSIVE");
  exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${synchronous}; PRAGMA busy_timeout = 1000`);
  exec(SCHEMA);
  const rowOf = ({ v, at, state, ends, value }) => ({
    v: Number(v),
    at: Number(at),
    state: STATES[Number(state)],
    ...(ends !== null && { ends: Number(ends) }),
    ...(value !== null && { value: valueOfText(value) }),
  });
  const tx = {
    get: (org, table, keys) => keys.map((key) => all(GET, org, table, key).map(rowOf)[0]),
    page(org, table, { after: [v, key], limit, bare = false }) {
      return all(pageOf(bare ? "NULL" : "value"), org, table, v, key, limit).map((row) => [row.key, rowOf(row)]);
    },
    count: (org, table, { since, gone, now }) => Number(all(COUNT, org, table, since, now, gone)[0].n),
    set(rows) {
      for (const [org, table, key, row] of rows) {
        if (!row) run(REMOVE, org, table, key);
        else run(SET, org, table, key, row.v, row.at, stateOf(row), row.ends ?? null, row.value === undefined ? null : textOfValue(row.value));
      }
    },
  };
  const turn = inTurns();
  const within = (begin) => (_lock, act) =>
    turn(() => {
      const fail = (error) => {
        try {
          exec("ROLLBACK");
        } catch {
          // SQLite has ended the transaction by itself.
        }
        throw /busy|locked/i.test(`${error?.code} ${error?.message}`) ? Object.assign(error, { isContention: true }) : error;
      };
      const commit = (result) => {
        exec("COMMIT");
        return result;
      };
      try {
        exec(begin);
        const result = act(tx);
        return isPromise(result) ? result.then(commit).catch(fail) : commit(result);
      } catch (error) {
        return fail(error);
      }
    });
  return { read: within("BEGIN"), write: within("BEGIN IMMEDIATE"), close };
}
