/** Documents ascend by their key properties, as strings compare in JavaScript (UTF-16 code units). */
export type Compare<T> = (a: T, b: T) => number;

/** How the documents of a class compare. */
export function byKey(key: readonly string[]): Compare<object> {
  return (a, b) => {
    for (const name of key) {
      const left = (a as Record<string, string>)[name] as string;
      const right = (b as Record<string, string>)[name] as string;
      if (left < right) return -1;
      if (left > right) return 1;
    }
    return 0;
  };
}

/** Two ascending lists as one: what changed is sorted alone, so that a change among many costs one pass. */
export function merge<T>(held: readonly T[], added: readonly T[], compare: Compare<T>): T[] {
  const merged: T[] = [];
  let next = 0;
  for (const item of held) {
    let candidate = added[next];
    while (candidate !== undefined && compare(candidate, item) < 0) {
      merged.push(candidate);
      candidate = added[++next];
    }
    merged.push(item);
  }
  for (; next < added.length; next++) merged.push(added[next] as T);
  return merged;
}
