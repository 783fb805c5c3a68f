/** A device in memory: its records outlive the pages that write them. */

import { Asking, Database, later, memoryDatabases, Table } from "../wasm/memory-databases.js";

export class MemoryDevice {
  readonly factory: IDBFactory;
  readonly #databases: Map<string, Database>;

  constructor(databases = new Map<string, Database>()) {
    this.#databases = databases;
    // Only one session has a device open, and it closes its own connections before a wipe.
    const deleteDatabase = (name: string): object => {
      const asking = new Asking<undefined>();
      databases.delete(name);
      later(() => asking.answer(undefined));
      return asking;
    };
    this.factory = Object.assign(memoryDatabases(databases), { deleteDatabase } as unknown as IDBFactory);
  }

  /** A device with the records of this moment. Later writes to either do not reach the other. */
  copy(): MemoryDevice {
    const copies = new Map<string, Database>();
    for (const [name, database] of this.#databases) {
      const copy = new Database();
      for (const [table, { entries }] of database.tables) {
        copy.tables.set(table, Object.assign(new Table(), { entries: new Map(entries) }));
      }
      copies.set(name, copy);
    }
    return new MemoryDevice(copies);
  }
}
