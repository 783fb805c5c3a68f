/**
 * Sealed records on the device, by their names: the chunks in `c`, the records about files and rules in `d`. A change happens
 * as a whole or not at all, and only if the records are as its author knows them. So any tab may change them.
 */

import type { Bytes } from "../base/binary.js";
import type { Table } from "./cipher.js";
import { closed, fault } from "./faults.js";

/** A change of records. */
export interface Change {
  readonly put?: readonly (readonly [table: Table, name: string, bytes: Bytes])[];
  readonly remove?: readonly (readonly [table: Table, name: string])[];
  /** Records of `d` as they were read. Undefined if there was none. */
  readonly was?: readonly (readonly [name: string, bytes: Bytes | undefined])[];
  /** Chunks that must be there. */
  readonly have?: readonly string[];
  /** `d` has no other records than these. */
  readonly only?: ReadonlySet<string>;
  /** Whether it must survive a power failure. */
  readonly isDurable?: boolean;
}

/** A place for records. Errors: `storage_full`, `storage_failed`, `closed`. */
export interface Store {
  /** A record. Undefined if there is none, or if the device cannot read it any more. */
  read(table: Table, name: string): Promise<Bytes | undefined>;
  /** The names of all records. */
  names(table: Table): Promise<string[]>;
  /** Makes the change. False if a condition does not hold: nothing was written then. */
  write(change: Change): Promise<boolean>;
  /** Removes all records. */
  clear(): Promise<void>;
  /** Releases the device. Each later call fails. */
  end(): void;
}

/** The bytes that a session in incognito holds in memory. */
const MEMORY_MAX = 256 << 20;

/** Whether two records are the same. */
export const isSame = (a: Uint8Array | undefined, b: Uint8Array | undefined): boolean =>
  a === b || (!!a && !!b && a.length === b.length && a.every((byte, at) => byte === b[at]));

/** Records in memory: nothing stays. */
export class MemoryStore implements Store {
  readonly #tables = { c: new Map<string, Bytes>(), d: new Map<string, Bytes>() };
  readonly #max: number;
  #size = 0;
  #isEnded = false;

  constructor(max = MEMORY_MAX) {
    this.#max = max;
  }

  read(table: Table, name: string): Promise<Bytes | undefined> {
    return this.#now(() => this.#tables[table].get(name)?.slice());
  }

  names(table: Table): Promise<string[]> {
    return this.#now(() => [...this.#tables[table].keys()]);
  }

  write(change: Change): Promise<boolean> {
    return this.#now(() => this.#write(change));
  }

  clear(): Promise<void> {
    return this.#now(() => this.#empty());
  }

  end(): void {
    this.#isEnded = true;
    this.#empty();
  }

  #write({ put = [], remove = [], was = [], have = [], only }: Change): boolean {
    const { c, d } = this.#tables;
    const isFine =
      was.every(([name, bytes]) => isSame(d.get(name), bytes)) &&
      have.every((name) => c.has(name)) &&
      (!only || [...d.keys()].every((name) => only.has(name)));
    if (!isFine) return false;
    const length = (table: Table, name: string): number => this.#tables[table].get(name)?.length ?? 0;
    const added = put.reduce((sum, [table, name, bytes]) => sum + bytes.length - length(table, name), 0);
    const removed = remove.reduce((sum, [table, name]) => sum + length(table, name), 0);
    if (added > 0 && this.#size + added - removed > this.#max) throw fault("storage_full", "no memory for files");
    this.#size += added - removed;
    for (const [table, name] of remove) this.#tables[table].delete(name);
    for (const [table, name, bytes] of put) this.#tables[table].set(name, bytes.slice());
    return true;
  }

  #empty(): void {
    this.#tables.c.clear();
    this.#tables.d.clear();
    this.#size = 0;
  }

  #now<T>(work: () => T): Promise<T> {
    return new Promise((resolve) => {
      if (this.#isEnded) throw closed();
      resolve(work());
    });
  }
}
