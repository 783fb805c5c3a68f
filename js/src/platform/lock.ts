/** Web Locks, which all tabs of an origin share. */

/** Runs it with a lock, which is null if it is not available. Where browsers have no locks, at once. */
export const locked = async <T>(name: string, options: LockOptions, run: (lock: unknown) => T | Promise<T>): Promise<T> => {
  const { navigator } = globalThis as { navigator?: { locks?: LockManager } };
  return navigator?.locks ? navigator.locks.request(name, options, run) : run(true);
};
