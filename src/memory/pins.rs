//! The documents that pending operations touch: they stay in memory, with their data, even if no def holds them.

use super::document::DocKey;
use super::stamp::Stamp;
use crate::codec::Data;
use crate::model::{SortedMap, SortedSet};

/// Keeps a document in memory while pending operations touch it.
#[derive(Clone, Debug, Default)]
struct Pin {
    count: u32,
    /// The base data of that version, if the document's own is in storage only.
    data: Option<(Stamp, Data)>,
}

/// The pinned documents.
#[derive(Default)]
pub struct Pins {
    by_key: SortedMap<DocKey, Pin>,
    /// Pinned documents whose data may have to be read.
    unread: SortedSet<DocKey>,
    /// Pinned documents whose base or links changed since the last [`Pins::take_touched`].
    touched: SortedSet<DocKey>,
}

impl Pins {
    /// One operation more touches the document.
    pub fn add(&mut self, key: &DocKey) {
        self.by_key.entry(key.clone()).or_default().count += 1;
        self.unread.insert(key.clone());
    }

    /// One operation less touches the document. Returns whether it was the last one.
    pub fn remove(&mut self, key: &DocKey) -> bool {
        let Some(pin) = self.by_key.get_mut(key) else { return false };
        pin.count -= 1;
        let is_last = pin.count == 0;
        if is_last {
            self.by_key.remove(key);
        }
        is_last
    }

    pub fn holds(&self, key: &DocKey) -> bool {
        self.by_key.contains_key(key)
    }

    /// Notes that the base of a document has changed, if it is pinned.
    pub fn touch(&mut self, key: &DocKey) {
        if self.holds(key) {
            self.touched.insert(key.clone());
        }
    }

    /// The pinned documents whose base or links changed since the last call.
    pub fn take_touched(&mut self) -> SortedSet<DocKey> {
        std::mem::take(&mut self.touched)
    }

    /// Notes that the data of a pinned document may have to be read.
    pub fn want(&mut self, key: &DocKey) {
        self.unread.insert(key.clone());
    }

    /// The pinned documents whose data is still to be read, by that answer.
    pub fn unread(&mut self, is_due: impl Fn(&Self, &DocKey) -> bool) -> &SortedSet<DocKey> {
        let mut unread = std::mem::take(&mut self.unread);
        unread.retain(|key| self.holds(key) && is_due(self, key));
        self.unread = unread;
        &self.unread
    }

    /// Keeps a document's data of that version, which is in storage too, if the document is pinned.
    pub fn keep(&mut self, key: &DocKey, at: Stamp, data: Data) {
        if let Some(pin) = self.by_key.get_mut(key) {
            pin.data = Some((at, data));
        }
    }

    /// The data of that version that is kept here.
    pub fn data(&self, key: &DocKey, at: Stamp) -> Option<&Data> {
        let (of, data) = self.by_key.get(key)?.data.as_ref()?;
        (*of == at).then_some(data)
    }
}
