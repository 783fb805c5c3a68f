// Generators that a storage may answer at once or later. The engine is written once: it yields the answers of a
// storage, each a value or a promise. With a storage in memory nothing waits, and a call returns its result; with another one it returns a
// promise.

export const isPromise = (value) => typeof value?.then === "function";

/** Runs a generator to its end. Returns its result, or a promise of it if anything was a promise on the way. */
export function run(generator) {
  const go = (method, value) => {
    for (let step = generator[method](value); ; step = generator.next(step.value)) {
      if (step.done) return step.value;
      if (isPromise(step.value)) return step.value.then((got) => go("next", got), (error) => go("throw", error));
    }
  };
  return go("next");
}

/** Thrown by {@link runNow}: the call has to be made again once the promise is kept. */
export class Waiting extends Error {
  constructor(promise) {
    super("a storage answers later: the operation runs again then");
    this.promise = promise;
  }
}

/** Runs a generator that must not wait: it throws {@link Waiting} at the first promise. */
export function runNow(generator) {
  for (let step = generator.next(); ; step = generator.next(step.value)) {
    if (step.done) return step.value;
    if (isPromise(step.value)) throw new Waiting(step.value);
  }
}
