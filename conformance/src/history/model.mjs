// A model of an org, and a copy of a def that is pulled step by step.
//
// The model replays the accepted operations in the order of their versions: by R4 no two changes have one version. Each
// tree of numbers has an order of its own. An operation that changed nothing has the version of the change that it found,
// so it comes after that one, whichever answer arrived first.
import { same } from "../forms/values.mjs";
import { SCHEMA, defsOf, isNumbered, keyOf, pkOf } from "../names.mjs";

/** The name of an item's parent; nothing for other documents. */
function parentOf(className, key) {
  const { in: parent } = SCHEMA[className];
  return parent && `${parent}@${pkOf(parent, key.slice(0, SCHEMA[parent].key.length))}`;
}

export class Model {
  constructor() {
    this.accepted = [];
  }
  /** Takes the writes of an operation, with its result. */
  accept(writes, { v, trees = [] }) {
    const numbers = new Map(trees.map(([className, pk, n]) => [`${className}@${pk}`, n]));
    const orders = new Map();
    for (const write of writes) {
      const { className, key } = write;
      const tree = isNumbered(className) ? (parentOf(className, key) ?? `${className}@${pkOf(className, key)}`) : "";
      if (!orders.has(tree)) this.accepted.push(orders.set(tree, { tree, writes: [], v: tree ? numbers.get(tree) : v }).get(tree));
      orders.get(tree).writes.push(write);
    }
  }
  /** The living documents after all accepted operations, and the mistakes of a server that show on the way. */
  replay() {
    const documents = new Map();
    const mistakes = this.accepted.filter(({ v }) => v === undefined).map(({ tree }) => `an operation wrote in ${tree}, and its trees do not name it`);
    for (const group of inOrder(this.accepted)) {
      const first = group.find((one) => this.isAlone(documents, one, group)) ?? group[0];
      mistakes.push(...this.apply(documents, first));
      for (const one of group) if (one !== first) mistakes.push(...this.apply(documents, one));
    }
    return { documents, mistakes };
  }
  /** Whether the others of one version change nothing after this one. So it is the one that the version belongs to. */
  isAlone(documents, one, group) {
    if (group.length === 1) return true;
    const copy = new Map(documents);
    if (this.apply(copy, one).length) return false;
    const after = [...copy];
    return group.every((other) => other === one || (!this.apply(copy, other).length && isSame(copy, after)));
  }
  /** Applies the writes of one operation; returns the mistakes of a server that show. */
  apply(documents, { writes, v }) {
    const mistakes = [];
    for (const { kind, className, data, key } of writes) {
      const pk = pkOf(className, key);
      const name = `${className}@${pk}`;
      const old = documents.get(name);
      const parent = parentOf(className, key);
      if (parent && !documents.has(parent)) mistakes.push(`a ${kind} of ${name} was accepted at ${v}, and its parent is not there`);
      if (kind === "put") this.set(documents, name, { className, pk, data: { release: SCHEMA[className].release ?? 1, ...data } }, v, old);
      else if (!old) mistakes.push(`a ${kind} of ${name} was accepted at ${v}, and there is no such document`);
      else if (kind === "delete") this.end(documents, name);
      else this.set(documents, name, { ...old, data: { ...old.data, ...data } }, v, old);
    }
    return mistakes;
  }
  /** Removes a document, and its items with it. */
  end(documents, name) {
    documents.delete(name);
    for (const [other, { className, data }] of documents) if (parentOf(className, keyOf(className, data)) === name) documents.delete(other);
  }
  set(documents, name, next, v, old) {
    const isUnchanged = old && same(old.data, next.data);
    if (!isUnchanged) documents.set(name, { ...next, v });
  }
}

/** The operations of each tree by their versions: those of one version together. */
function inOrder(accepted) {
  const groups = new Map();
  for (const one of [...accepted].sort((a, b) => a.v - b.v)) {
    const name = `${one.tree} ${one.v}`;
    groups.set(name, [...(groups.get(name) ?? []), one]);
  }
  return groups.values();
}

/** Whether these documents are still those, unchanged. */
const isSame = (documents, those) => documents.size === those.length && those.every(([name, document]) => documents.get(name) === document);

/** The documents of a def, as the model has them. */
export function membersOf(documents, def) {
  return new Map([...documents.values()]
    .filter(({ className, pk, data }) => defsOf(className, pk, data).includes(def))
    .map(({ pk, v, data }) => [pk, { v, data }]));
}

/** A session's copy of one def: it asks from where it stands, and takes rows, departures and `present`. */
export class Copy {
  constructor(def) {
    Object.assign(this, { def, v: 0, members: new Map() });
  }
  take({ rows, left, present, v, pages }) {
    for (const { floor = 0 } of pages) for (const [pk, one] of this.members) if (one.v < floor) this.members.delete(pk);
    const changes = [...rows.map((row) => [row.v, row.pk, row]), ...left.map(([pk, at]) => [at, pk, undefined])];
    changes.sort(([v1, pk1], [v2, pk2]) => v1 - v2 || (pk1 < pk2 ? -1 : 1));
    for (const [at, pk, row] of changes) {
      const held = this.members.get(pk);
      if (held && held.v > at) continue;
      if (row && !row.deleted) this.members.set(pk, { v: at, data: row.data });
      else this.members.delete(pk);
    }
    const { n, reply: { now, delta } } = pages.at(-1);
    if (present) {
      const all = new Set(present);
      const isSpared = (at) => (n === undefined ? at >= now - delta : at > n);
      for (const [pk, one] of this.members) if (!all.has(pk) && !isSpared(one.v)) this.members.delete(pk);
    }
    this.v = v;
  }
}

/** The first difference between two sets of members, or nothing. */
export function differenceOf(found, wanted) {
  for (const [pk, { v, data }] of wanted) {
    const one = found.get(pk);
    if (!one) return `it lacks ${pk}, at ${v}`;
    if (one.v !== v) return `it has ${pk} at ${one.v}, not at ${v}`;
    if (!same(one.data, data)) return `it has other data of ${pk} at ${v}`;
  }
  for (const pk of found.keys()) if (!wanted.has(pk)) return `it has ${pk}, which is no member`;
  return undefined;
}

