//! A collection in memory: the members of one def, and the load in progress.

use super::defs::Sharing;
use super::set::VersionedSet;
use super::stamp::Stamp;
use crate::codec::record;
use crate::model::{Pk, Version};

/// A load that takes several replies (docs/protocol.md). It is stored in one transaction with the rows
/// received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The cursor where the last reply stopped. Empty if the def is loaded, but not in one snapshot with the
    /// others of its tree (R18).
    pub cursor: String,
    /// The `v` of the first request.
    pub since: Version,
    /// The first page's `now` - DELTA: the collection's `v` after the load.
    pub settle: Version,
    /// Rows received so far.
    pub received: u64,
    /// Rows in all, if the server gave the number.
    pub total: Option<u64>,
}

record!(Load { cursor, since, settle, received, total });

/// The members of a def, and the version up to which they are known.
#[derive(Clone, Debug, Default)]
pub struct Collection {
    /// The members, and the removal tombstones of those that left. On the clock `sequence`, its `v` is the number after
    /// the last one that is known: every change below it is known, as on the clock `time` (R21).
    pub set: VersionedSet<Pk, Stamp>,
    /// Whether a whole load has ended once, in any epoch, and the server has not refused the def since.
    pub ready: bool,
    /// The load in progress.
    pub load: Option<Load>,
    /// How long the subscription lasts, as the application's side writes it (docs/format.md). 0: until it is ended.
    pub lease: u64,
    /// The documents that changed here since a view asked (`touched`). `None` if it has to list all.
    pub(super) touched: Option<Vec<Pk>>,
    /// The lists of defs that result from adding this def to documents' lists, or removing it.
    pub(super) sharing: Sharing,
}

/// Documents that a view asks for one by one. If more have changed, it lists the def again.
const TOUCHED_MAX: usize = 1_000;

impl Collection {
    /// The application sees another state of that document here, or none.
    pub(super) fn touch(&mut self, pk: &Pk) {
        if let Some(touched) = self.touched.as_mut().filter(|touched| touched.len() < TOUCHED_MAX) {
            touched.push(pk.clone());
        } else {
            self.touched = None;
        }
    }

    /// Every change below it is known: 0 if the collection was never loaded, or not in this era.
    pub fn v(&self, era: u32) -> Version {
        if self.set.v().era == era { self.set.v().v } else { 0 }
    }

    /// Whether a whole load has ended once, even if the server has refused the def since.
    pub fn was_loaded(&self) -> bool {
        self.ready || self.set.v().v > 0
    }

    /// The load in progress, if it goes on from a cursor.
    pub fn paged(&self) -> Option<&Load> {
        self.load.as_ref().filter(|load| !load.cursor.is_empty())
    }

    /// Whether a whole load is in progress or due.
    pub fn is_loading(&self, era: u32) -> bool {
        self.paged().is_some() || self.v(era) == 0
    }
}
