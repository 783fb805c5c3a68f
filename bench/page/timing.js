// The functions that all workloads measure with.

/** Runs some work, and gives its time in milliseconds with its result. */
export async function timed(work) {
  const start = performance.now();
  const result = await work();
  return { ms: performance.now() - start, result };
}

/** Fails a workload that found something else than it must. */
export function expect(found, wanted, what) {
  if (found !== wanted) throw new Error(`${what}: ${found} in place of ${wanted}`);
}

export const median = (times) => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)];

/** Documents that a callback gives from time to time, and a way to wait until they are as wanted. */
export class Heard {
  #documents;
  #waiting = () => {};

  /** The callback. */
  take = (documents) => {
    this.#documents = documents;
    this.#waiting();
  };

  /** The milliseconds at which the documents were first as wanted. */
  when(isWanted) {
    return new Promise((resolve) => {
      this.#waiting = () => {
        if (!this.#documents || !isWanted(this.#documents)) return;
        const at = performance.now();
        this.#waiting = () => {};
        resolve(at);
      };
      this.#waiting();
    });
  }
}
