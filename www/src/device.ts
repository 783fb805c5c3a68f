/** What rests on this device, reached without a session: for when none can be opened. */

import { shaS } from "./defs";
import { ORG } from "./session";

/** Deletes the store of the demonstration. Rejects where another tab holds it. */
export async function eraseStore(): Promise<void> {
  const store = `escale1-${await shaS(`${ORG}/`)}`;
  const databases = await indexedDB.databases();
  for (const { name } of databases) if (name?.startsWith(store)) await deleteDatabase(name);
}

function deleteDatabase(name: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.deleteDatabase(name);
    request.onsuccess = () => resolve();
    request.onerror = () => reject(new Error("The browser refused to delete the store."));
    request.onblocked = () => reject(new Error("Another tab holds the store: close it, then try again."));
  });
}
