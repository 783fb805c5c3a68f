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

/// One load, until its def was received whole.
#[derive(Debug, Default)]
struct Load {
    /// The def was hinted at during the load. A late commit may be behind the load's cursor, so the def is
    /// pulled once more after the load.
    is_hinted: bool,
    /// The highest version received by a load of several pages in this opening.
    reached: Option<Version>,
    /// The last change of the last page: the next page continues after it.
    end: Option<(Version, Pk)>,
    /// The server refused the load's cursor, and the load began again.
    has_restarted: bool,
    /// Accepted operations with a version behind `reached`: only the pull after the load shows their effects.
    behind: SortedSet<OpId>,
}

#[derive(Debug, Default)]
pub struct Loads {
    by_def: SortedMap<Def, Load>,
    /// Replies in a row that had a cursor and no change of any def.
    empty_pages: u32,
}

impl Loads {
    /// A def is unsubscribed, or must be loaded from scratch.
    pub fn drop_def(&mut self, def: &Def) {
        self.by_def.remove(def);
    }

    fn load(&mut self, def: &Def) -> &mut Load {
        self.by_def.entry(def.clone()).or_default()
    }

    /// The server has a change of a def during its load.
    pub fn hint(&mut self, def: &Def) {
        self.load(def).is_hinted = true;
    }

    /// An operation was executed at that version during the load of a def.
    pub fn note_executed(&mut self, def: &Def, id: &OpId, v: Version) {
        let load = self.load(def);
        if load.reached.is_none_or(|reached| v <= reached) {
            load.behind.insert(id.clone());
        }
    }

    /// A page of a load arrived that is not its last; its versions go up to `highest`.
    pub fn note_page(&mut self, def: &Def, is_first: bool, highest: Option<Version>) {
        let load = self.load(def);
        if is_first {
            load.reached = Some(0);
        }
        load.reached = load.reached.map(|reached| reached.max(highest.unwrap_or(reached)));
    }

    /// Whether a page with a cursor continues from the one before it: otherwise a load might never end.
    /// `is_alone` means that the whole reply contains no change: only then did this page certainly have room
    /// for one.
    pub fn goes_on(&mut self, def: &Def, page: Page<'_>, is_alone: bool) -> bool {
        if page.asked.is_none() {
            // A new load begins, and an earlier one may have come further.
            self.load(def).end = None;
        }
        let Some([(first, _), last]) = page.ends else {
            self.empty_pages = if is_alone { self.empty_pages + 1 } else { 0 };
            return !is_alone || (page.asked != Some(page.next) && self.empty_pages < EMPTY_PAGES_MAX);
        };
        self.empty_pages = 0;
        let before = self.load(def).end.replace(last.clone());
        before.is_none_or(|before| first >= before.0 && last > before)
    }

    /// The server refused the load's cursor. Returns whether this is the first time in the load.
    pub fn restart(&mut self, def: &Def) -> bool {
        !std::mem::replace(&mut self.load(def).has_restarted, true)
    }

    /// A def was received whole, by one page or by the last of several. Returns the operations whose effects
    /// it has not shown, and whether it must be pulled once more.
    pub fn finish(&mut self, def: &Def) -> (SortedSet<OpId>, bool) {
        let Load { is_hinted, behind, .. } = self.by_def.remove(def).unwrap_or_default();
        let is_due = is_hinted || !behind.is_empty();
        (behind, is_due)
    }
}
