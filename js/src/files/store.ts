/**
 * Sealed records on the device, by their names: the chunks in `c`, the records about files and rules in `d`. A change happens
 * as a whole or not at all, and only if the records are as its author knows them. So any tab may change them.
 */

import type { Bytes } from "../shared.js";
import type { Table } from "./cipher.js";
import { closed, fault } from "./faults.js";

/** A change of records. */
export interface Change {
  /** Whether all other records go. */
  readonly clear?: boolean;
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
  /** Releases the device. Each later call fails. */
  end(): void;
}

/** The bytes that a session in incognito holds in memory. */
const MEMORY_MAX = 256 << 20;

/** Whether two records are the same. */
export const isSame = (a: Uint8Array | undefined, b: Uint8Array | undefined): boolean =>
  a === b || (!!a && !!b && a.length === b.length && a.every((byte, at) => byte === b[at]));

type Tables = Readonly<Record<Table, Map<string, Bytes>>>;

/** Records in memory: nothing stays. */
export class MemoryStore implements Store {
  /** Undefined after the end. */
  #tables: Tables | undefined = { c: new Map(), d: new Map() };
  readonly #max: number;

  constructor(max = MEMORY_MAX) {
    this.#max = max;
  }

  read(table: Table, name: string): Promise<Bytes | undefined> {
    return this.#now((tables) => tables[table].get(name)?.slice());
  }

  names(table: Table): Promise<string[]> {
    return this.#now((tables) => [...tables[table].keys()]);
  }

  write({ clear, put = [], remove = [], was = [], have = [], only }: Change): Promise<boolean> {
    return this.#now(({ c, d }) => {
      const isFine =
        was.every(([name, bytes]) => isSame(d.get(name), bytes)) &&
        have.every((name) => c.has(name)) &&
        (!only || [...d.keys()].every((name) => only.has(name)));
      if (!isFine) return false;
      const next = { c: new Map(clear ? [] : c), d: new Map(clear ? [] : d) };
      for (const [table, name] of remove) next[table].delete(name);
      for (const [table, name, bytes] of put) next[table].set(name, bytes.slice());
      let size = 0;
      for (const { length } of [...next.c.values(), ...next.d.values()]) size += length;
      if (size > this.#max) throw fault("storage_full", "no memory for files");
      this.#tables = next;
      return true;
    });
  }

  end(): void {
    this.#tables = undefined;
  }

  #now<T>(work: (tables: Tables) => T): Promise<T> {
    return new Promise((resolve) => {
      if (!this.#tables) throw closed();
      resolve(work(this.#tables));
    });
  }
}
