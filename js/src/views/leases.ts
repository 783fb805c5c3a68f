/**
 * Subscriptions that last as long as somebody holds them, and a while longer. The time counts while the session is open.
 */

import type { Core } from "../wasm/core.js";
import type { Status } from "../session/status.js";
import type { Stop } from "./view.js";

/** Timers of browsers take no more than 24 days. */
const TIMER_MAX_MS = 86_400_000;
/** The wait before another attempt, if another tab has the store open. */
const AGAIN_MS = 60_000;

interface Lease {
  holders: number;
  /** The longest time that a holder asked for. */
  keepMs: number;
  timer?: ReturnType<typeof setTimeout>;
}

/** The subscriptions that this session began for holders. All others stay until `unsubscribe`. */
export class Leases {
  readonly #leases = new Map<string, Lease>();
  readonly #core: Pick<Core, "inspect">;
  readonly #status: Pick<Status, "mode">;
  readonly #end: (def: string) => void;
  /** The store's name, once known. */
  #name = "";

  constructor(core: Pick<Core, "inspect">, status: Pick<Status, "mode">, end: (def: string) => void) {
    this.#core = core;
    this.#status = status;
    this.#end = end;
  }

  /** A holder comes. `isNew`: the subscription began for it. The function that it returns lets the holder go. */
  hold(def: string, keepMs: number, isNew: boolean): Stop {
    if (isNew) this.#leases.set(def, { holders: 0, keepMs });
    const lease = this.#leases.get(def);
    if (!lease) return () => {};
    clearTimeout(lease.timer);
    lease.holders++;
    lease.keepMs = Math.max(lease.keepMs, keepMs);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (--lease.holders === 0) this.#wait(def, lease, lease.keepMs);
    };
  }

  /** The subscription stays for good, or it has ended. */
  forget(def: string): void {
    clearTimeout(this.#leases.get(def)?.timer);
    this.#leases.delete(def);
  }

  #wait(def: string, lease: Lease, ms: number): void {
    if (this.#leases.get(def) !== lease) return;
    const now = Math.min(ms, TIMER_MAX_MS);
    lease.timer = setTimeout(() => {
      if (ms > now) this.#wait(def, lease, ms - now);
      else void this.#due(def, lease);
    }, now);
    // Node would wait for it before it ends.
    (lease.timer as { unref?(): void }).unref?.();
  }

  async #due(def: string, lease: Lease): Promise<void> {
    try {
      const isAlone = await this.#isAlone();
      if (lease.holders > 0 || this.#leases.get(def) !== lease) return;
      if (isAlone) this.#end(def);
    } catch {
      // The core has just died, or the store cannot be read.
    }
    // If the subscription has ended, there is nothing to wait for.
    if (lease.holders === 0) this.#wait(def, lease, AGAIN_MS);
  }

  /** Whether no other tab has the store open: its components may hold the same subscription. */
  async #isAlone(): Promise<boolean> {
    const { locks } = globalThis.navigator ?? {};
    if (!locks || this.#status.mode === "incognito") return true;
    // Asked once: an inspection reads the whole store. A core in memory has no name yet.
    this.#name ||= (await this.#core.inspect(0)).name;
    const { held = [], pending = [] } = await locks.query();
    // The leader holds this lock, and every other tab waits for it.
    return [...held, ...pending].filter(({ name }) => name === `${this.#name}-lead`).length < 2;
  }
}
