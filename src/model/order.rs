//! Sorting by one shared routine. The standard one is compiled again for each type that it sorts: twenty
//! times over, it was one tenth of the wasm. This one is compiled once, and each type adds only its
//! comparison.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::SortedSet;

/// Sorts a list in ascending order; equal items keep their order.
pub fn sort<T: Ord>(items: &mut Vec<T>) {
    sort_by(items, T::cmp);
}

/// The same, by a key.
pub fn sort_by_key<T, K: Ord>(items: &mut Vec<T>, key: impl Fn(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// The same, by a comparison.
pub fn sort_by<T>(items: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
    let is_after = |a: u32, b: u32| compare(&items[a as usize], &items[b as usize]) == Ordering::Greater;
    let Some(order) = order_of(items.len() as u32, &is_after) else { return };
    let mut old: Vec<Option<T>> = std::mem::take(items).into_iter().map(Some).collect();
    items.extend(order.into_iter().filter_map(|place| old[place as usize].take()));
}

/// A set of the items.
pub fn set_of<T: Ord>(items: impl IntoIterator<Item = T>) -> SortedSet<T> {
    items.into_iter().collect()
}

/// Builds a document's map entry by entry. Built at once, the standard routine would sort it first.
pub fn map_of<K: Ord, V>(items: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(items);
    map
}

/// The sorted order, as the item of each position, by merging ever longer runs; `None` if the list is sorted
/// already.
fn order_of(len: u32, is_after: &dyn Fn(u32, u32) -> bool) -> Option<Vec<u32>> {
    if (1..len).all(|place| !is_after(place - 1, place)) {
        return None;
    }
    let len = len as usize;
    let mut order: Vec<u32> = (0..len as u32).collect();
    let mut merged = Vec::with_capacity(len);
    let mut width = 1;
    while width < len {
        for start in (0..len).step_by(2 * width) {
            let (middle, end) = ((start + width).min(len), (start + 2 * width).min(len));
            let (mut left, mut right) = (start, middle);
            while left < middle || right < end {
                let is_right = left == middle || (right < end && is_after(order[left], order[right]));
                let from = if is_right { &mut right } else { &mut left };
                merged.push(order[*from]);
                *from += 1;
            }
        }
        std::mem::swap(&mut order, &mut merged);
        merged.clear();
        width *= 2;
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sorts_as_the_standard_one_does_and_keeps_what_is_equal_in_place() {
        let mut state: u64 = 1;
        for len in (0..70).chain([1_000, 1_023, 1_025]) {
            let mut items: Vec<(u64, usize)> = (0..len)
                .map(|place| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    ((state >> 40) % (len as u64 / 2 + 1), place)
                })
                .collect();
            let mut wanted = items.clone();
            wanted.sort_by_key(|item| item.0);
            sort_by_key(&mut items, |item| item.0);
            assert_eq!(items, wanted);
            items.reverse();
            sort(&mut items);
            wanted.sort_unstable();
            assert_eq!(items, wanted);
        }
    }
}
