/** The version of every database: that of the stores, and of what stands beside them. */
const VERSION = 1;

type Key = number | Uint8Array;
interface Entry {
  readonly key: number | ArrayBuffer;
  readonly value: Uint8Array;
}

/** Does `work` after what the page is about: in a task of its own, which no clock delays. */
function later(work: () => void): void {
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = () => {
    port1.close();
    work();
  };
  port2.postMessage(undefined);
}

/** An asking that is answered later: with what its transaction gives, or with a database. */
class Asking<T> {
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
class Table {
  readonly #entries = new Map<string, Entry>();

  put(value: Uint8Array, key: Key): void {
    this.#entries.set(nameOf(key), { key: typeof key === "number" ? key : key.slice().buffer, value });
  }

  get(key: Key): Uint8Array | undefined {
    return this.#entries.get(nameOf(key))?.value;
  }

  within(range: IDBKeyRange | undefined): Entry[] {
    const found = [...this.#entries.values()].filter(({ key }) => range?.includes(key) ?? true);
    return found.sort((a, b) => indexedDB.cmp(a.key, b.key));
  }

  delete(keys: Key | IDBKeyRange): void {
    if (keys instanceof IDBKeyRange) for (const { key } of this.within(keys)) this.#entries.delete(nameOf(key));
    else this.#entries.delete(nameOf(keys));
  }

  clear(): void {
    this.#entries.clear();
  }
}

const nameOf = (key: number | Uint8Array | ArrayBuffer): string =>
  typeof key === "number" ? `${key}` : new Uint8Array(key).toString();

/** What is asked in one breath; it is done, in order, in a task of its own. */
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
      // Only fences are added, and nobody else is there who could have been first.
      add: (value: Uint8Array, key: Key) => ask(() => table.put(value, key)),
      delete: (keys: Key | IDBKeyRange) => ask(() => table.delete(keys)),
      clear: () => ask(() => table.clear()),
    };
  }

  commit(): void {
    // It ends by itself.
  }

  abort(): void {
    this.#asked.length = 0;
    this.oncomplete = null;
    this.onabort?.({ type: "abort", target: this });
  }
}

/** A database that is there, with every table. */
class Database {
  readonly version = VERSION;
  readonly objectStoreNames = { contains: () => true };
  onversionchange: ((event: object) => void) | null = null;
  onclose: (() => void) | null = null;
  readonly #tables = new Map<string, Table>();

  transaction(): Transaction {
    return new Transaction((name) => {
      const table = this.#tables.get(name) ?? new Table();
      this.#tables.set(name, table);
      return table;
    });
  }

  close(): void {
    // Nobody else has it, and it goes with its factory.
  }
}

/**
 * Databases in the page's memory, as far as the core asks for them: whichever is opened is there, with every table. They
 * say nothing of what the browser's own would do, and are gone with whoever holds them.
 */
export function memoryDatabases(): IDBFactory {
  const databases = new Map<string, Database>();
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
