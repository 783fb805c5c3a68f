/**
 * Space on the device (R28). Bytes with a reason are never removed. All others are a cache of 64 MiB, and the least recently
 * read go first. Files leave room for documents and operations.
 */

import type { EscaleError } from "../base/errors.js";
import { sleep, wake, type Sleepers } from "../shared.js";
import type { Catalogue, Entry, Known } from "./catalogue.js";
import type { Pauses } from "./retry.js";
import { CACHE_MAX, evicted, unshared, type Reason } from "./plan.js";
import { isSame } from "./store.js";
import type { Tabs } from "./tabs.js";

/** The room that files leave: bytes, and a share of the quota. */
const LEFT_MIN = 64 << 20;
const LEFT_SHARE = 0.05;

/** The bytes that may be written after one look at the quota. */
const GRANT = 16 << 20;

/** How long a tab waits for the session that leads to make room. */
const ASK_MS = 3_000;

interface Needs {
  readonly catalogue: Catalogue;
  readonly tabs: Tabs;
  /** In memory, the quota of the device does not count. */
  readonly isMemory: boolean;
  /** Whether this session knows all reasons: it leads, and the files of all rules are known. */
  readonly knowsReasons: () => boolean;
  readonly reasons: () => (entry: Entry) => Reason;
  readonly pauses: Pauses;
}

export interface Space {
  /** Whether a file may take so many bytes. It removes the cache if not. */
  has(bytes: number): Promise<boolean>;
  /** Writes a record; if the device is full, once more without the cache. Errors: `storage_full`. */
  write<T>(write: () => Promise<T>): Promise<T>;
  /** The session that leads has made room. */
  made(): void;
  /** Removes bytes without a reason until so many are left, and chunks that belong to no file. */
  trim(most?: number): Promise<void>;
}

export function spaceOf({ catalogue, tabs, isMemory, knowsReasons, reasons, pauses }: Needs): Space {
  /** The bytes that may be written before the next look. */
  let granted = 0;
  let clearing: Promise<void> | undefined;
  /** Those who wait for the session that leads. */
  const asking: Sleepers = new Set();

  /** Whether the device has room for so many bytes. */
  const look = async (bytes: number): Promise<boolean> => {
    if (granted < bytes) {
      const { navigator } = globalThis as { navigator?: { storage?: { estimate?(): Promise<{ usage?: number; quota?: number }> } } };
      const estimate = isMemory ? undefined : await navigator?.storage?.estimate?.().catch(() => undefined);
      const { usage = 0, quota = Infinity } = estimate ?? {};
      granted = Math.min(GRANT, quota - usage - Math.max(LEFT_MIN, quota === Infinity ? 0 : quota * LEFT_SHARE));
    }
    if (granted < bytes) return false;
    granted -= bytes;
    return true;
  };

  /** Removes those of the chunks that no other file has, and the records of these files. */
  const remove = async (names: readonly string[], own: readonly Known[] = []): Promise<boolean> => {
    const gone = unshared(catalogue, names, own);
    if (own.length + gone.length === 0) return true;
    // Another tab may have added a file with the same chunks, or one of these: then nothing is removed.
    const isDone = await catalogue.store.write({
      remove: [...own.map(({ name }) => ["d", name] as const), ...gone.map((name) => ["c", name] as const)],
      was: own.map(({ name, sealed }) => [name, sealed]),
      only: catalogue.recordNames(),
    });
    if (!isDone) return false;
    catalogue.note([], gone);
    tabs.post({ gone });
    for (const { key } of own) {
      tabs.post({ record: key });
      await catalogue.reload(key);
    }
    return true;
  };

  const clear = async (most: number): Promise<void> => {
    // A tab that adds a file has chunks that no record names yet.
    await tabs.ifNoneAdds(async () => remove(await catalogue.store.names("c")));
    for (const group of evicted(catalogue, most, reasons())) {
      const own = group.flatMap(({ key }) => catalogue.entry(key) ?? []);
      if (await remove(own.flatMap(({ names }) => names), own)) continue;
      // One that another tab has changed stays, and the others go one by one.
      for (const { key, sealed } of own) {
        const now = await catalogue.reload(key);
        if (now && isSame(now.sealed, sealed)) await remove(now.names, [now]);
      }
    }
  };

  const trim = async (most = CACHE_MAX): Promise<void> => {
    if (!knowsReasons()) return;
    await clearing;
    clearing = clear(most).finally(() => (clearing = undefined));
    return clearing;
  };

  /** Removes the whole cache, or lets the session that leads do it. */
  const make = async (): Promise<void> => {
    if (knowsReasons()) return trim(0);
    const made = sleep(asking, ASK_MS);
    tabs.post({ room: "wanted" });
    return made;
  };

  return {
    async has(bytes) {
      if ((await look(bytes)) || isMemory) return true;
      await make();
      return look(bytes);
    },
    async write(write) {
      try {
        return await write();
      } catch (error) {
        if ((error as EscaleError).code !== "storage_full") throw error;
        granted = 0;
        await make();
        return write();
      }
    },
    made() {
      wake(asking);
      pauses.wake();
    },
    trim,
  };
}
