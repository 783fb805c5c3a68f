/** Transactions of IndexedDB. A transaction waits for nothing but its own requests, and has happened on `complete` alone. */

import { inTime } from "./retry.js";

/** A request or transaction without any event counts as failed after this time. */
const PATIENCE_MS = 30_000;

/** The result of a request, or the end of a transaction. */
export const settled = <T>(asked: IDBRequest<T> | IDBTransaction): Promise<T> => {
  const ended = new Promise<T>((resolve, reject) => {
    const done = ({ target }: Event): void => resolve((target as IDBRequest<T>).result);
    // A request that fails says so to its transaction, too.
    const failed = ({ target }: Event): void => reject((target as IDBRequest).error ?? new DOMException("aborted", "AbortError"));
    Object.assign(asked, { onsuccess: done, oncomplete: done, onerror: failed, onabort: failed });
  });
  return inTime(ended, PATIENCE_MS);
};

/** Opens a database with these tables, and makes it if there is none. */
export function openDatabase(databases: IDBFactory, name: string, ...tables: string[]): Promise<IDBDatabase> {
  const opening = databases.open(name, 1);
  opening.onupgradeneeded = () => {
    for (const table of tables) opening.result.createObjectStore(table);
  };
  const opened = settled(opening);
  // One that opens after all would keep others from deleting it.
  opened.catch(() => (opening.onsuccess = () => opening.result.close()));
  return opened;
}

/** Runs a transaction on all tables. If the work fails, nothing of it has happened. */
export async function transact<T>(
  database: IDBDatabase,
  mode: IDBTransactionMode,
  durability: IDBTransactionDurability,
  work: (transaction: IDBTransaction) => Promise<T>,
): Promise<T> {
  const transaction = database.transaction(Array.from(database.objectStoreNames), mode, { durability });
  try {
    const [result] = await Promise.all([work(transaction), settled(transaction)]);
    return result;
  } catch (error) {
    try {
      // Also one that was silent too long: it would happen after its failure was reported.
      transaction.abort();
    } catch {
      // The request that failed has ended it.
    }
    throw error;
  }
}
