//! An index in memory: the documents of one class in the order of a value that each of them has (R30, R31).

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::column::Column;
use super::span::Span;
use crate::model::{Pk, SortedSet, Value};

/// A document of an index: its value, its pk, and the id of its version.
pub type Entry = (SmolStr, Pk, u32);

/// A position between documents: behind the one with this value and pk.
pub type Cursor = (SmolStr, Pk);

/// An index of the documents of one class. Entries of versions that are gone stay until a sweep.
pub struct Index {
    column: Column,
    entries: SortedSet<Entry>,
    /// Roughly the number of entries that are gone. Since the last sweep, answers met some, and new versions replaced
    /// others.
    stale: usize,
    /// The monotonic time of the last query that used it, in milliseconds.
    pub used_ms: u64,
}

/// Below this number of stale entries no sweep is worth its time.
const STALE_MIN: usize = 64;

impl Index {
    /// An empty index.
    pub fn new(column: Column) -> Self {
        Index { column, entries: SortedSet::new(), stale: 0, used_ms: 0 }
    }

    /// The properties that it reads.
    pub fn column(&self) -> &Column {
        &self.column
    }

    /// Enters a version of a document.
    pub fn add(&mut self, properties: &BTreeMap<String, Value>, pk: &Pk, id: u32) {
        for value in self.column.values(properties) {
            self.entries.insert((value, pk.clone(), id));
        }
    }

    /// The entries of a span, ascending by value and pk, on one side of a cursor: after it, or before it.
    pub fn range<'i>(
        &'i self,
        span: &Span,
        after: Option<&Cursor>,
        before: Option<&Cursor>,
    ) -> impl DoubleEndedIterator<Item = &'i Entry> + use<'i> {
        let lowest = |value: &SmolStr| (value.clone(), Pk::lowest(), 0);
        let mut from = lowest(&span.from);
        if let Some((value, pk)) = after {
            from = from.max((value.clone(), pk.clone(), u32::MAX));
        }
        let mut until = span.until.as_ref().map(lowest);
        if let Some((value, pk)) = before {
            let at = (value.clone(), pk.clone(), 0);
            until = Some(until.map_or(at.clone(), |until| until.min(at)));
        }
        match until {
            Some(until) => self.entries.range(from..until),
            None => self.entries.range(from..),
        }
    }

    /// Notes that so many entries are gone, or that new versions replace as many.
    pub fn note_stale(&mut self, count: usize) {
        self.stale += count;
    }

    /// Removes the entries that are gone, once they may be half of all.
    pub fn sweep(&mut self, is_current: &dyn Fn(u32) -> bool) {
        if self.stale > STALE_MIN && self.stale > self.entries.len() / 2 {
            self.entries.retain(|(_, _, id)| is_current(*id));
            self.stale = 0;
        }
    }
}
