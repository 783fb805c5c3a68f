//! Documents that the server reported as deleted while the session is open: no patch of them is possible.

use std::collections::HashMap;

use super::document::DocKey;
use super::stamp::Stamp;
use crate::limits::TOMBSTONES_MAX;

/// The reported deletions, each with its version. They are not stored: a session that opens again leaves the
/// decision to the server until it receives them again.
#[derive(Debug, Default)]
pub(super) struct Tombstones(HashMap<DocKey, Stamp>);

impl Tombstones {
    /// The document was deleted at that version.
    pub fn bury(&mut self, key: &DocKey, at: Stamp) {
        if self.0.len() >= TOMBSTONES_MAX && !self.0.contains_key(key) {
            // Forgetting only costs the rejection at the call: the server refuses such an operation anyway.
            self.0.clear();
        }
        let buried = self.0.entry(key.clone()).or_insert(at);
        *buried = (*buried).max(at);
    }

    /// The document exists at that version.
    pub fn raise(&mut self, key: &DocKey, at: Stamp) {
        if self.0.get(key).is_some_and(|buried| *buried <= at) {
            self.0.remove(key);
        }
    }

    /// In another epoch, the deleted documents may exist again.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Whether the server's last report of the document was its deletion.
    pub fn holds(&self, key: &DocKey) -> bool {
        self.0.contains_key(key)
    }
}
