/** Pauses between attempts, and the time that a call has. */

/** The result of a call. One that does not settle in this time fails: browsers and adapters exist that never answer. */
export const inTime = <T>(call: PromiseLike<T>, ms: number): Promise<T> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new DOMException("no answer", "TimeoutError")), ms);
    void Promise.resolve(call).then(resolve, reject).finally(() => clearTimeout(timer));
  });

/** Those who sleep: each function ends one sleep. */
export type Sleepers = Set<() => void>;

/** Sleeps so long, or until it is woken; with `isTillOnline`, no longer than until the network is back. */
export const sleep = (sleepers: Sleepers, ms: number, isTillOnline = false): Promise<void> =>
  new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      globalThis.removeEventListener?.("online", end);
      sleepers.delete(end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    sleepers.add(end);
    if (isTillOnline) globalThis.addEventListener?.("online", end);
  });

/** Wakes all of them. */
export const wake = (sleepers: Sleepers): void => {
  for (const end of [...sleepers]) end();
};

/** The pause after so many failures in a row: each is twice the one before, up to the longest. */
export const backOff = (firstMs: number, longestMs: number, failures: number): number => Math.min(firstMs * 2 ** failures, longestMs);
