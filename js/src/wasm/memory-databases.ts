/**
 * Databases in the page's memory, for a rehearsal and for `escale/testing`. They imitate the part of IndexedDB that the core
 * uses.
 */

/** The version of every database: the stores and their backup databases. */
const VERSION = 1;

type Key = number | Uint8Array;
interface Entry {
  readonly key: number | ArrayBuffer;
  readonly value: Uint8Array;
}

/**
 * Runs `work` in a task of its own, after the page's current work. A message does that without the delay of a timer.
 */
export function later(work: () => void): void {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    work();
  };
  port2.postMessage(undefined);
}

/** A request that is answered later, by its transaction or with a database. */
export class Asking<T> {
  result: T | undefined;
  onsuccess: ((event: object) => void) | null = null;
  onerror: ((event: object) => void) | null = null;
  onupgradeneeded: ((event: object) => void) | null = null;

  answer(result: T): void {
    this.result = result;
    this.onsuccess?.({ type: "success", target: this });
  }
}

/** The records of one table, in the order of IndexedDB. */
export class Table {
  /** By the text of the key. No entry is ever changed. */
  readonly entries = new Map<string, Entry>();

  put(value: Uint8Array, key: Key): void {
    this.entries.set(nameOf(key), { key: typeof key === "number" ? key : key.slice().buffer, value });
  }

  get(key: Key): Uint8Array | undefined {
    return this.entries.get(nameOf(key))?.value;
  }

  within(range: IDBKeyRange | undefined): Entry[] {
    const found = [...this.entries.values()].filter(({ key }) => range?.includes(key) ?? true);
    return found.sort((a, b) => compareKeys(a.key, b.key));
  }

  delete(keys: Key | IDBKeyRange): void {
    if (keys instanceof IDBKeyRange) for (const { key } of this.within(keys)) this.entries.delete(nameOf(key));
    else this.entries.delete(nameOf(keys));
  }

  clear(): void {
    this.entries.clear();
  }
}

/** The order of IndexedDB: numbers come before bytes. */
export function compareKeys(a: number | ArrayBuffer, b: number | ArrayBuffer): number {
  if (typeof a === "number" || typeof b === "number") {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return typeof a === "number" ? -1 : 1;
  }
  const [mine, theirs] = [new Uint8Array(a), new Uint8Array(b)];
  const differs = mine.findIndex((byte, at) => byte !== theirs[at]);
  return differs < 0 ? mine.length - theirs.length : (mine[differs] ?? 0) - (theirs[differs] ?? -1);
}

const nameOf = (key: number | Uint8Array | ArrayBuffer): string =>
  typeof key === "number" ? `${key}` : new Uint8Array(key).toString();

/** Collects the requests of one turn, and answers them in order in a later task. */
class Transaction {
  oncomplete: ((event: object) => void) | null = null;
  onabort: ((event: object) => void) | null = null;
  onerror: ((event: object) => void) | null = null;
  readonly error = null;
  readonly #table: (name: string) => Table;
  readonly #asked: (() => void)[] = [];

  constructor(table: (name: string) => Table) {
    this.#table = table;
    later(() => {
      try {
        for (const answer of this.#asked) answer();
        this.oncomplete?.({ type: "complete", target: this });
      } catch {
        this.abort();
      }
    });
  }

  objectStore(name: string): object {
    const table = this.#table(name);
    const ask = <T>(work: () => T): Asking<T> => {
      const asking = new Asking<T>();
      this.#asked.push(() => asking.answer(work()));
      return asking;
    };
    const within = (range?: IDBKeyRange, limit?: number): Entry[] => table.within(range).slice(0, limit);
    return {
      get: (key: Key) => ask(() => table.get(key)),
      getAll: (range?: IDBKeyRange, limit?: number) => ask(() => within(range, limit).map(({ value }) => value)),
      getAllKeys: (range?: IDBKeyRange, limit?: number) => ask(() => within(range, limit).map(({ key }) => key)),
      put: (value: Uint8Array, key: Key) => ask(() => table.put(value, key)),
      // Only fences are added, and no other tab uses these databases, so the key is always free.
      add: (value: Uint8Array, key: Key) => ask(() => table.put(value, key)),
      delete: (keys: Key | IDBKeyRange) => ask(() => table.delete(keys)),
      clear: () => ask(() => table.clear()),
    };
  }

  commit(): void {
    // It commits by itself.
  }

  abort(): void {
    this.#asked.length = 0;
    this.oncomplete = null;
    this.onabort?.({ type: "abort", target: this });
  }
}

/** A database that always exists, with every table. */
export class Database {
  readonly version = VERSION;
  readonly objectStoreNames = { contains: () => true };
  onversionchange: ((event: object) => void) | null = null;
  onclose: (() => void) | null = null;
  readonly tables = new Map<string, Table>();

  transaction(): Transaction {
    return new Transaction((name) => {
      const table = this.tables.get(name) ?? new Table();
      this.tables.set(name, table);
      return table;
    });
  }

  close(): void {
    // Nobody else has it open, and it disappears with its factory.
  }
}

/**
 * Makes databases in the page's memory, with the calls that the core makes. Opening any name succeeds, and the database
 * has every table. They do not show how the browser's databases behave, and disappear with the object returned.
 */
export function memoryDatabases(databases = new Map<string, Database>()): IDBFactory {
  const factory = {
    open: (name: string) => {
      const database = databases.get(name) ?? new Database();
      databases.set(name, database);
      const asking = new Asking<Database>();
      later(() => asking.answer(database));
      return asking;
    },
  };
  return factory as unknown as IDBFactory;
}
