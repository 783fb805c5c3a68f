/** Errors of the application's callbacks. */

/** Reports an error that has no caller to throw to, such as one thrown by a callback of the application. */
export function report(error: unknown): void {
  // Browsers and workers have it, and their error monitors listen to it; Node has not.
  if (typeof globalThis.reportError === "function") globalThis.reportError(error);
  // eslint-disable-next-line no-console -- the last resort, so that nothing is swallowed
  else console.error(error);
}

/** Calls a callback of the application. An error that it throws is reported and goes no further. */
export function callSafely<A extends unknown[]>(callback: (...args: A) => unknown, ...args: A): void {
  try {
    const result = callback(...args);
    // An async callback fails later: its rejection is reported as well.
    if (result instanceof Promise) result.catch(report);
  } catch (error) {
    report(error);
  }
}
