//! The sorted map, as a list of lists of entries.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::iter::Flatten;
use std::ops::{Bound, Index, RangeBounds};

/// The maximum length of a list. Twice as long would move twice as much for each insertion, half as long
/// would make more lists.
const LIST_MAX: usize = 128;

/// The position of an entry: its list, and its index in that list. The end is the number of lists, and 0.
type At = (usize, usize);

/// A map in ascending order of its keys.
#[derive(Clone)]
pub struct SortedMap<K, V> {
    lists: Vec<Vec<(K, V)>>,
    len: usize,
}

impl<K, V> SortedMap<K, V> {
    /// An empty map. It allocates nothing.
    pub const fn new() -> Self {
        SortedMap { lists: Vec::new(), len: 0 }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// The entries, ascending.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter { lists: &self.lists, front: (0, 0), back: (self.lists.len(), 0) }
    }

    /// The entries, ascending, with mutable values.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&K, &mut V)> {
        self.lists.iter_mut().flatten().map(|(key, value)| (&*key, value))
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
        self.lists.iter_mut().flatten().map(|(_, value)| value)
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
        (self.len > 0).then(|| self.take((0, 0)))
    }

    /// Removes the entry of the highest key.
    pub fn pop_last(&mut self) -> Option<(K, V)> {
        let list = self.lists.len().checked_sub(1)?;
        Some(self.take((list, self.lists[list].len() - 1)))
    }

    /// Keeps the entries for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        for list in &mut self.lists {
            list.retain_mut(|(key, value)| keep(key, value));
        }
        self.lists.retain(|list| !list.is_empty());
        self.len = self.lists.iter().map(Vec::len).sum();
    }

    fn take(&mut self, (list, place): At) -> (K, V) {
        self.len -= 1;
        let entry = self.lists[list].remove(place);
        if self.lists[list].is_empty() {
            self.lists.remove(list);
        }
        entry
    }

    fn put(&mut self, (mut list, mut place): At, entry: (K, V)) -> At {
        self.len += 1;
        if list == self.lists.len() {
            // After all others: it goes into the last list while there is room, so that ascending keys fill
            // their lists.
            match self.lists.last() {
                Some(last) if last.len() < LIST_MAX => (list, place) = (list - 1, last.len()),
                _ => self.lists.insert(list, Vec::new()),
            }
        }
        let own = &mut self.lists[list];
        own.insert(place, entry);
        if own.len() > LIST_MAX {
            let upper = own.split_off(LIST_MAX / 2);
            self.lists.insert(list + 1, upper);
            if place >= LIST_MAX / 2 {
                (list, place) = (list + 1, place - LIST_MAX / 2);
            }
        }
        (list, place)
    }
}

/// The first number below `len` for which `is_below` is false. It is no generic function, so the search is
/// compiled only once.
fn first_not(len: usize, is_below: &dyn Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if is_below(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The position of a key in that many lists, or else of the first key above it. `len` is the length of a list, and
/// `order` compares the key at a position with this one. It is no generic function, either.
fn search(lists: usize, len: &dyn Fn(usize) -> usize, order: &dyn Fn(At) -> Ordering) -> Result<At, At> {
    let list = first_not(lists, &|list| order((list, len(list) - 1)) == Ordering::Less);
    if list == lists {
        return Err((list, 0));
    }
    let at = (list, first_not(len(list), &|place| order((list, place)) == Ordering::Less));
    if order(at) == Ordering::Equal { Ok(at) } else { Err(at) }
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
        let lists = &self.lists;
        let order = |(list, place): At| lists[list][place].0.borrow().cmp(key);
        search(lists.len(), &|list| lists[list].len(), &order)
    }

    /// Inserts a value, and returns the one that it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.find(&key) {
            Ok((list, place)) => Some(std::mem::replace(&mut self.lists[list][place].1, value)),
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
        Some(self.take(at).1)
    }

    /// The value of a key.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let (list, place) = self.find(key).ok()?;
        Some(&self.lists[list][place].1)
    }

    /// The value of a key, mutable.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let (list, place) = self.find(key).ok()?;
        Some(&mut self.lists[list][place].1)
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
        let after = |key: &Q| self.find(key).map_or_else(|at| at, |at| self.next(at));
        let front = match range.start_bound() {
            Bound::Included(key) => self.at(key),
            Bound::Excluded(key) => after(key),
            Bound::Unbounded => (0, 0),
        };
        let back = match range.end_bound() {
            Bound::Included(key) => after(key),
            Bound::Excluded(key) => self.at(key),
            Bound::Unbounded => (self.lists.len(), 0),
        };
        Iter { lists: &self.lists, front, back: back.max(front) }
    }

    fn next(&self, (list, place): At) -> At {
        if place + 1 < self.lists[list].len() { (list, place + 1) } else { (list + 1, 0) }
    }

    /// Removes the entries from that key on, and returns them.
    pub fn split_off<Q: Ord + ?Sized>(&mut self, key: &Q) -> Self
    where
        K: Borrow<Q>,
    {
        let (list, place) = self.at(key);
        let mut upper = self.lists.split_off(list);
        if let Some(first) = upper.first_mut().filter(|_| place > 0) {
            let from = first.split_off(place);
            self.lists.push(std::mem::replace(first, from));
        }
        let mut upper = SortedMap { lists: upper, len: 0 };
        upper.len = upper.lists.iter().map(Vec::len).sum();
        self.len -= upper.len;
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
        let (list, place) = match self.map.find(&self.key) {
            Ok(at) => at,
            Err(at) => self.map.put(at, (self.key, make())),
        };
        &mut self.map.lists[list][place].1
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
    lists: &'m [Vec<(K, V)>],
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
        let (list, place) = self.front;
        let lists = self.lists;
        self.front = if place + 1 < lists[list].len() { (list, place + 1) } else { (list + 1, 0) };
        let (key, value) = &lists[list][place];
        Some((key, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let between = |lists: &[Vec<(K, V)>]| lists.iter().map(Vec::len).sum::<usize>();
        let left = between(&self.lists[self.front.0..self.back.0]) + self.back.1 - self.front.1;
        (left, Some(left))
    }
}

impl<K, V> DoubleEndedIterator for Iter<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.front == self.back {
            return None;
        }
        let (list, place) = self.back;
        let lists = self.lists;
        self.back = if place > 0 { (list, place - 1) } else { (list - 1, lists[list - 1].len() - 1) };
        let (key, value) = &lists[self.back.0][self.back.1];
        Some((key, value))
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
    type IntoIter = Flatten<std::vec::IntoIter<Vec<(K, V)>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.lists.into_iter().flatten()
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
        self.len == other.len && self.iter().eq(other.iter())
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
