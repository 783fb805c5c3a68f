/** Waiting for the first load of lists, with an end. */

import { raise, type EscaleError } from "../base/errors.js";
import type { Status, StatusValue } from "../session/status.js";
import type { View } from "./view.js";

/** How long `whenReady` waits. */
export interface WaitOptions {
  /** Ends the waiting: the promise rejects with the signal's reason. `AbortSignal.timeout(ms)` limits its time. */
  readonly signal?: AbortSignal | undefined;
  /**
   * While the server cannot be reached: `wait` for it, which is the default, or `reject` with `not_loaded`.
   */
  readonly offline?: "wait" | "reject" | undefined;
}

/** Waits for the documents of all these views. Rejects as soon as the options say that waiting is over. */
export async function waitFor(
  views: readonly View[],
  status: Pick<Status, "subscribe">,
  { signal, offline }: WaitOptions = {},
): Promise<void> {
  signal?.throwIfAborted();
  const ends = new AbortController();
  try {
    await new Promise((resolve, reject) => {
      Promise.all(views.map((view) => view.whenReady())).then(resolve, reject);
      signal?.addEventListener("abort", () => reject(signal.reason as Error), ends);
      const stop = status.subscribe(({ phase, error }) => {
        const isFutile = offline === "reject" && (phase === "offline" || phase === "paused") && !views.every((view) => view.isLoaded());
        if (isFutile) reject(notLoaded(phase, error));
      });
      ends.signal.onabort = stop;
    });
  } finally {
    ends.abort();
  }
}

/** Why a collection that was never loaded will not be loaded for now. */
export function notLoaded(phase: StatusValue["phase"], cause?: EscaleError | null): EscaleError {
  return raise("not_loaded", `never loaded, and the session is ${phase}`, cause ?? undefined);
}
