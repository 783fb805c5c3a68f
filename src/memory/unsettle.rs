//! Handles a device that was wiped while the session is open: nothing in memory is in storage any more.

use super::dirty::Dirty;
use super::document::{Content, DocKey};
use super::state::Memory;
use crate::model::SortedSet;

impl Memory {
    /// Marks the whole memory as unwritten. Returns the documents whose data was in storage only: they stay
    /// without it, until it is requested again (R14).
    pub(crate) fn unsettle(&mut self) -> SortedSet<DocKey> {
        self.dirty = Dirty { head: true, ..Dirty::default() };
        let keys: Vec<DocKey> = self.documents.keys().cloned().collect();
        let mut lost = SortedSet::new();
        for key in keys {
            let kept = self.base_data(&key).cloned();
            let Some(document) = self.documents.get_mut(&key) else { continue };
            document.slot = None;
            if let Some(data) = kept {
                document.content = Content::Resident(data);
                self.dirty.documents.insert(key);
            } else {
                self.lose(&key);
                lost.insert(key);
            }
        }
        lost
    }
}
