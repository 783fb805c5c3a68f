// The contents of an org, and one write to it.
import { randomBytes } from "node:crypto";

import { Fault, MIB, isMap, own } from "./common.mjs";
import { Data, same, weightOf } from "./forms.mjs";
import { checkData, linksOf } from "./schema.mjs";

export class Database {
  constructor(clock) {
    this.epoch = [clock(), randomBytes(8).toString("hex")];
    Object.assign(this, { highest: 0, told: 0, horizon: 0, cursorKey: randomBytes(32) });
    for (const table of ["documents", "memberships", "sessions", "operations"]) this[table] = new Map();
  }
  copy() {
    return Object.assign(Object.create(Database.prototype), structuredClone({ ...this }));
  }
}

/** The rows of a table under a name: a map that is made at the first access. */
export const under = (table, name) => table.get(name) ?? table.set(name, new Map()).get(name);

/** One write: it records how to undo itself, and which documents it changed. */
export class Write {
  constructor(engine, org) {
    Object.assign(this, { engine, org, db: engine.db, given: 0, undo: [], changed: new Set(), depth: 0 });
    this.now = Math.max(engine.clock(), this.db.told, this.db.highest + 1);
  }
  set(rows, key, value) {
    const before = rows.get(key);
    this.undo.push(() => (before === undefined ? rows.delete(key) : rows.set(key, before)));
    if (value === undefined) rows.delete(key);
    else rows.set(key, value);
  }
  rollBack() {
    while (this.undo.length) this.undo.pop()();
  }
  documents(cls) {
    return under(this.db.documents, `${this.org} ${cls.name}`);
  }
  member(cls, link, pk, state) {
    const rows = under(this.db.memberships, `${this.org} ${cls.name}/${link}`);
    this.set(rows, pk, state && { v: this.now, state });
    this.changed.add(`${cls.name}/${link}`);
  }
  wrote(cls, pk, document) {
    this.set(this.documents(cls), pk, document);
    this.given = this.now;
    this.changed.add(cls.name).add(`${cls.name}@${pk}`);
  }
  put(cls, pk, given) {
    const data = { release: cls.release, ...given };
    const old = this.documents(cls).get(pk);
    if (weightOf(data) > MIB) throw new Fault("too_large", "A", "the document has more than 1 MiB", { phase: 1 });
    checkData(cls, data);
    const links = linksOf(cls, data);
    if (old && !old.deleted) {
      if (same(old.data, data)) return void (this.given = Math.max(this.given, old.v));
      const fixed = (all) => all.filter((link) => !cls.collections.get(link.split("@")[0])?.mutable).sort().join();
      if (fixed(links) !== fixed(old.links)) throw new Fault("immutable_key", "A", "a collection is not mutable", { phase: 1 });
    }
    this.checkUnique(cls, pk, data);
    for (const link of old?.links ?? []) if (!links.includes(link)) this.member(cls, link, pk, "left");
    for (const link of links) this.member(cls, link, pk, "alive");
    this.wrote(cls, pk, { v: this.now, deleted: false, maxLife: data.maxLife ?? undefined, links, data });
  }
  checkUnique(cls, pk, data) {
    for (const { property, unique, global } of cls.indexes) {
      const value = own(data, property) ?? undefined;
      if (!unique || value === undefined) continue;
      for (const [name, rows] of this.db.documents) {
        const [org, className] = name.split(" ");
        if (className !== cls.name || (org !== this.org && !global)) continue;
        for (const [other, document] of rows) {
          if ((other === pk && org === this.org) || document.deleted) continue;
          if (own(document.data, property) === value) throw new Fault("not_unique", "A", `the index on ${property} is unique`, { phase: 1 });
        }
      }
    }
  }
  delete(cls, pk) {
    const old = this.documents(cls).get(pk);
    for (const link of old.links) this.member(cls, link, pk, cls.sync ? "deleted" : undefined);
    const data = Object.fromEntries(cls.key.map((property) => [property, old.data[property]]));
    this.wrote(cls, pk, cls.sync ? { v: this.now, deleted: true, links: old.links, data } : undefined);
  }
  expect(cls, pk, ifVersion) {
    if (ifVersion === undefined || ifVersion === null) return;
    const old = this.documents(cls).get(pk);
    const isGone = !old || old.deleted;
    let holds = old ? old.v === ifVersion : false;
    if (isMap(ifVersion)) {
      const earlier = under(this.db.operations, this.org).get(ifVersion.op);
      if (!earlier || earlier.refused) throw new Fault("order_held", "C", "the earlier operation was refused, or is not known");
      holds = (old && old.v <= earlier.v) || (earlier.v === 0 && isGone);
    } else if (ifVersion === 0) holds = isGone;
    const doc = old ? rowOf(pk, old) : { pk, v: 0, deleted: true };
    if (!holds) throw new Fault("version_conflict", "A", "the document has another version", { phase: 1, doc });
  }
}

export const rowOf = (pk, { v, deleted, maxLife, data }) =>
  deleted ? { pk, v, deleted } : { pk, v, ...(maxLife !== undefined && { maxLife }), data };
export const toWire = (row) => (row.data ? { ...row, data: new Data(row.data) } : row);
export const toWireResult = (result) =>
  result.fault?.doc ? { ...result, fault: { ...result.fault, doc: toWire(result.fault.doc) } } : result;
