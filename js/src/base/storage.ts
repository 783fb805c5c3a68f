/** The browser's storage: how much is used, and whether the browser keeps it. */

/**
 * The browser's promise about stored data. `granted`: kept until the user deletes it. `denied`: it may be evicted if
 * space is short, or after a while without a visit. `unsupported`: the browser cannot say, or nothing is written.
 */
export type Persistence = "granted" | "denied" | "unsupported";

/** The browser's storage that this origin uses. */
export interface StorageUsage {
  /** Bytes in use by the whole origin, by the browser's estimate; null if it gives none. */
  readonly used: number | null;
  /** Bytes that the origin may use; null if the browser does not say. */
  readonly quota: number | null;
  readonly persistence: Persistence;
}

/** The part of `navigator.storage` in use here. Some browsers and contexts lack parts of it, or all. */
interface Manager {
  persist?(): Promise<boolean>;
  persisted?(): Promise<boolean>;
  estimate?(): Promise<{ usage?: number; quota?: number }>;
}

function manager(): Manager | undefined {
  const { navigator } = globalThis as { navigator?: { storage?: Manager } };
  return navigator?.storage;
}

/**
 * Asks the browser to keep the storage. Some browsers ask the user, others decide themselves. Asking twice is harmless.
 */
export async function requestPersistence(): Promise<Persistence> {
  return answer((storage) => storage.persist?.());
}

/** The origin's usage, and the browser's promise about it. */
export async function usage(): Promise<StorageUsage> {
  let estimate: { usage?: number; quota?: number } = {};
  try {
    estimate = (await manager()?.estimate?.()) ?? {};
  } catch {
    // A browser that throws here gives no estimate either.
  }
  const persistence = await answer((storage) => storage.persisted?.());
  return Object.freeze({ used: estimate.usage ?? null, quota: estimate.quota ?? null, persistence });
}

async function answer(ask: (storage: Manager) => Promise<boolean> | undefined): Promise<Persistence> {
  try {
    const storage = manager();
    const granted = storage && (await ask(storage));
    if (granted === undefined) return "unsupported";
    return granted ? "granted" : "denied";
  } catch {
    return "unsupported";
  }
}
