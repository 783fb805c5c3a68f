/**
 * The parts of a browser that a device needs and that Node, jsdom or happy-dom may lack: key ranges, locks, and the events
 * of the network. They are there while a world is open, and only if nothing else provides them.
 */

import { compareKeys } from "../wasm/memory-databases.js";

/** A list stands for the end of all keys: it comes after every other one. */
type Key = number | ArrayBuffer | ArrayBufferView | readonly [];

/** A range of keys, as IndexedDB has it. */
class KeyRange {
  readonly lower: Key;
  readonly upper: Key;
  readonly lowerOpen: boolean;
  readonly upperOpen: boolean;

  constructor(lower: Key, upper: Key, lowerOpen = false, upperOpen = false) {
    this.lower = lower;
    this.upper = upper;
    this.lowerOpen = lowerOpen;
    this.upperOpen = upperOpen;
  }

  static bound(lower: Key, upper: Key, lowerOpen?: boolean, upperOpen?: boolean): KeyRange {
    return new KeyRange(lower, upper, lowerOpen, upperOpen);
  }

  includes(key: Key): boolean {
    const low = compare(this.lower, key);
    const high = compare(key, this.upper);
    return (low < 0 || (low === 0 && !this.lowerOpen)) && (high < 0 || (high === 0 && !this.upperOpen));
  }
}

function compare(a: Key, b: Key): number {
  if (Array.isArray(a) || Array.isArray(b)) return Number(Array.isArray(a)) - Number(Array.isArray(b));
  return compareKeys(plain(a), plain(b));
}

function plain(key: Key): number | ArrayBuffer {
  // The buffer may be of another realm, such as that of jsdom.
  if (!ArrayBuffer.isView(key)) return key as number | ArrayBuffer;
  const { buffer, byteOffset, byteLength } = key;
  return buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
}

interface LockOptions {
  readonly ifAvailable?: boolean;
  readonly steal?: boolean;
  readonly signal?: AbortSignal;
}
type Granted = (lock: { name: string } | null) => unknown;

/** Exclusive locks, as `navigator.locks` has them. */
class Locks {
  /** By name, the end of each lock's holder. */
  readonly #held = new Map<string, { lose: (error: Error) => void; freed: Promise<void> }>();
  readonly #pending = new Set<{ name: string }>();

  /** The holders, and the requests that wait: a session asks whether another one has its store open. */
  query(): Promise<{ held: { name: string }[]; pending: { name: string }[] }> {
    return Promise.resolve({ held: [...this.#held.keys()].map((name) => ({ name })), pending: [...this.#pending] });
  }

  async request(name: string, options: LockOptions | Granted, granted?: Granted): Promise<unknown> {
    const call = typeof options === "function" ? options : granted;
    const { ifAvailable, steal, signal } = typeof options === "function" ? {} : options;
    if (ifAvailable && this.#held.has(name)) return await call?.(null);
    if (steal) this.#held.get(name)?.lose(new DOMException("the lock was stolen", "AbortError"));
    // Nothing may run between the last look and the taking of the lock.
    else for (let held = this.#held.get(name); held; held = this.#held.get(name)) await this.#wait(name, held.freed, signal);
    return await new Promise((resolve, reject) => {
      const work = Promise.resolve(call?.({ name }));
      const holder = { lose: reject, freed: work.then(() => undefined, () => undefined) };
      this.#held.set(name, holder);
      void holder.freed.then(() => void (this.#held.get(name) === holder && this.#held.delete(name)));
      work.then(resolve, reject);
    });
  }

  async #wait(name: string, freed: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
    const waits = { name };
    this.#pending.add(waits);
    try {
      await Promise.race([freed, aborted(signal)]);
    } finally {
      this.#pending.delete(waits);
    }
  }
}

function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    const abort = (): void => reject(new DOMException("the request was aborted", "AbortError"));
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}

/** The open worlds. */
let users = 0;
let restore: (() => void)[] = [];

/** Provides the missing parts, until `release`. */
export function provide(): void {
  if (users++ > 0) return;
  const scope = globalThis as { [name: string]: unknown };
  const add = (target: object, name: string, value: unknown): void => {
    if ((target as { [name: string]: unknown })[name] !== undefined) return;
    Object.defineProperty(target, name, { value, configurable: true, writable: true });
    restore.push(() => Reflect.deleteProperty(target, name));
  };
  add(scope, "IDBKeyRange", KeyRange);
  add(scope, "navigator", {});
  add(scope["navigator"] as object, "locks", new Locks());
  if (!("addEventListener" in scope)) {
    const events = new EventTarget();
    for (const name of ["addEventListener", "removeEventListener", "dispatchEvent"] as const) add(scope, name, events[name].bind(events));
  }
}

/** Ends the use of one world. */
export function release(): void {
  if (--users > 0) return;
  for (const undo of restore.reverse()) undo();
  restore = [];
}

/** The worlds whose monotonic clock is that of `Date`. */
let followers = 0;
let stopFollowing = (): void => {};

/**
 * Lets the monotonic clock move with `Date`, until the function that it returns is called. The fake timers of some runners
 * leave it alone: a session would be woken before its time, over and over.
 */
export function followDate(): () => void {
  if (followers++ === 0) {
    const own = Object.getOwnPropertyDescriptor(performance, "now");
    const start = performance.now() - Date.now();
    const now = (): number => start + Date.now();
    Object.defineProperty(performance, "now", { value: now, configurable: true, writable: true });
    stopFollowing = () => {
      // The runner may have put back its own meanwhile.
      if (performance.now !== now) return;
      if (own) Object.defineProperty(performance, "now", own);
      else Reflect.deleteProperty(performance, "now");
    };
  }
  let isOver = false;
  return () => {
    if (!isOver && --followers === 0) stopFollowing();
    isOver = true;
  };
}

/** Tells all sessions that the network is back: those that wait try again at once. */
export function tellOnline(): void {
  globalThis.dispatchEvent?.(new Event("online"));
}
