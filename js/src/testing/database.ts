/** The contents of the server in memory, for one org, and one write to it. */

import type { Raw } from "../schema/values.js";
import { Fault, same } from "./fault.js";
import { checkData, indexesOf, linksOf, numberedTreeOf, valueOf, type Class } from "./links.js";

/** A stored document. A deleted one keeps its key properties. */
export interface Stored {
  readonly v: number;
  readonly deleted: boolean;
  readonly links: readonly string[];
  readonly data: Raw;
}

/** A document's part in a collection. */
export interface Member {
  readonly v: number;
  readonly state: "alive" | "deleted" | "left";
}

/** An operation that was executed, with its result. */
export interface Known {
  readonly name: string;
  readonly v: number;
  /** By tree: the number that it took there. */
  readonly numbers: ReadonlyMap<string, number>;
  readonly result: { readonly id: string; readonly ok?: object; readonly fault?: Fault };
}

/** Everything that the server holds. */
export class Database {
  /** By class, then by pk. */
  readonly documents = new Map<string, Map<string, Stored>>();
  /** By `Class/collection@hash`, then by pk. */
  readonly members = new Map<string, Map<string, Member>>();
  readonly operations = new Map<string, Known>();
  /** The number of the last executed operation, by session. */
  readonly sessions = new Map<string, number>();
  /** The version of the last change, by def. */
  readonly changes = new Map<string, number>();
  /** The last number of each tree on the clock `sequence`. */
  readonly numbers = new Map<string, number>();
  highest = 0;
  told = 0;
}

/** The rows of a table under a name. */
export function under<T>(table: Map<string, Map<string, T>>, name: string): Map<string, T> {
  const rows = table.get(name) ?? new Map<string, T>();
  table.set(name, rows);
  return rows;
}

/** One write: it records how to undo itself, and the defs that it changed. */
export class Write {
  readonly now: number;
  readonly db: Database;
  /** The version that the operation gives. */
  given = 0;
  /** By tree: the number that it took there, or the highest version of the documents that were put unchanged. */
  readonly numbers = new Map<string, number>();
  readonly #taken = new Set<string>();
  readonly changed = new Set<string>();
  readonly #undo: (() => void)[] = [];

  constructor(db: Database, clock: number) {
    this.db = db;
    this.now = Math.max(clock, db.told, db.highest + 1);
  }

  /** Takes back everything that was written. */
  rollBack(): void {
    while (this.#undo.length > 0) this.#undo.pop()?.();
    this.changed.clear();
  }

  /** The version of everything that it writes in that tree, or outside of such trees. */
  #version(tree: string | undefined): number {
    if (tree === undefined) return (this.given = this.now);
    const n = this.db.numbers.get(tree) ?? 0;
    if (this.#taken.has(tree)) return n;
    this.#taken.add(tree);
    this.#set(this.db.numbers, tree, n + 1);
    this.numbers.set(tree, n + 1);
    return n + 1;
  }

  document(declared: Class, pk: string): Stored | undefined {
    return this.db.documents.get(declared.name)?.get(pk);
  }

  put(declared: Class, pk: string, given: Raw): void {
    const data: Raw = { release: declared.release ?? 1, ...given };
    const old = this.document(declared, pk);
    checkData(declared, data);
    const links = linksOf(declared, data);
    const tree = numberedTreeOf(declared, pk, data);
    if (old && !old.deleted) {
      if (same(old.data, data)) {
        if (tree === undefined) this.given = Math.max(this.given, old.v);
        else this.numbers.set(tree, Math.max(this.numbers.get(tree) ?? 0, old.v));
        return;
      }
      const fixed = (all: readonly string[]): string =>
        all.filter((link) => !declared.collections?.[link.split("@")[0] ?? ""]?.mutable).sort().join();
      if (fixed(links) !== fixed(old.links)) throw new Fault("immutable_key", "A", "a collection is not mutable");
    }
    this.#checkUnique(declared, pk, data);
    const v = this.#version(tree);
    for (const link of old?.links ?? []) if (!links.includes(link)) this.#member(declared, link, pk, { v, state: "left" });
    for (const link of links) this.#member(declared, link, pk, { v, state: "alive" });
    this.#wrote(declared, pk, { v, deleted: false, links, data });
  }

  delete(declared: Class, pk: string, old: Stored): void {
    const isSynced = declared.sync ?? true;
    const v = this.#version(numberedTreeOf(declared, pk, old.data));
    for (const link of old.links) this.#member(declared, link, pk, isSynced ? { v, state: "deleted" } : undefined);
    const data = Object.fromEntries(declared.key.map((property) => [property, old.data[property]]));
    this.#wrote(declared, pk, isSynced ? { v, deleted: true, links: old.links, data } : undefined);
  }

  #checkUnique(declared: Class, pk: string, data: Raw): void {
    for (const { property, unique } of indexesOf(declared)) {
      const value = valueOf(data, property);
      if (!unique || value === undefined) continue;
      for (const [other, { deleted, data: held }] of under(this.db.documents, declared.name)) {
        if (other !== pk && !deleted && valueOf(held, property) === value) {
          throw new Fault("not_unique", "A", `the index on ${property} is unique`);
        }
      }
    }
  }

  #member(declared: Class, link: string, pk: string, member: Member | undefined): void {
    const def = `${declared.name}/${link}`;
    this.#set(under(this.db.members, def), pk, member);
    this.changed.add(def);
  }

  #wrote(declared: Class, pk: string, stored: Stored | undefined): void {
    this.#set(under(this.db.documents, declared.name), pk, stored);
    this.changed.add(declared.name).add(`${declared.name}@${pk}`);
  }

  #set<T>(rows: Map<string, T>, key: string, value: T | undefined): void {
    const before = rows.get(key);
    this.#undo.push(() => void (before === undefined ? rows.delete(key) : rows.set(key, before)));
    if (value === undefined) rows.delete(key);
    else rows.set(key, value);
  }
}

/** A document as a row of the wire. */
export function rowOf(pk: string, { v, deleted, data }: Stored): { pk: string; v: number } {
  if (deleted) return { pk, v, deleted } as { pk: string; v: number };
  const end = valueOf(data, "maxLife");
  return { pk, v, ...(end !== undefined && { maxLife: end }), data } as { pk: string; v: number };
}
