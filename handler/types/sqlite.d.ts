import type { Storage } from "./index.js";

export interface SqliteOptions {
  /** The pragma of that name: with less than FULL, a crash of the machine can lose the newest writes. */
  synchronous?: "FULL" | "NORMAL" | "OFF" | undefined;
}

/** A storage in an open database: a `DatabaseSync` of `node:sqlite`, or a `Database` of better-sqlite3 or node-sqlite3-wasm. */
export declare function sqlite(database: object, options?: SqliteOptions): Storage;

/** Opens a file with `node:sqlite`, else with better-sqlite3, else with node-sqlite3-wasm. Rejects if there is none. */
export declare function openSqlite(file: string, options?: SqliteOptions): Promise<Storage>;
