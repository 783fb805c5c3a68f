/**
 * Room on the device (R28). Bytes with a reason are never removed. All others are a cache of 64 MiB, and the least recently
 * read go first. Files leave room for documents and operations.
 */

import type { EscaleError } from "../base/errors.js";
import type { Catalogue, Entry } from "./catalogue.js";
import { fault } from "./faults.js";
import type { Pauses } from "./pauses.js";
import type { Tabs } from "./tabs.js";

/** The bytes that nothing keeps. A larger file is no part of it. */
export const CACHE_MAX = 64 << 20;

/** The room that files leave: bytes, and a share of the quota. */
const LEFT_MIN = 64 << 20;
const LEFT_SHARE = 0.05;

/** The bytes that may be written after one look at the quota. */
const GRANT = 16 << 20;

/** How long a tab waits for the session that leads to make room. */
const ASK_MS = 3_000;

/** How long a file stays that the application has added. */
export const ADDED_MS = 24 * 3_600_000;

/** Why the device keeps a file. */
export type Reason = "pending" | "local" | "kept" | "cached";

interface Needs {
  readonly catalogue: Catalogue;
  readonly tabs: Tabs;
  /** In memory, the quota of the device does not count. */
  readonly isMemory: boolean;
  /** Whether this session knows all reasons: it leads, and the files of all rules are known. */
  knowsReasons(): boolean;
  reasons(): (entry: Entry) => Reason;
  readonly pauses: Pauses;
}

export class Room {
  readonly #needs: Needs;
  /** The bytes that may be written before the next look. */
  #granted = 0;
  #clearing: Promise<void> | undefined;
  /** Resolves a wait for the session that leads. */
  #made = (): void => {};

  constructor(needs: Needs) {
    this.#needs = needs;
  }

  /** Whether a file may take so many bytes. It removes the cache if not. */
  async has(bytes: number): Promise<boolean> {
    if ((await this.#look(bytes)) || this.#needs.isMemory) return true;
    await this.make();
    return this.#look(bytes);
  }

  /** Writes a record; if the device is full, once more without the cache. Errors: `storage_full`. */
  async write<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write();
    } catch (error) {
      if ((error as EscaleError).code !== "storage_full") throw error;
      this.#granted = 0;
      await this.make();
      return write();
    }
  }

  /** Removes the whole cache, or lets the session that leads do it. */
  async make(): Promise<void> {
    if (this.#needs.knowsReasons()) return this.trim(0);
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ASK_MS);
      this.#made = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#needs.tabs.post({ room: "wanted" });
    });
  }

  /** The session that leads has made room. */
  made(): void {
    this.#made();
    this.#needs.pauses.wake();
  }

  /** Removes bytes without a reason until so many are left, and chunks that belong to no file. */
  async trim(most = CACHE_MAX): Promise<void> {
    if (!this.#needs.knowsReasons()) return;
    await this.#clearing;
    this.#clearing = this.#trim(most).finally(() => (this.#clearing = undefined));
    return this.#clearing;
  }

  async #trim(most: number): Promise<void> {
    const { catalogue, tabs } = this.#needs;
    // A tab that adds a file has chunks that no record names yet.
    await tabs.ifNoneAdds(() => this.#sweep());
    const reasons = this.#needs.reasons();
    const cache = catalogue.files().filter(({ entry }) => reasons(entry) === "cached");
    cache.sort((a, b) => a.entry.read - b.entry.read);
    let left = cache.reduce((sum, { entry }) => sum + catalogue.here(entry.key), 0);
    for (const { entry } of cache) {
      const { key } = entry;
      const bytes = catalogue.here(key);
      // A record without bytes is of no use.
      if (left <= most && bytes > 0) continue;
      left -= bytes;
      await this.#remove(key);
    }
  }

  /** Removes a file, and those of its chunks that no other file has. */
  async #remove(key: string): Promise<void> {
    const { catalogue, tabs } = this.#needs;
    const all = catalogue.files();
    const own = all.find(({ entry }) => entry.key === key);
    const others = new Set(all.flatMap((known) => (known === own ? [] : known.names)));
    const gone = (own?.names ?? []).filter((name) => !others.has(name));
    // Another tab may have added a file with the same chunks, or this one: then nothing is removed.
    const isDone =
      own &&
      (await catalogue.store.write({
        remove: [["d", own.name], ...gone.map((name) => ["c", name] as const)],
        was: [[own.name, own.sealed]],
        only: catalogue.recordNames(),
      }));
    if (isDone) {
      catalogue.note([], gone);
      tabs.post({ gone, record: key });
    }
    await catalogue.reload(key);
  }

  /** Removes chunks that no file names. */
  async #sweep(): Promise<void> {
    const { catalogue, tabs } = this.#needs;
    const named = new Set(catalogue.files().flatMap(({ names }) => names));
    const gone = (await catalogue.store.names("c")).filter((name) => !named.has(name));
    if (gone.length === 0) return;
    if (!(await catalogue.store.write({ remove: gone.map((name) => ["c", name]), only: catalogue.recordNames() }))) return;
    catalogue.note([], gone);
    tabs.post({ gone });
  }

  /** Whether the device has room for so many bytes. */
  async #look(bytes: number): Promise<boolean> {
    if (this.#granted < bytes) {
      const { navigator } = globalThis as { navigator?: { storage?: { estimate?(): Promise<{ usage?: number; quota?: number }> } } };
      const estimate = this.#needs.isMemory ? undefined : await navigator?.storage?.estimate?.().catch(() => undefined);
      const { usage = 0, quota = Infinity } = estimate ?? {};
      this.#granted = Math.min(GRANT, quota - usage - Math.max(LEFT_MIN, quota === Infinity ? 0 : quota * LEFT_SHARE));
    }
    if (this.#granted < bytes) return false;
    this.#granted -= bytes;
    return true;
  }
}

/** The error of a device without room. */
export const full = (): EscaleError => fault("storage_full", "no room for files");
