/** Records in IndexedDB. It holds bytes and never Blobs, which WebKit loses. */

import { isBytes, openDatabase, settled, transact, type Bytes } from "../shared.js";
import type { Table } from "./cipher.js";
import { closed, fault, full } from "./faults.js";
import { isSame, type Change, type Store } from "./store.js";

/** A value that the browser has lost the file of. */
const UNREADABLE = "NotReadableError";

/** A buffer of a browser from 2024 on. */
type Transferable = ArrayBuffer & { transfer?(length: number): ArrayBuffer };

/** Records in a database. */
export class DatabaseStore implements Store {
  readonly #databases: IDBFactory;
  readonly #name: string;
  #opening: Promise<IDBDatabase> | undefined;
  /** Nothing is opened again: the session ended, or another tab deletes the database. */
  #isEnded = false;

  constructor(databases: IDBFactory, name: string) {
    this.#databases = databases;
    this.#name = name;
  }

  async read(table: Table, name: string): Promise<Bytes | undefined> {
    try {
      const value = await this.#run("readonly", async (transaction) => settled(transaction.objectStore(table).get(name) as IDBRequest<unknown>));
      return isBytes(value) ? value : undefined;
    } catch (error) {
      if (nameOf((error as Error).cause) === UNREADABLE) return undefined;
      throw error;
    }
  }

  names(table: Table): Promise<string[]> {
    return this.#run("readonly", (transaction) => namesOf(transaction.objectStore(table)));
  }

  async write({ clear, put = [], remove = [], was = [], have = [], only, isDurable }: Change): Promise<boolean> {
    const isDone = await this.#run(
      "readwrite",
      async (transaction) => {
        const tables = { c: transaction.objectStore("c"), d: transaction.objectStore("d") };
        const { c, d } = tables;
        const fine = await Promise.all([
          ...was.map(async ([name, bytes]) => isSame(await settled(d.get(name) as IDBRequest<Bytes | undefined>), bytes)),
          ...have.map(async (name) => (await settled(c.getKey(name))) !== undefined),
          !only || namesOf(d).then((names) => names.every((name) => only.has(name))),
        ]);
        if (fine.includes(false)) return false;
        if (clear) for (const table of [c, d]) table.clear();
        for (const [table, name] of remove) tables[table].delete(name);
        for (const [table, name, bytes] of put) tables[table].put(bytes, name);
        return true;
      },
      isDurable ? "strict" : "relaxed",
    );
    // Browsers collect buffers late: without this, a film fills the memory.
    if (isDone) for (const [table, , bytes] of put) if (table === "c") (bytes.buffer as Transferable).transfer?.(0);
    return isDone;
  }

  end(): void {
    this.#isEnded = true;
    this.#drop();
  }

  /** Runs a transaction. If the browser has closed the database, it opens it again, once. */
  async #run<T>(mode: IDBTransactionMode, work: (transaction: IDBTransaction) => Promise<T>, durability: IDBTransactionDurability = "relaxed"): Promise<T> {
    for (let isAgain = false; ; isAgain = true) {
      if (this.#isEnded) throw closed();
      try {
        const database = await (this.#opening ??= this.#open());
        return await transact(database, mode, durability, work);
      } catch (error) {
        const name = nameOf(error);
        if (name === "QuotaExceededError") throw full(error);
        if (name === "VersionError") throw fault("store_too_new", "a newer version wrote the files", error);
        if (isAgain || name === UNREADABLE) throw fault("storage_failed", `files: ${name}`, error);
        this.#drop();
      }
    }
  }

  async #open(): Promise<IDBDatabase> {
    const database = await openDatabase(this.#databases, this.#name, "c", "d");
    database.onclose = () => (this.#opening = undefined);
    // Another tab wipes the store. Opened again, it would come back.
    database.onversionchange = () => this.end();
    if (this.#isEnded) database.close();
    return database;
  }

  #drop(): void {
    void this.#opening?.then((database) => database.close(), () => {});
    this.#opening = undefined;
  }
}

/** Also of an error of another realm. */
const nameOf = (error: unknown): string => (error as Error | undefined)?.name ?? typeof error;

// Async, so that a call that throws rejects: a promise next to it would be left alone otherwise.
const namesOf = async (store: IDBObjectStore): Promise<string[]> => settled(store.getAllKeys() as IDBRequest<string[]>);
