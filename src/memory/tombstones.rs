//! Documents that the server told deleted, for as long as the session is open: what no patch can be made on.

use std::collections::HashMap;

use super::document::DocKey;
use super::stamp::Stamp;
use crate::limits::TOMBSTONES_MAX;

/// The deletions told, each with its version. Not at rest: a session that opens again leaves the judgement to the
/// server until it is told anew.
#[derive(Debug, Default)]
pub(super) struct Tombstones(HashMap<DocKey, Stamp>);

impl Tombstones {
    /// The document was deleted at that version.
    pub fn bury(&mut self, key: &DocKey, at: Stamp) {
        if self.0.len() >= TOMBSTONES_MAX && !self.0.contains_key(key) {
            // Forgetting costs a refusal at the call, nothing else: the server refuses what was not refused here.
            self.0.clear();
        }
        let buried = self.0.entry(key.clone()).or_insert(at);
        *buried = (*buried).max(at);
    }

    /// The document is there at that version.
    pub fn raise(&mut self, key: &DocKey, at: Stamp) {
        if self.0.get(key).is_some_and(|buried| *buried <= at) {
            self.0.remove(key);
        }
    }

    /// Another epoch: what was deleted before it may be there again.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Whether the last that was told of the document is that it is deleted.
    pub fn holds(&self, key: &DocKey) -> bool {
        self.0.contains_key(key)
    }
}
