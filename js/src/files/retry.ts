/** Work that is tried until it is done, with the core's pauses (`src/sync/backoff.rs`): exponential, with full jitter. */

import { backOff, sleep, wake, type Sleepers } from "../shared.js";
import { refusalOf, toFault } from "./faults.js";
import { AT_ONCE, type Remote } from "./remote.js";
import type { States } from "./states.js";

const FIRST_MS = 100;
const LONGEST_MS = 30_000;

/** The longest pause that a server can ask for. */
const ASKED_MS = 3_600_000;

/** The pauses of a session. Those that the server did not ask for end early when the network is back. */
export interface Pauses {
  wake(): void;
  /** Waits after so many failures in a row. */
  after(error: object, failures: number): Promise<void>;
}

export function pausesOf(signal: AbortSignal): Pauses {
  const sleepers: Sleepers = new Set();
  const wakeAll = (): void => wake(sleepers);
  signal.addEventListener("abort", wakeAll);
  return {
    wake: wakeAll,
    async after(error, failures) {
      const { retryAfter } = refusalOf(error);
      // As in the core, a server can ask for a longer pause, and for no shorter one.
      const asked = Number.isFinite(retryAfter) ? Math.min((retryAfter as number) * 1_000, ASKED_MS) : 0;
      const isAsked = asked > 0;
      const until = Date.now() + Math.max(asked, Math.random() * backOff(FIRST_MS, LONGEST_MS, failures));
      do await sleep(sleepers, until - Date.now(), !isAsked);
      while (isAsked && !signal.aborted && Date.now() < until);
    },
  };
}

interface Parts {
  readonly remote: Remote;
  readonly states: States;
  readonly pauses: Pauses;
}

/**
 * Gives a function that begins work in rounds, if there is any and none is under way. A round that fails is repeated after a
 * pause, for as long as there is work. Files that cannot be worked on now wait, and so do those of a round that failed.
 */
export function retryRounds({ remote, states, pauses }: Parts, left: () => readonly string[], round: () => Promise<void>): () => void {
  let isRunning = false;
  const may = (): boolean => remote.isOpen() && left().length > 0;
  const wait = (code?: string): void => {
    for (const sha of left()) states.set(sha, { phase: code === "storage_full" ? "full" : "waiting", code });
  };
  const run = async (): Promise<void> => {
    isRunning = true;
    for (let failures = 0; may(); failures++) {
      try {
        await round();
        failures = -1;
      } catch (thrown) {
        const error = toFault(thrown);
        wait(error.code);
        await pauses.after(error, failures);
      }
    }
    isRunning = false;
  };
  return () => {
    if (!may()) wait();
    else if (!isRunning) void run();
  };
}

/** Does all of it, a few at once, until something fails. */
export async function concurrently<T>(all: Iterable<T>, step: (one: T) => Promise<unknown>): Promise<void> {
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
