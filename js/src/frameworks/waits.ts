/** Waiting for stores that components cannot hold yet: a component that suspends has no place to keep anything. */

import type { EscaleError } from "../base/errors.js";
import { isFutile } from "../views/futile.js";
import type { Store } from "./stores.js";

/** A component whose wait is over takes over the subscription within this time. */
const GRACE_MS = 5_000;
/** A component that left while it waited leaves its subscription this much later. */
const LONGEST_MS = 60_000;

interface Result {
  readonly ready: boolean;
  readonly error: EscaleError | undefined;
}
interface Wait {
  store: Store<Result>;
  promise?: Promise<void> | undefined;
}

const waits = new WeakMap<object, Map<string, Wait>>();

/** The store of that key of a session, while a component waits for it, or has just waited. */
export function waitedStore(session: object, key: string): Store<Result> | undefined {
  return waits.get(session)?.get(key)?.store;
}

/** Whether there is nothing to wait for. */
export function isOver({ ready, error }: Result): boolean {
  return ready || (error !== undefined && isFutile(error));
}

/** Resolves once the store is ready, or has an error that does not end by itself. Until then, and a while longer, its subscription is held. */
export function waitFor(session: object, key: string, store: Store<Result>): Promise<void> {
  const ofSession = waits.get(session) ?? new Map<string, Wait>();
  waits.set(session, ofSession);
  const known = ofSession.get(key)?.promise;
  if (known) return known;
  const wait: Wait = { store };
  ofSession.set(key, wait);
  wait.promise = new Promise((resolve) => {
    let hasEnded = false;
    const end = (): void => {
      if (!hasEnded && isOver(store.get())) over();
    };
    const over = (): void => {
      hasEnded = true;
      clearTimeout(limit);
      // A component that still has to wait begins another wait.
      wait.promise = undefined;
      resolve();
      setTimeout(() => {
        stop();
        if (ofSession.get(key) === wait) ofSession.delete(key);
      }, GRACE_MS);
    };
    const limit = setTimeout(over, LONGEST_MS);
    const stop = store.subscribe(end);
    end();
  });
  return wait.promise;
}
