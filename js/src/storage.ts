/** What the browser promises of the storage: `granted`, it is kept until the user deletes it; `denied`, it may be evicted
 * where room is short, or after a while without a visit; `unsupported`, the browser cannot say, or nothing is written. */
export type Persistence = "granted" | "denied" | "unsupported";

/** How much of the browser's storage this origin takes. */
export interface StorageUsage {
  /** Bytes in use by the whole origin, as the browser estimates them; null where it does not say. */
  readonly used: number | null;
  /** Bytes that the origin may use; null where the browser does not say. */
  readonly quota: number | null;
  readonly persistence: Persistence;
}

/** The part of `navigator.storage` that is asked; browsers and contexts lack some of it, or all. */
interface Manager {
  persist?(): Promise<boolean>;
  persisted?(): Promise<boolean>;
  estimate?(): Promise<{ usage?: number; quota?: number }>;
}

function manager(): Manager | undefined {
  const { navigator } = globalThis as { navigator?: { storage?: Manager } };
  return navigator?.storage;
}

/** Asks the browser to keep the storage. Some ask the user, others decide by themselves; asking twice is harmless. */
export async function requestPersistence(): Promise<Persistence> {
  return answer((storage) => storage.persist?.());
}

/** What the origin takes, and what the browser promises of it. */
export async function usage(): Promise<StorageUsage> {
  let estimate: { usage?: number; quota?: number } = {};
  try {
    estimate = (await manager()?.estimate?.()) ?? {};
  } catch {
    // A browser that refuses to say is one that does not say.
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
