// One write. It collects the changes of an operation, which the storage then makes together, or not at all.
//
// Invariant: the storage sees no change before the end of the write, so that a refused operation leaves nothing.
import { Fault } from "./fault.mjs";
import { isPromise } from "./run.mjs";
import { checkData, linksOf, treeOf } from "./schema.mjs";
import { conflictRow, documentOf, GRAVES, keyOfOperation, keyOfValue, NO_TREE, OPERATIONS, TREES, uniqueTable } from "./tables.mjs";
import { isMap, own, same } from "./values.mjs";

const ITEMS_MAX = 100_000;
const PAGE = 1_000;

export class Write {
  /** `tx` is the storage's transaction, `now` the version of the write, and `inTime` throws once the write takes too long. */
  constructor({ tx, org, account, now, inTime }) {
    Object.assign(this, { tx, org, account, now, inTime, given: 0 });
    /** The answers of the storage: a call of an operation that cannot wait is made again, and finds them here. */
    this.answers = new Map();
    this.changes = new Map();
    this.defs = new Map();
    this.taken = new Set();
    this.kept = new Map();
  }
  /** A row, as this write leaves it. */
  *get(table, key, org = this.org) {
    const name = `${org}\n${table}\n${key}`;
    if (this.changes.has(name)) return this.changes.get(name)[3];
    return (yield* this.ask(name, () => this.tx.get(org, table, [key])))[0];
  }
  /** Rows of a table, as they were before this write. */
  *page(table, after) {
    const [v, key] = after;
    return yield* this.ask(`${this.org}\n${table}\n${v}\n${key}`, () => this.tx.page(this.org, table, { after, limit: PAGE, bare: true }));
  }
  /** The storage's answer to a question, which it gives once. Each question of a write goes through here. */
  *ask(name, question) {
    if (!this.answers.has(name)) {
      const keep = (answer) => void this.answers.set(name, answer);
      const found = question();
      yield isPromise(found) ? found.then(keep) : keep(found);
    }
    return this.answers.get(name);
  }
  set(table, key, row, org = this.org) {
    this.changes.set(`${org}\n${table}\n${key}`, [org, table, key, row]);
  }
  /** The state to which {@link backTo} takes the write. */
  mark() {
    const { changes, defs, taken, kept, given } = this;
    return { changes: new Map(changes), defs: new Map(defs), taken: new Set(taken), kept: new Map(kept), given };
  }
  backTo(mark) {
    Object.assign(this, mark);
  }
  /** A document or tombstone. */
  *document(cls, pk, org = this.org) {
    const row = yield* this.get(cls.name, pk, org);
    if (!row) return undefined;
    const { floor } = cls.parent ? yield* this.tree(treeOf(cls, pk, row.value.links), org) : NO_TREE;
    return documentOf(row, floor);
  }
  *living(cls, pk) {
    const old = yield* this.document(cls, pk);
    if (!old || old.deleted) throw new Fault("not_found", "N", "no such document", { phase: 1 });
    return old;
  }
  *tree(name, org = this.org) {
    return (yield* this.get(TREES, name, org))?.value ?? NO_TREE;
  }
  *setTree(name, change) {
    const row = yield* this.get(TREES, name);
    const value = { ...NO_TREE, ...row?.value, ...change };
    this.set(TREES, name, { v: "floor" in change ? this.now : (row?.v ?? 0), at: this.now, state: "alive", value });
  }
  /** The version of all that this write writes in a tree. With the clock `sequence`, it takes the tree's next number once. */
  *versionIn(cls, tree) {
    if (!cls.isNumbered) return this.now;
    const { n } = yield* this.tree(tree);
    if (this.taken.has(tree)) return n;
    this.taken.add(tree);
    yield* this.setTree(tree, { n: n + 1 });
    return n + 1;
  }
  /** A document stays as it is, and its version counts. */
  *keep(cls, tree, v) {
    if (cls.isNumbered) this.kept.set(tree, Math.max(v, this.kept.get(tree) ?? 0));
    else this.given = Math.max(this.given, v);
  }
  /** The numbers of the trees that it wrote in, or was asked to. */
  *trees() {
    const all = [];
    for (const tree of [...new Set([...this.taken, ...this.kept.keys()])].sort()) {
      all.push([...tree.split(" "), this.taken.has(tree) ? (yield* this.tree(tree)).n : this.kept.get(tree)]);
    }
    return all;
  }
  /** Stores a document or tombstone; nothing is left of it without a state. Rows have the time `at`, by which they are purged. */
  store(cls, pk, v, state, value) {
    const ends = state === "alive" && typeof value.data.maxLife === "number" ? value.data.maxLife * 60_000 : undefined;
    this.set(cls.name, pk, state && { v, at: this.now, state, ends, value });
    if (state === "deleted" || ends !== undefined) this.bury(cls.name, pk, Math.max(this.now, ends ?? 0));
    this.changed([cls.name, `${cls.name}@${pk}`], v);
  }
  /** The same for its part in a collection. */
  storeLink(cls, pk, link, v, state, ends) {
    const def = `${cls.name}/${link}`;
    this.set(def, pk, state && { v, at: this.now, state, ends });
    if (state === "left") this.bury(def, pk, this.now);
    this.changed([def], v);
  }
  bury(table, key, v) {
    this.set(GRAVES, `${table}\n${key}`, { v, at: this.now, state: "alive" });
  }
  changed(defs, v) {
    for (const def of defs) this.defs.set(def, v);
    this.given = this.now;
  }
  *put(cls, pk, given) {
    const data = { ...given, release: own(given, "release") ?? cls.release };
    const old = yield* this.document(cls, pk);
    checkData(cls, data);
    const links = linksOf(cls, data);
    const tree = treeOf(cls, pk, links);
    if (cls.parent) yield* this.living(cls.parent, links[0].split("@")[1]);
    if (old && !old.deleted) {
      if (same(old.data, data)) return yield* this.keep(cls, tree, old.v);
      const fixed = (all) => all.filter((link) => !cls.collections[link.split("@")[0]]?.mutable).sort().join();
      if (fixed(links) !== fixed(old.links)) throw new Fault("immutable_key", "A", "a collection is not mutable", { phase: 1 });
    }
    yield* this.hold(cls, pk, data);
    const v = yield* this.versionIn(cls, tree);
    if (!old || old.deleted) yield* this.created(cls, tree, v);
    for (const link of old?.links ?? []) if (!links.includes(link)) this.storeLink(cls, pk, link, v, "left");
    const ends = typeof data.maxLife === "number" ? data.maxLife * 60_000 : undefined;
    for (const link of links) this.storeLink(cls, pk, link, v, "alive", ends);
    this.store(cls, pk, v, "alive", { links, data });
  }
  /** A parent begins a tree; an item is one more in it. */
  *created(cls, tree, v) {
    const { items } = yield* this.tree(tree);
    if (cls.items.length) yield* this.setTree(tree, { floor: v, items: 0 });
    if (cls.parent && items >= ITEMS_MAX) throw new Fault("too_large", "A", "the parent has too many items", { phase: 1 });
    if (cls.parent) yield* this.setTree(tree, { items: items + 1 });
  }
  /** Takes the values of unique indexes. A row of a value that its document has lost since counts for nothing. */
  *hold(cls, pk, data) {
    for (const { property, unique, global } of cls.indexes) {
      const value = own(data, property) ?? undefined;
      if (!unique || value === undefined || Array.isArray(value)) continue;
      const [table, org] = [uniqueTable(cls, property), global ? "" : this.org];
      const holder = (yield* this.get(table, keyOfValue(value), org))?.value;
      const isOther = holder && (holder.pk !== pk || holder.org !== this.org);
      const other = isOther ? yield* this.document(cls, holder.pk, holder.org) : undefined;
      const holds = other && !other.deleted && own(other.data, property) === value;
      if (holds) throw new Fault("not_unique", "A", `the index ${property} is unique`, { phase: 1 });
      if (!holder || isOther) this.set(table, keyOfValue(value), { v: this.now, at: this.now, state: "alive", value: { org: this.org, pk } }, org);
    }
  }
  *delete(cls, pk) {
    const { links, data } = yield* this.document(cls, pk);
    const tree = treeOf(cls, pk, links);
    const v = yield* this.versionIn(cls, tree);
    const state = cls.sync ? "deleted" : undefined;
    for (const link of links) this.storeLink(cls, pk, link, v, state);
    this.store(cls, pk, v, state, { links, data: Object.fromEntries(cls.key.map((property) => [property, data[property]])) });
    if (cls.parent) yield* this.setTree(tree, { items: (yield* this.tree(tree)).items - 1 });
    if (cls.items.length) yield* this.endItems(cls, pk, tree, v);
  }
  /**
   * All items end with their parent. Nothing is written of them, except of those that this write itself has put. Sockets
   * hear of each.
   */
  *endItems(cls, pk, tree, v) {
    for (const items of cls.items) {
      const def = `${items.name}/in@${pk}`;
      this.defs.set(def, v);
      for (let after = [0, ""]; !items.isNumbered && after; ) {
        const page = yield* this.page(def, after);
        for (const [key] of page) this.defs.set(`${items.name}@${key}`, v);
        after = page.length < PAGE ? undefined : [page.at(-1)[1].v, page.at(-1)[0]];
      }
      for (const [org, table, key, row] of [...this.changes.values()]) {
        const isOwn = org === this.org && table === items.name && row?.value.links[0] === `in@${pk}`;
        if (isOwn && row.state === "alive") yield* this.delete(items, key);
      }
    }
    yield* this.setTree(tree, { floor: v, items: 0 });
  }
  /** Whether the document has the version that a write expects. */
  *expect(cls, pk, ifVersion) {
    if (ifVersion === undefined || ifVersion === null) return;
    const old = yield* this.document(cls, pk);
    const isGone = !old || old.deleted;
    let holds = ifVersion === 0 ? isGone : old?.v === ifVersion;
    if (isMap(ifVersion)) {
      const earlier = (yield* this.get(OPERATIONS, keyOfOperation(this.account, ifVersion.op)))?.value;
      if (!earlier || earlier.refused) throw new Fault("order_held", "C", "the earlier operation was refused, or is not known");
      if (cls.isNumbered && !earlier.result) throw new Fault("order_held", "C", "its numbers are too old");
      const isTheTree = ([name, parent]) => old && treeOf(cls, pk, old.links) === `${name} ${parent}`;
      const v = cls.isNumbered ? earlier.result.ok.trees?.find(isTheTree)?.[2] : earlier.v;
      holds = (old && old.v <= v) || (v === 0 && isGone);
    }
    if (!holds) throw new Fault("version_conflict", "A", "the document has another version", { phase: 1, doc: conflictRow(pk, old), met: [cls.name, pk] });
  }
}

