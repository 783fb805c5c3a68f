//! The sorted map: entries in slots, and the sequence of these slots.

use std::borrow::Borrow;
use std::fmt;
use std::ops::{Bound, Index, RangeBounds};

use super::sequence::{At, Sequence};

/// A map in ascending order of its keys.
#[derive(Clone)]
pub struct SortedMap<K, V> {
    order: Sequence,
    /// The entries by their slots.
    entries: Vec<Option<(K, V)>>,
}

impl<K, V> SortedMap<K, V> {
    /// An empty map. It allocates nothing.
    pub const fn new() -> Self {
        SortedMap { order: Sequence::new(), entries: Vec::new() }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// The entries, ascending.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter { map: self, front: (0, 0), back: self.order.end() }
    }

    /// The entries, ascending, with mutable values.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut V)> {
        let mut entries: Vec<_> = self.entries.iter_mut().map(Option::as_mut).collect();
        let in_order = self.order.slots().into_iter().filter_map(move |slot| entries[slot as usize].take());
        in_order.map(|(key, value)| (&*key, value))
    }

    /// The keys, ascending.
    pub fn keys(&self) -> Of<'_, K, V, K> {
        self.iter().map(|(key, _)| key)
    }

    /// The values, in the order of their keys.
    pub fn values(&self) -> Of<'_, K, V, V> {
        self.iter().map(|(_, value)| value)
    }

    /// The values, in the order of their keys, mutable.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.iter_mut().map(|(_, value)| value)
    }

    /// The keys, ascending.
    pub fn into_keys(self) -> impl DoubleEndedIterator<Item = K> {
        self.into_iter().map(|(key, _)| key)
    }

    /// The values, in the order of their keys.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = V> {
        self.into_iter().map(|(_, value)| value)
    }

    /// The entry of the lowest key.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next()
    }

    /// The entry of the highest key.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.iter().next_back()
    }

    /// Removes the entry of the lowest key.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        if self.is_empty() { None } else { self.take((0, 0)) }
    }

    /// Removes the entry of the highest key.
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        if self.is_empty() { None } else { self.take(self.order.before(self.order.end())) }
    }

    /// Keeps the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.order.retain(&mut |slot| {
            let entry = &mut self.entries[slot];
            let is_kept = entry.as_mut().is_some_and(|(key, value)| keep(key, value));
            if !is_kept {
                *entry = None;
            }
            is_kept
        });
    }

    fn entry_at(&self, at: At) -> Option<&(K, V)> {
        self.entries[self.order.slot(at)].as_ref()
    }

    fn take(&mut self, at: At) -> Option<(K, V)> {
        let slot = self.order.remove(at);
        self.entries[slot].take()
    }

    /// Inserts an entry at that position, and returns its slot.
    fn put(&mut self, at: At, entry: (K, V)) -> usize {
        let slot = self.order.insert(at);
        if slot == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[slot] = Some(entry);
        slot
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    /// The position of the first key that is not below `key`.
    fn at<Q: Ord + ?Sized>(&self, key: &Q) -> At
    where
        K: Borrow<Q>,
    {
        self.find(key).unwrap_or_else(|at| at)
    }

    fn find<Q: Ord + ?Sized>(&self, key: &Q) -> Result<At, At>
    where
        K: Borrow<Q>,
    {
        self.order.find(&|slot| match &self.entries[slot] {
            Some((own, _)) => own.borrow().cmp(key),
            None => unreachable!("a slot of the sequence has an entry"),
        })
    }

    fn value_at(&mut self, at: At) -> Option<&mut V> {
        self.entries[self.order.slot(at)].as_mut().map(|(_, value)| value)
    }

    /// Inserts a value, and returns the one that it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(at) => self.value_at(at).map(|own| std::mem::replace(own, value)),
            Err(at) => {
                self.put(at, (key, value));
                None
            }
        }
    }

    /// Removes a value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key).ok()?;
        self.take(at).map(|(_, value)| value)
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key).ok()?;
        self.entry_at(at).map(|(_, value)| value)
    }

    /// The value of a key, mutable.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key).ok()?;
        self.value_at(at)
    }

    /// Whether the map has the key.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.find(key).is_ok()
    }

    /// The key's entry, present or not.
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        Entry { map: self, key }
    }

    /// The entries whose keys are in that range, ascending.
    pub fn range<Q: Ord + ?Sized>(&self, range: impl RangeBounds<Q>) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let after = |key: &Q| self.find(key).map_or_else(|at| at, |at| self.order.after(at));
        let front = match range.start_bound() {
            Bound::Included(key) => self.at(key),
            Bound::Excluded(key) => after(key),
            Bound::Unbounded => (0, 0),
        };
        let back = match range.end_bound() {
            Bound::Included(key) => after(key),
            Bound::Excluded(key) => self.at(key),
            Bound::Unbounded => self.order.end(),
        };
        Iter { map: self, front, back: back.max(front) }
    }

    /// Removes the entries from that key on, and returns them.
    pub fn split_off<Q: Ord + ?Sized>(&mut self, key: &Q) -> Self
    where
        K: Borrow<Q>,
    {
        let mut upper = Self::new();
        for slot in self.order.split_off(self.at(key)) {
            if let Some(entry) = self.entries[slot as usize].take() {
                upper.put(upper.order.end(), entry);
            }
        }
        upper
    }
}

/// The entry of a key in a [`SortedMap`].
pub struct Entry<'m, K, V> {
    map: &'m mut SortedMap<K, V>,
    key: K,
}

impl<'m, K: Ord, V> Entry<'m, K, V> {
    /// Its value; inserts that of `make` if there is none.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'m mut V {
        let slot = match self.map.find(&self.key) {
            Ok(at) => self.map.order.slot(at),
            Err(at) => self.map.put(at, (self.key, make())),
        };
        let entry = self.map.entries[slot].as_mut();
        entry.map(|(_, value)| value).expect("a slot of the sequence has an entry")
    }

    /// Its value; inserts this one if there is none.
    pub fn or_insert(self, value: V) -> &'m mut V {
        self.or_insert_with(|| value)
    }

    /// Its value; inserts the type's default if there is none.
    pub fn or_default(self) -> &'m mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

/// The keys or the values of entries.
pub type Of<'m, K, V, T> = std::iter::Map<Iter<'m, K, V>, fn((&'m K, &'m V)) -> &'m T>;

/// Entries of a [`SortedMap`], ascending.
pub struct Iter<'m, K, V> {
    map: &'m SortedMap<K, V>,
    front: At,
    back: At,
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter { ..*self }
    }
}

impl<'m, K, V> Iterator for Iter<'m, K, V> {
    type Item = (&'m K, &'m V);

    fn next(&mut self) -> Option<Self::Item> {
        if self.front == self.back {
            return None;
        }
        let entry = self.map.entry_at(self.front);
        self.front = self.map.order.after(self.front);
        entry.map(|(key, value)| (key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.map.order.between(self.front, self.back);
        (left, Some(left))
    }
}

impl<K, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front == self.back {
            return None;
        }
        self.back = self.map.order.before(self.back);
        let entry = self.map.entry_at(self.back);
        entry.map(|(key, value)| (key, value))
    }
}

impl<K, V> ExactSizeIterator for Iter<'_, K, V> {}

impl<'m, K, V> IntoIterator for &'m SortedMap<K, V> {
    type Item = (&'m K, &'m V);
    type IntoIter = Iter<'m, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<K, V> IntoIterator for SortedMap<K, V> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> Self::IntoIter {
        IntoIter { slots: self.order.slots().into_iter(), entries: self.entries }
    }
}

/// Entries of a [`SortedMap`], owned, ascending.
pub struct IntoIter<K, V> {
    slots: std::vec::IntoIter<u32>,
    entries: Vec<Option<(K, V)>>,
}

impl<K, V> Iterator for IntoIter<K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        let slot = self.slots.next()?;
        self.entries[slot as usize].take()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

impl<K, V> DoubleEndedIterator for IntoIter<K, V> {
    fn next_back(&mut self) -> Option<(K, V)> {
        let slot = self.slots.next_back()?;
        self.entries[slot as usize].take()
    }
}

impl<K: Ord, V> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::new();
        map.extend(entries);
        map
    }
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: PartialEq, V: PartialEq> PartialEq for SortedMap<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq> Eq for SortedMap<K, V> {}

impl<K: Ord + Borrow<Q>, Q: Ord + ?Sized, V> Index<&Q> for SortedMap<K, V> {
    type Output = V;

    fn index(&self, key: &Q) -> &V {
        self.get(key).expect("no entry of that key")
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SortedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
