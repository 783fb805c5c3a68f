// A storage in PostgreSQL, for any number of instances. It takes a pool of `pg`.
//
// A write holds the lock of its org, so that each of its statements sees all writes before it. A reader waits for the writes
// that have begun, and then takes its snapshot: no later commit has an earlier version than the snapshot's `now`.
import { textOfValue, valueOfText } from "../forms/json.mjs";
import { STATES, stateOf } from "./states.mjs";

const schemaOf = (rows) => `
  CREATE TABLE IF NOT EXISTS ${rows} (
    org text COLLATE "C" NOT NULL, tab text COLLATE "C" NOT NULL, key text COLLATE "C" NOT NULL,
    v bigint NOT NULL, at bigint NOT NULL, state smallint NOT NULL, ends bigint, value json,
    PRIMARY KEY (org, tab, key)
  );
  CREATE INDEX IF NOT EXISTS ${rows}_by_version ON ${rows} (org, tab, v, key);
`;
/** Others may be slow: a request that waits longer is tried again by its session, and keeps no connection. */
const BEGIN = "BEGIN; SET LOCAL lock_timeout = '5s'; SET LOCAL idle_in_transaction_session_timeout = '30s'";
/** A snapshot is taken by the first statement, so the reader waits in a transaction before it. */
const SNAPSHOT = "COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
const CONTENTION = new Set(["40001", "40P01", "55P03"]);
/** PostgreSQL bounds a notification at 8,000 bytes. */
const NOTE_BYTES = 7_000;
const AGAIN_MS = 1_000;

/** Makes the storage in the database of this pool: its table is `table`, and is made if it is not there. */
export async function postgres(pool, { table = "escale_rows" } = {}) {
  if (!/^[a-z_][a-z0-9_]{0,40}$/.test(table)) throw new TypeError("table: lower-case letters, digits and _");
  const setUp = await pool.connect();
  let isMade = false;
  try {
    // Two that begin at once would both make the table.
    await setUp.query("SELECT pg_advisory_lock(hashtextextended($1, 0))", [table]);
    await setUp.query(schemaOf(table));
    await setUp.query("SELECT pg_advisory_unlock(hashtextextended($1, 0))", [table]);
    isMade = true;
  } finally {
    // A connection that is kept after a failure would keep the lock, and every later set-up would wait for it.
    setUp.release(!isMade);
  }
  const columns = (value) => `key, v, at, state, ends, ${value} AS value`;
  const sql = {
    get: `SELECT ${columns("value::text")} FROM ${table} WHERE org = $1 AND tab = $2 AND key = ANY($3)`,
    page: (value) => `SELECT ${columns(value)} FROM ${table} WHERE org = $1 AND tab = $2 AND (v, key) > ($3, $4) ORDER BY v, key LIMIT $5`,
    count: `SELECT count(*) AS n FROM ${table} WHERE org = $1 AND tab = $2 AND v >= $3 AND state <> 2
      AND ((state = 0 AND (ends IS NULL OR ends > $4)) OR v >= $5)`,
    set: `INSERT INTO ${table} (org, tab, key, v, at, state, ends, value)
      SELECT org, tab, key, v, at, state, ends, value::json
      FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::smallint[], $7::bigint[], $8::text[])
        AS new (org, tab, key, v, at, state, ends, value)
      ON CONFLICT (org, tab, key) DO UPDATE SET v = excluded.v, at = excluded.at, state = excluded.state, ends = excluded.ends, value = excluded.value`,
    remove: `DELETE FROM ${table} USING unnest($1::text[], $2::text[], $3::text[]) AS gone (org, tab, key)
      WHERE ${table}.org = gone.org AND ${table}.tab = gone.tab AND ${table}.key = gone.key`,
    lock: "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))",
    await: "SELECT pg_advisory_xact_lock_shared(hashtextextended($1, 1))",
  };
  const lockOf = (org) => [`${table} ${org}`];
  const rowOf = ({ v, at, state, ends, value }) => ({
    v: Number(v),
    at: Number(at),
    state: STATES[state],
    ...(ends !== null && { ends: Number(ends) }),
    ...(value !== null && { value: valueOfText(value) }),
  });
  const column = (rows, of) => rows.map(of);
  const txOf = (client) => ({
    async get(org, tab, keys) {
      if (keys.length === 0) return [];
      const { rows } = await client.query(sql.get, [org, tab, keys]);
      const found = new Map(rows.map((row) => [row.key, rowOf(row)]));
      return keys.map((key) => found.get(key));
    },
    async page(org, tab, { after, limit, bare = false }) {
      const { rows } = await client.query(sql.page(bare ? "NULL::text" : "value::text"), [org, tab, ...after, limit]);
      return rows.map((row) => [row.key, rowOf(row)]);
    },
    async count(org, tab, { since, gone, now }) {
      const { rows } = await client.query(sql.count, [org, tab, since, now, gone]);
      return Number(rows[0].n);
    },
    async set(changes) {
      const [kept, gone] = [changes.filter(([, , , row]) => row), changes.filter(([, , , row]) => !row)];
      const names = (rows) => [0, 1, 2].map((i) => column(rows, (change) => change[i]));
      if (gone.length) await client.query(sql.remove, names(gone));
      if (kept.length === 0) return;
      const fields = ["v", "at"].map((name) => column(kept, ([, , , row]) => row[name]));
      const states = column(kept, ([, , , row]) => stateOf(row));
      const ends = column(kept, ([, , , row]) => row.ends ?? null);
      const values = column(kept, ([, , , row]) => (row.value === undefined ? null : textOfValue(row.value)));
      await client.query(sql.set, [...names(kept), ...fields, states, ends, values]);
    },
    /** All instances hear of it once the write is committed. */
    async announce(org, defs, time) {
      for (let rest = defs; rest.length > 0; ) {
        let [count, bytes] = [0, 0];
        while (count < rest.length && (count === 0 || bytes + JSON.stringify(rest[count]).length < NOTE_BYTES - org.length)) {
          bytes += JSON.stringify(rest[count]).length + 1;
          count += 1;
        }
        await client.query("SELECT pg_notify($1, $2)", [table, JSON.stringify([org, time, rest.slice(0, count)])]);
        rest = rest.slice(count);
      }
    },
  });
  /** Runs one transaction on a connection of its own. */
  const within = async (begin, act) => {
    const client = await pool.connect();
    let isBroken = false;
    try {
      await begin(client);
      const result = await act(txOf(client));
      await client.query("COMMIT");
      return result;
    } catch (error) {
      await client.query("ROLLBACK").catch(() => (isBroken = true));
      throw CONTENTION.has(error.code) ? Object.assign(error, { isContention: true }) : error;
    } finally {
      client.release(isBroken);
    }
  };
  const listener = new Listener(pool, table);
  return {
    read: (org, run) =>
      within(async (client) => {
        await client.query(BEGIN);
        await client.query(sql.await, lockOf(org));
        await client.query(SNAPSHOT);
      }, run),
    write: (org, run) =>
      within(async (client) => {
        await client.query(BEGIN);
        await client.query(sql.lock, lockOf(org));
      }, run),
    /** Calls `hear` with each write of any instance; without an org after a time in which writes may have been missed. */
    listen: (hear) => listener.listen(hear),
    close: () => listener.close(),
  };
}

/** A connection that hears of the writes of all instances. It is opened again if it ends. */
class Listener {
  #isOver = false;

  constructor(pool, channel) {
    Object.assign(this, { pool, channel });
  }
  listen(hear) {
    this.hear = hear;
    void this.#open();
  }
  async #open() {
    const client = new this.pool.Client(this.pool.options);
    this.client = client;
    const again = () => {
      if (this.client !== client || this.#isOver) return;
      this.client = undefined;
      client.end().catch(() => {});
      this.timer = setTimeout(() => void this.#open(), AGAIN_MS);
    };
    client.on("error", again).on("end", again);
    client.on("notification", ({ payload }) => {
      const [org, time, defs] = JSON.parse(payload);
      this.hear(org, defs, time);
    });
    try {
      await client.connect();
      await client.query(`LISTEN ${this.channel}`);
      this.hear();
    } catch {
      again();
    }
  }
  async close() {
    this.#isOver = true;
    clearTimeout(this.timer);
    await this.client?.end().catch(() => {});
  }
}
