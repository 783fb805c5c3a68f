/** The order of documents: by their keys. */

/** Compares two documents. They ascend by their key properties, as JavaScript compares strings (UTF-16 code units). */
export type Compare<T> = (a: T, b: T) => number;

/** The comparison for a class with these key properties. */
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

/** Merges two ascending lists. Only the changed documents need sorting, so a change among many costs one pass. */
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
