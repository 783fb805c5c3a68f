// A storage in memory. It answers at once, so a call of the engine returns its result, and no promise of it.
import { inTurns } from "./turns.mjs";

const EMPTY = [];
const ascending = ([a, { v }], [b, { v: w }]) => v - w || (a < b ? -1 : a > b ? 1 : 0);

class Table {
  rows = new Map();
  /** The rows in their order, until one changes. */
  sorted;

  set(key, row) {
    this.sorted = undefined;
    // The newest row comes last: a sort then finds most rows in their places.
    this.rows.delete(key);
    if (row !== undefined) this.rows.set(key, row);
  }
  get ordered() {
    return (this.sorted ??= [...this.rows].sort(ascending));
  }
}

/** Where the rows behind a place begin. */
function placeBehind(rows, [v, key]) {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const [found, { v: of }] = rows[middle];
    if (of < v || (of === v && found <= key)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Makes a storage in memory: for tests, and for data that may be lost. */
export function memory() {
  let tables = new Map();
  const find = (org, table) => tables.get(`${org}\n${table}`);
  const tx = {
    get: (org, table, keys) => keys.map((key) => find(org, table)?.rows.get(key)),
    page(org, table, { after, limit }) {
      const rows = find(org, table)?.ordered ?? EMPTY;
      const from = placeBehind(rows, after);
      return rows.slice(from, from + limit);
    },
    count(org, table, { since, gone, now }) {
      const rows = find(org, table)?.ordered ?? EMPTY;
      let count = 0;
      for (let i = placeBehind(rows, [since, ""]); i < rows.length; i++) {
        const { v, state, ends } = rows[i][1];
        const isOver = state === "deleted" || (ends !== undefined && ends <= now);
        if (state !== "left" && (!isOver || v >= gone)) count += 1;
      }
      return count;
    },
    set(rows) {
      for (const [org, name, key, row] of rows) {
        const table = find(org, name) ?? new Table();
        tables.set(`${org}\n${name}`, table);
        table.set(key, row);
      }
    },
  };
  const turn = inTurns();
  return {
    read: (_lock, run) => turn(() => run(tx)),
    write: (_lock, run) => turn(() => run(tx)),
    close() {},
    /** A copy of everything, which {@link restore} puts back: a backup. */
    copy: () => new Map([...tables].map(([name, table]) => [name, new Map(table.rows)])),
    restore(copy) {
      tables = new Map();
      for (const [name, rows] of copy) {
        const table = new Table();
        table.rows = new Map(rows);
        tables.set(name, table);
      }
    },
  };
}
