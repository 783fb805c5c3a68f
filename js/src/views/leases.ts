/**
 * Subscriptions that last as long as somebody holds them, and a while longer. While this session is open, its timers end
 * them to the millisecond. For later openings the device has the day of the last holder, and the days to keep it.
 */

import type { Core } from "../wasm/core.js";
import type { Status } from "../session/status.js";
import type { Stop } from "./view.js";

const DAY_MS = 86_400_000;
/** A lease on the device is `day * DAYS + days to keep` (docs/format.md). */
export const DAYS = 65_536;
/** The wait before another attempt, if another tab has the store open. */
const AGAIN_MS = 60_000;

interface Lease {
  holders: number;
  /** The longest time that a holder asked for. */
  keepMs: number;
  /** The lease that the device was given last. */
  rest: number;
  timer?: Timer;
}

type Timer = ReturnType<typeof setTimeout>;
type LeaseCore = Pick<Core, "inspect" | "list" | "subscriptions">;
type LeaseStatus = Pick<Status, "mode" | "leads">;

/** The subscriptions that holders began. All others stay until `unsubscribe`. */
export class Leases {
  readonly #leases = new Map<string, Lease>();
  readonly #core: LeaseCore;
  readonly #status: LeaseStatus;
  readonly #begin: (def: string, lease: number) => void;
  readonly #end: (def: string) => void;
  /** The store's name, once known. */
  #name = "";
  #checking: Timer;

  constructor(core: LeaseCore, status: LeaseStatus, begin: (def: string, lease: number) => void, end: (def: string) => void) {
    this.#core = core;
    this.#status = status;
    this.#begin = begin;
    this.#end = end;
    // Holders have so long to appear after an opening.
    this.#checking = later(() => this.#endOverdue(), AGAIN_MS);
  }

  /** The lease of a subscription that holders began, as the device keeps it; 0 for all others. */
  atRest(def: string): number {
    const lease = this.#leases.get(def);
    return lease ? restOf(lease) : 0;
  }

  /** A holder comes. `isNew`: the subscription began for it. The function that it returns lets the holder go. */
  hold(def: string, keepMs: number, isNew: boolean): Stop {
    const known = this.#leases.get(def);
    const kept = isNew || known ? 0 : this.#core.list(def).lease;
    // It stays for good.
    if (!isNew && !known && !kept) return () => {};
    const lease = known ?? { holders: 0, keepMs: (kept % DAYS) * DAY_MS, rest: kept };
    lease.keepMs = Math.max(lease.keepMs, keepMs);
    // This throws if there is no such def.
    this.#rest(def, lease);
    this.#leases.set(def, lease);
    if (lease.holders++ === 0) this.#wait(def, lease, Infinity);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (--lease.holders > 0 || this.#leases.get(def) !== lease) return;
      this.#tryRest(def, lease);
      this.#wait(def, lease, lease.keepMs);
    };
  }

  /** Whether a subscription ends by itself, because nobody holds it. */
  isIdle(def: string): boolean {
    return this.#leases.get(def)?.holders === 0;
  }

  /** The subscription stays for good, or it has ended. Returns whether it was held. */
  forget(def: string): boolean {
    clearTimeout(this.#leases.get(def)?.timer);
    return this.#leases.delete(def);
  }

  /** The session is over. */
  stop(): void {
    clearTimeout(this.#checking);
  }

  /** Gives the device the lease, if it has changed: with the day, or with a longer time. This also subscribes. */
  #rest(def: string, lease: Lease): void {
    const rest = restOf(lease);
    if (rest === lease.rest) return;
    this.#begin(def, rest);
    lease.rest = rest;
  }

  #tryRest(def: string, lease: Lease): void {
    try {
      this.#rest(def, lease);
    } catch {
      // The core has just died: the next one is given it.
    }
  }

  /** Waits: for ever while it is held. Timers of browsers take no more than 24 days. */
  #wait(def: string, lease: Lease, ms: number): void {
    const now = Math.min(ms, DAY_MS);
    clearTimeout(lease.timer);
    lease.timer = later(() => {
      if (ms === now) return void this.#due(def, lease);
      if (lease.holders > 0) this.#tryRest(def, lease);
      this.#wait(def, lease, ms - now);
    }, now);
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
    if (lease.holders === 0 && this.#leases.get(def) === lease) this.#wait(def, lease, AGAIN_MS);
  }

  /** In the tab that leads, ends the subscriptions that nobody has held for longer than their time. */
  #endOverdue(): void {
    try {
      for (const def of this.#status.leads ? this.#core.subscriptions() : []) {
        const { lease } = this.#core.list(def);
        const age = today() - Math.floor(lease / DAYS);
        if (!lease || this.#leases.has(def)) continue;
        // The clock was set back: the time begins again.
        if (age < 0) this.#begin(def, lease + age * DAYS);
        else if (age > lease % DAYS) this.#end(def);
      }
    } catch {
      // The core has just died.
    }
    this.#checking = later(() => this.#endOverdue(), DAY_MS);
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

/** A lease as the device keeps it. */
function restOf({ keepMs }: Lease): number {
  return today() * DAYS + Math.min(Math.ceil(keepMs / DAY_MS), DAYS - 1);
}

/** The day, counted from 1970. */
function today(): number {
  return Math.floor(Date.now() / DAY_MS);
}

/** A timer for which Node does not wait before it ends. */
function later(act: () => void, ms: number): Timer {
  const timer = setTimeout(act, ms);
  (timer as { unref?(): void }).unref?.();
  return timer;
}
