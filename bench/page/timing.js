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
