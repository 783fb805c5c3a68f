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

/** So many changes cost less one by one than a pass over the whole list. */
const FEW = 32;

/** An ascending list without some of its items and with others, which ascend too. */
export function patch<T>(held: readonly T[], removed: readonly T[], added: readonly T[], compare: Compare<T>): T[] {
  const left = new Set(removed);
  if (removed.length + added.length > FEW) {
    const kept = left.size > 0 ? held.filter((item) => !left.has(item)) : held;
    return merge(kept, added, compare);
  }
  const patched = [...held];
  for (const item of added) {
    const at = placeOf(patched, item, compare);
    // Most often an item takes the place of its last version.
    patched.splice(at, left.delete(patched[at] as T) ? 1 : 0, item);
  }
  for (const item of left) patched.splice(patched.indexOf(item, placeOf(patched, item, compare)), 1);
  return patched;
}

/** The place of the first item that does not come before this one. */
function placeOf<T>(items: readonly T[], item: T, compare: Compare<T>): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compare(items[middle] as T, item) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Merges two ascending lists. Only the changed documents need sorting, so a change among many costs one pass. */
function merge<T>(held: readonly T[], added: readonly T[], compare: Compare<T>): T[] {
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
