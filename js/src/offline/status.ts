/** The state of the application's own files on the device, for pages that show it. */

import { callSafely } from "../base/report.js";
import type { EscaleError } from "../index.js";

/** The state of the application's files. */
export interface OfflineState {
  /** Whether the browser can keep them: it has service workers, and the page is served over https or from localhost. */
  readonly supported: boolean;
  /** Whether a whole version is kept: the application opens with no network. */
  readonly ready: boolean;
  /** Whether a newer version is kept than the one of this page. A reload opens it. */
  readonly update: boolean;
  /** Why the newest version could not be kept. An earlier one stays whole. */
  readonly error: EscaleError | null;
}

/** The state now, and its changes. */
export class OfflineStatus {
  #value: OfflineState;
  readonly #listeners = new Set<(state: OfflineState) => void>();

  /** @internal */
  constructor(supported: boolean) {
    this.#value = { supported, ready: false, update: false, error: null };
  }

  /** The state now: the same object until it changes. */
  get value(): OfflineState {
    return this.#value;
  }

  /** Calls back at once, and at every change. Returns a function that ends this. */
  subscribe(callback: (state: OfflineState) => void): () => void {
    const listener = (state: OfflineState): void => callSafely(callback, state);
    this.#listeners.add(listener);
    listener(this.#value);
    return () => void this.#listeners.delete(listener);
  }

  /** @internal */
  set(change: Partial<OfflineState>): void {
    const isNew = (Object.keys(change) as (keyof OfflineState)[]).some((name) => change[name] !== this.#value[name]);
    if (!isNew) return;
    this.#value = { ...this.#value, ...change };
    for (const listener of [...this.#listeners]) listener(this.#value);
  }
}
