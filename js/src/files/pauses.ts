/** Work that is tried until it is done, with the core's pauses (`src/sync/backoff.rs`): exponential, with full jitter. */

import { refusalOf, toFault } from "./faults.js";

const FIRST_MS = 100;
const LONGEST_MS = 30_000;

/** The longest pause that a server can ask for. */
const ASKED_MS = 3_600_000;

/** The transfers at once, and the steps of other work. */
export const AT_ONCE = 3;

/** The pauses of a session. Those that the server did not ask for end early when the network is back. */
export class Pauses {
  readonly #sleepers = new Set<() => void>();
  isEnded = false;

  constructor() {
    globalThis.addEventListener?.("online", this.wake);
  }

  readonly wake = (): void => {
    for (const end of [...this.#sleepers]) end();
  };

  /** Waits after so many failures in a row. */
  async after(error: object, failures: number): Promise<void> {
    const { retryAfter } = refusalOf(error);
    const isAsked = typeof retryAfter === "number";
    const ms = isAsked ? Math.min(retryAfter * 1_000, ASKED_MS) : Math.random() * Math.min(FIRST_MS * 2 ** failures, LONGEST_MS);
    const until = Date.now() + ms;
    do {
      await new Promise<void>((resolve) => {
        const end = (): void => {
          clearTimeout(timer);
          this.#sleepers.delete(end);
          resolve();
        };
        const timer = setTimeout(end, until - Date.now());
        this.#sleepers.add(end);
      });
    } while (isAsked && !this.isEnded && Date.now() < until);
  }

  end(): void {
    this.isEnded = true;
    globalThis.removeEventListener?.("online", this.wake);
    this.wake();
  }
}

/**
 * Gives a function that begins work in rounds, if there is any and none is under way. A round that fails is repeated after a
 * pause, for as long as there is work.
 */
export function rounds(pauses: Pauses, may: () => boolean, round: () => Promise<void>, failed: (code: string) => void): () => void {
  let isRunning = false;
  const run = async (): Promise<void> => {
    isRunning = true;
    for (let failures = 0; may(); failures++) {
      try {
        await round();
        failures = -1;
      } catch (thrown) {
        const error = toFault(thrown);
        failed(error.code);
        await pauses.after(error, failures);
      }
    }
    isRunning = false;
  };
  return () => void (isRunning || run());
}

/** Does all of it, a few at once, until something fails. */
export async function inTurn<T>(all: Iterable<T>, step: (one: T) => Promise<void>): Promise<void> {
  const left = [...all].reverse();
  const work = async (): Promise<void> => {
    try {
      while (left.length > 0) await step(left.pop() as T);
    } finally {
      left.length = 0;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}
