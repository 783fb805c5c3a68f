/** Pauses between attempts, as the core has them (`src/sync/backoff.rs`): exponential, with full jitter. */

import { refusalOf } from "./faults.js";

const FIRST_MS = 100;
const LONGEST_MS = 30_000;

/** The longest pause that a server can ask for. */
const ASKED_MS = 3_600_000;

/** Ends the pauses of a session early: the network is back, or the session is over. */
export class Waker {
  readonly #sleepers = new Set<() => void>();
  readonly #wake = (): void => this.wake();
  isEnded = false;

  constructor() {
    globalThis.addEventListener?.("online", this.#wake);
  }

  /** Ends those pauses that nothing but time must end otherwise. */
  wake(): void {
    for (const end of [...this.#sleepers]) end();
  }

  /** Waits. Nothing but the end shortens a pause that the server asked for. */
  async sleep(ms: number, isFixed = false): Promise<void> {
    const until = Date.now() + ms;
    for (let left = ms; left > 0 && !this.isEnded; left = isFixed ? until - Date.now() : 0) {
      await new Promise<void>((resolve) => {
        const end = (): void => {
          clearTimeout(timer);
          this.#sleepers.delete(end);
          resolve();
        };
        const timer = setTimeout(end, left);
        this.#sleepers.add(end);
      });
    }
  }

  end(): void {
    this.isEnded = true;
    globalThis.removeEventListener?.("online", this.#wake);
    this.wake();
  }
}

/** The failures in a row of one piece of work. */
export class Pauses {
  readonly #waker: Waker;
  #failures = 0;

  constructor(waker: Waker) {
    this.#waker = waker;
  }

  /** Waits after a failure. */
  async after(error: object): Promise<void> {
    const { retryAfter } = refusalOf(error);
    const bound = Math.min(FIRST_MS * 2 ** this.#failures++, LONGEST_MS);
    if (typeof retryAfter === "number") await this.#waker.sleep(Math.min(retryAfter * 1_000, ASKED_MS), true);
    else await this.#waker.sleep(Math.random() * bound);
  }

  /** An attempt succeeded. */
  reset(): void {
    this.#failures = 0;
  }
}
