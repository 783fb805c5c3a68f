//! A collection in memory.

use serde::{Deserialize, Serialize};

use super::defs::Sharing;
use super::set::VersionedSet;
use super::stamp::Stamp;
use crate::model::{Pk, Version};

/// A load that takes several replies (docs/protocol.md): stored in one transaction with the rows it brought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Where the last reply stopped.
    pub cursor: String,
    /// The `v` that was asked.
    pub since: Version,
    /// The first page's `now` - DELTA: the collection's `v` at the end.
    pub settle: Version,
    /// Rows received so far.
    pub received: u64,
    /// Rows in all, where the server said it.
    pub total: Option<u64>,
}

/// The members of a def, and how far they are known.
#[derive(Clone, Debug, Default)]
pub struct Collection {
    /// The members, and the marks of those that left.
    pub set: VersionedSet<Pk, Stamp>,
    /// Whether a whole load has ended once, in any epoch.
    pub ready: bool,
    /// The load under way.
    pub load: Option<Load>,
    /// The lists of defs that it gave its documents, and took from them.
    pub(super) sharing: Sharing,
}

impl Collection {
    /// The `v` to ask changes since: 0 where it was never loaded, or not in this era.
    pub fn v(&self, era: u32) -> Version {
        if self.set.v().era == era { self.set.v().v } else { 0 }
    }
}
