// Random choices that a seed repeats, in a page and in a test.

/** Numbers below `end`, from a seed (mulberry32). */
export function randomFrom(seed) {
  let state = seed;
  return (end) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % end;
  };
}
