//! The sorted set: a map without values.

use std::borrow::Borrow;
use std::fmt;
use std::ops::RangeBounds;

use super::map::SortedMap;

/// A set in ascending order.
#[derive(Clone, PartialEq, Eq)]
pub struct SortedSet<T>(SortedMap<T, ()>);

impl<T> SortedSet<T> {
    /// An empty set. It allocates nothing.
    pub const fn new() -> Self {
        SortedSet(SortedMap::new())
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The items, ascending.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self.0.iter())
    }

    /// The lowest item.
    pub fn first(&self) -> Option<&T> {
        self.iter().next()
    }

    /// The highest item.
    pub fn last(&self) -> Option<&T> {
        self.iter().next_back()
    }

    /// Removes the lowest item.
    pub fn pop_first(&mut self) -> Option<T> {
        self.0.pop_first().map(|(item, ())| item)
    }

    /// Removes the highest item.
    pub fn pop_last(&mut self) -> Option<T> {
        self.0.pop_last().map(|(item, ())| item)
    }

    /// Keeps the items for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|item, ()| keep(item));
    }
}

impl<T: Ord> SortedSet<T> {
    /// Inserts an item, and returns whether it is new.
    pub fn insert(&mut self, item: T) -> bool {
        self.0.insert(item, ()).is_none()
    }

    /// Removes an item, and returns whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.remove(item).is_some()
    }

    /// Whether the set has the item.
    pub fn contains<Q: Ord + ?Sized>(&self, item: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.contains_key(item)
    }

    /// The items in that range, ascending.
    pub fn range<Q: Ord + ?Sized>(&self, range: impl RangeBounds<Q>) -> Iter<'_, T>
    where
        T: Borrow<Q>,
    {
        Iter(self.0.range(range))
    }

    /// Removes the items from this one on, and returns them.
    pub fn split_off<Q: Ord + ?Sized>(&mut self, item: &Q) -> Self
    where
        T: Borrow<Q>,
    {
        SortedSet(self.0.split_off(item))
    }
}

/// Items of a [`SortedSet`], ascending.
pub struct Iter<'s, T>(super::map::Iter<'s, T, ()>);

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Iter(self.0.clone())
    }
}

impl<'s, T> Iterator for Iter<'s, T> {
    type Item = &'s T;

    fn next(&mut self) -> Option<&'s T> {
        self.0.next().map(|(item, ())| item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|(item, ())| item)
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

impl<'s, T> IntoIterator for &'s SortedSet<T> {
    type Item = &'s T;
    type IntoIter = Iter<'s, T>;

    fn into_iter(self) -> Iter<'s, T> {
        self.iter()
    }
}

/// Items of a [`SortedSet`], owned, ascending.
pub struct IntoIter<T>(<SortedMap<T, ()> as IntoIterator>::IntoIter);

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.next().map(|(item, ())| item)
    }
}

impl<T> DoubleEndedIterator for IntoIter<T> {
    fn next_back(&mut self) -> Option<T> {
        self.0.next_back().map(|(item, ())| item)
    }
}

impl<T> IntoIterator for SortedSet<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self.0.into_iter())
    }
}

impl<T: Ord> Extend<T> for SortedSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        for item in items {
            self.insert(item);
        }
    }
}

impl<'s, T: Ord + Copy> Extend<&'s T> for SortedSet<T> {
    fn extend<I: IntoIterator<Item = &'s T>>(&mut self, items: I) {
        self.extend(items.into_iter().copied());
    }
}

impl<T: Ord> FromIterator<T> for SortedSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut set = Self::new();
        set.extend(items);
        set
    }
}

impl<T> Default for SortedSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for SortedSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
