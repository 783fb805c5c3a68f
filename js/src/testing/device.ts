/** A device in memory: its records outlive the pages that write them. */

import { Database, memoryDatabases, Table } from "../wasm/memory-databases.js";

export class MemoryDevice {
  readonly factory: IDBFactory;
  readonly #databases: Map<string, Database>;

  constructor(databases = new Map<string, Database>()) {
    this.#databases = databases;
    this.factory = memoryDatabases(databases);
  }

  /** A device with the records of this moment. Later writes to either do not reach the other. */
  copy(): MemoryDevice {
    const copies = new Map<string, Database>();
    for (const [name, database] of this.#databases) {
      const copy = new Database();
      for (const [table, { entries }] of database.tables) {
        const rows = new Table();
        for (const [key, entry] of entries) rows.entries.set(key, entry);
        copy.tables.set(table, rows);
      }
      copies.set(name, copy);
    }
    return new MemoryDevice(copies);
  }
}
