// The purge of an org: tombstones, departures and documents past their lives from before the horizon, items below a floor,
// and old results (docs/protocol.md, "The horizon"). Ids and numbers are kept for ever.
import { treeOf } from "./schema.mjs";
import { documentOf, GRAVES, HEAD, NEVER, OPERATIONS, TREES } from "./tables.mjs";

/** Rows that one transaction looks at: others may write in between. */
const STEP = 500;

/** One step of the purge of an org. Whether there may be more. `head` is the org's, or nothing if it has none. */
export function* purgeSome({ tx, org, classes, now, head, retentionMs, resultsMs }) {
  if (!head) return false;
  const horizon = Math.max(head.horizon, now - retentionMs);
  const purge = new Purge({ tx, org, classes, horizon });
  let more = false;
  for (const [key, row] of yield tx.page(org, OPERATIONS, { after: [0, ""], limit: STEP })) {
    if (row.v + resultsMs > now) continue;
    const { v, refused } = row.value;
    purge.set(OPERATIONS, key, { ...row, v: NEVER, value: { v, refused } });
    more = true;
  }
  const trees = yield tx.page(org, TREES, { after: [0, "\uffff"], limit: STEP });
  for (const [name, row] of trees) if (row.v < horizon && (yield* purge.tree(name, row))) more = true;
  // A parent's grave comes after all of its items.
  const graves = more ? [] : yield tx.page(org, GRAVES, { after: [0, ""], limit: STEP });
  for (const [key, { v }] of graves) if (v < horizon) {
    yield* purge.grave(key);
    more = true;
  }
  if (purge.hasRemoved) purge.set(HEAD, "", { v: 0, at: now, state: "alive", value: { ...head, horizon } });
  yield tx.set([...purge.changes.values()]);
  return more;
}

class Purge {
  constructor({ tx, org, classes, horizon }) {
    Object.assign(this, { tx, org, classes, horizon, changes: new Map(), hasRemoved: false });
  }
  set(table, key, row) {
    this.changes.set(`${table}\n${key}`, [this.org, table, key, row]);
  }
  *get(table, key) {
    const name = `${table}\n${key}`;
    if (this.changes.has(name)) return this.changes.get(name)[3];
    return (yield this.tx.get(this.org, table, [key]))[0];
  }
  /** Removes items below the floor of a tree. Whether any was there. */
  *tree(name, row) {
    const [className, pk] = name.split(" ");
    const { floor } = row.value;
    for (const items of this.classes.get(className)?.items ?? []) {
      const def = `${items.name}/in@${pk}`;
      const below = (yield this.tx.page(this.org, def, { after: [0, ""], limit: STEP, bare: true })).filter(([, { v }]) => v < floor);
      for (const [key] of below) {
        this.set(def, key, undefined);
        this.set(items.name, key, undefined);
        this.set(GRAVES, `${items.name}\n${key}`, undefined);
      }
      if (below.length) return (this.hasRemoved = true);
    }
    this.set(TREES, name, { ...row, v: 0 });
    return true;
  }
  /** Removes the row of a grave, unless it lives again or is younger. */
  *grave(key) {
    this.set(GRAVES, key, undefined);
    const [table, pk] = key.split("\n");
    const row = yield* this.get(table, pk);
    if (!row || row.at >= this.horizon) return;
    if (table.includes("/")) {
      if (row.state === "alive") return;
      this.set(table, pk, undefined);
      this.hasRemoved = true;
      return;
    }
    if (row.state === "alive" && !(row.ends < this.horizon)) return;
    this.hasRemoved = true;
    this.set(table, pk, undefined);
    for (const link of row.value.links) this.set(`${table}/${link}`, pk, undefined);
    const cls = this.classes.get(table);
    if (cls) yield* this.leaveTree(cls, pk, row);
  }
  /** Notes in its tree that a document is gone. Numbers are no times, so their trees have horizons of their own. */
  *leaveTree(cls, pk, row) {
    if (!cls.parent && !cls.isNumbered && !cls.items.length) return;
    const name = treeOf(cls, pk, row.value.links);
    const stored = yield* this.get(TREES, name);
    if (!stored) return;
    const tree = stored.value;
    if (!cls.parent && !cls.isNumbered) this.set(TREES, name, undefined);
    const { v, deleted } = documentOf(row, cls.parent ? tree.floor : 0);
    if ((!cls.parent && !cls.isNumbered) || v !== row.v) return;
    const items = tree.items - (cls.parent && !deleted ? 1 : 0);
    const horizon = cls.isNumbered ? Math.max(tree.horizon, v + 1) : tree.horizon;
    this.set(TREES, name, { ...stored, value: { ...tree, items, horizon } });
  }
}
