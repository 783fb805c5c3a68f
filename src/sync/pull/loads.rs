//! The loads of several pages that are in progress.

use crate::journal::OpId;
use crate::model::{Def, Pk, SortedMap, SortedSet, Version};

/// A page of a load that is not its last.
pub struct Page<'p> {
    /// The cursor of the request, and the next one.
    pub asked: Option<&'p str>,
    pub next: &'p str,
    /// The first and the last change.
    pub ends: Option<[(Version, Pk); 2]>,
}

/// How many replies in a row may have a cursor and no change: a server may leave out rows that it has
/// examined.
const EMPTY_PAGES_MAX: u32 = 10;

#[derive(Debug, Default)]
pub struct Loads {
    /// Defs that were hinted at during their load. A late commit may be behind the load's cursor, so they are
    /// pulled once more after the load.
    hinted: SortedSet<Def>,
    /// The highest version received by each load of several pages in this opening.
    reached: SortedMap<Def, Version>,
    /// The last change of the last page of each load: the next page continues after it.
    ends: SortedMap<Def, (Version, Pk)>,
    /// Replies in a row that had a cursor and no change of any def.
    empty_pages: u32,
    /// Accepted operations with a version behind `reached`: only the pull after the load shows their effects.
    behind: SortedMap<Def, SortedSet<OpId>>,
}

impl Loads {
    /// A def is unsubscribed, or must be loaded from scratch.
    pub fn drop_def(&mut self, def: &Def) {
        self.hinted.remove(def);
        self.reached.remove(def);
        self.ends.remove(def);
        self.behind.remove(def);
    }

    /// The server has a change of a def during its load.
    pub fn hint(&mut self, def: Def) {
        self.hinted.insert(def);
    }

    /// An operation was executed at that version during the load of a def.
    pub fn is_executed(&mut self, def: &Def, id: &OpId, v: Version) {
        if self.reached.get(def).is_none_or(|reached| v <= *reached) {
            self.behind.entry(def.clone()).or_default().insert(id.clone());
        }
    }

    /// A page of a load arrived that is not its last; its versions go up to `highest`.
    pub fn is_unfinished(&mut self, def: &Def, is_first: bool, highest: Option<Version>) {
        if is_first {
            self.reached.insert(def.clone(), 0);
        }
        if let Some(reached) = self.reached.get_mut(def) {
            *reached = highest.map_or(*reached, |highest| highest.max(*reached));
        }
    }

    /// Whether a page with a cursor continues from the one before it: otherwise a load might never end.
    /// `is_alone` means that the whole reply contains no change: only then did this page certainly have room
    /// for one.
    pub fn goes_on(&mut self, def: &Def, page: Page<'_>, is_alone: bool) -> bool {
        if page.asked.is_none() {
            // A new load begins, and an earlier one may have come further.
            self.ends.remove(def);
        }
        let Some([(first, _), (v, pk)]) = page.ends else {
            self.empty_pages = if is_alone { self.empty_pages + 1 } else { 0 };
            return !is_alone || (page.asked != Some(page.next) && self.empty_pages < EMPTY_PAGES_MAX);
        };
        self.empty_pages = 0;
        let before = self.ends.insert(def.clone(), (v, pk.clone()));
        let Some(before) = before.filter(|_| page.asked.is_some()) else { return true };
        first >= before.0 && (v, pk) != before
    }

    /// A def was received whole, by one page or by the last of several. Returns the operations whose effects
    /// it has not shown, and whether it must be pulled once more.
    pub fn is_whole(&mut self, def: &Def) -> (SortedSet<OpId>, bool) {
        self.reached.remove(def);
        self.ends.remove(def);
        let behind = self.behind.remove(def).unwrap_or_default();
        let is_hinted = self.hinted.remove(def);
        let is_due = is_hinted || !behind.is_empty();
        (behind, is_due)
    }
}
