//! The documents of the memory, their ids, and the times at which their lives end. It keeps these three consistent,
//! and knows nothing of links: the rest of the memory changes a document's `defs`, `slot` and `content` in place.

use super::defs::Defs;
use super::document::{Content, DocKey, Document, DocumentAtRest, is_over};
use super::slab::Slab;
use super::stamp::Stamp;
use crate::model::{Pk, QuickMap, SortedSet};

/// Every document of the memory.
pub struct Documents {
    all: Slab<DocKey, Document>,
    /// Ids up to this one were given by the opening: each is its document's index plus one.
    placed_ids: u32,
    /// The keys of all other ids.
    by_id: QuickMap<u32, DocKey>,
    lives: SortedSet<(u64, DocKey)>,
    /// The same for documents as pending operations leave them.
    lives_shown: SortedSet<(u64, DocKey)>,
    next_id: u32,
}

impl Default for Documents {
    fn default() -> Self {
        Documents {
            all: Slab::default(),
            placed_ids: 0,
            by_id: QuickMap::default(),
            lives: SortedSet::new(),
            lives_shown: SortedSet::new(),
            next_id: 1,
        }
    }
}

impl Documents {
    pub fn get(&self, key: &DocKey) -> Option<&Document> {
        self.all.get(key)
    }

    /// The document. Its id, version and life change only by [`Documents::set`].
    pub fn get_mut(&mut self, key: &DocKey) -> Option<&mut Document> {
        self.all.get_mut(key)
    }

    /// The same, for keys in the order of [`Documents::iter`]: see [`Slab::next_mut`].
    pub fn next_mut(&mut self, key: &DocKey, next: &mut usize) -> Option<&mut Document> {
        self.all.next_mut(key, next)
    }

    pub fn contains(&self, key: &DocKey) -> bool {
        self.all.contains_key(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&DocKey, &Document)> {
        self.all.iter()
    }

    pub fn keys(&self) -> impl Iterator<Item = &DocKey> {
        self.all.keys()
    }

    /// Reserves memory for that many more documents.
    pub fn reserve(&mut self, count: usize) {
        self.all.reserve(count);
    }

    /// The document with that id, if that version is still the current one.
    pub fn by_id(&self, id: u32) -> Option<(&DocKey, &Document)> {
        let found = if id <= self.placed_ids {
            self.all.at((id as usize).checked_sub(1)?)
        } else {
            let key = self.by_id.get(&id)?;
            Some((key, self.all.get(key)?))
        };
        found.filter(|(_, document)| document.id == id)
    }

    /// The key of an id that was taken for another state of a document.
    pub fn key_of(&self, id: u32) -> Option<&DocKey> {
        self.by_id.get(&id)
    }

    /// A new id for a state of a document.
    pub fn take_id(&mut self, key: &DocKey) -> u32 {
        let id = self.next_id;
        self.next_id = self.next_id.checked_add(1).expect("four billion versions in one session");
        self.by_id.insert(id, key.clone());
        id
    }

    /// No state of a document has this id any more.
    pub fn free_id(&mut self, id: u32) {
        self.by_id.remove(&id);
    }

    /// Replaces a document's data under a new id, or adds the document. Returns the id that is not used any more.
    pub fn set(&mut self, key: &DocKey, at: Stamp, max_life: Option<u64>, content: Content) -> Option<u32> {
        let id = self.take_id(key);
        if let Some(minutes) = max_life {
            self.lives.insert((minutes, key.clone()));
        }
        let Some(document) = self.all.get_mut(key) else {
            let document = Document { id, at, max_life, content, slot: None, defs: Defs::default() };
            self.all.insert(key.clone(), document);
            return None;
        };
        if let Some(minutes) = document.max_life.filter(|_| document.max_life != max_life) {
            self.lives.remove(&(minutes, key.clone()));
        }
        let before = std::mem::replace(&mut document.id, id);
        document.at = at;
        document.max_life = max_life;
        document.content = content;
        self.by_id.remove(&before);
        Some(before)
    }

    pub fn remove(&mut self, key: &DocKey) -> Option<Document> {
        let document = self.all.remove(key)?;
        self.by_id.remove(&document.id);
        if let Some(minutes) = document.max_life {
            self.lives.remove(&(minutes, key.clone()));
        }
        Some(document)
    }

    /// Restores a document and gives it an id. Ids follow the order of the records, so they are the same at
    /// each opening. [`Documents::end_restoring`] adds the ends of their lives.
    pub fn restore(&mut self, key: DocKey, document: Option<DocumentAtRest>) {
        let Some(DocumentAtRest { at, max_life, place: slot }) = document else {
            self.all.remove(&key);
            return;
        };
        let (content, slot, defs) = (Content::AtRest, Some(slot), Defs::default());
        let document = Document { id: 0, at, max_life, content, slot, defs };
        let (place, _) = self.all.put(key, document, false);
        // Each index is used once, and nothing else takes an id before the opening ends.
        let id = place as u32 + 1;
        if let Some(document) = self.all.value_mut(place) {
            document.id = id;
        }
        self.placed_ids = self.placed_ids.max(id);
        self.next_id = self.placed_ids + 1;
    }

    pub fn end_restoring(&mut self) {
        for (key, document) in self.all.iter() {
            self.lives.extend(document.max_life.map(|minutes| (minutes, key.clone())));
        }
    }

    /// Takes the first document whose life is over.
    pub fn take_expired(&mut self, now_ms: u64) -> Option<DocKey> {
        let (minutes, key) =
            self.lives.first().filter(|(minutes, _)| is_over(Some(*minutes), now_ms)).cloned()?;
        self.lives.remove(&(minutes, key.clone()));
        Some(key)
    }

    /// Pending operations give a document this life, or no longer do.
    pub fn set_life_shown(&mut self, key: &DocKey, max_life: Option<u64>, is_shown: bool) {
        let Some(minutes) = max_life else { return };
        let life = (minutes, key.clone());
        let _ = if is_shown { self.lives_shown.insert(life) } else { self.lives_shown.remove(&life) };
    }

    /// The first expiry of a document after `now_ms`, in milliseconds.
    pub fn next_expiry(&self, now_ms: u64) -> Option<u64> {
        let first = |lives: &SortedSet<(u64, DocKey)>| Some(lives.range(later(now_ms)?..).next()?.0);
        let minutes = first(&self.lives).into_iter().chain(first(&self.lives_shown)).min();
        minutes.map(|minutes| minutes.saturating_mul(60_000))
    }

    /// The documents that expire between two times.
    pub fn expiring(&self, from_ms: u64, to_ms: u64) -> Vec<DocKey> {
        let Some(from) = later(from_ms) else { return Vec::new() };
        let mut expiring = Vec::new();
        for lives in [&self.lives, &self.lives_shown] {
            let ends = lives.range(from.clone()..).take_while(|(minutes, _)| is_over(Some(*minutes), to_ms));
            expiring.extend(ends.map(|(_, key)| key.clone()));
        }
        expiring
    }

    /// Panics if an id does not name its document. `shown` is the number of ids that overlays have. For tests.
    #[cfg(any(test, feature = "testing"))]
    pub fn check_ids(&self, shown: usize) {
        for (key, document) in self.iter() {
            let (named, found) = self.by_id(document.id).expect("an id that names its document");
            assert_eq!((named, found.id), (key, document.id));
        }
        let placed = self.iter().filter(|(_, document)| document.id <= self.placed_ids).count();
        assert_eq!(self.by_id.len(), self.all.len() - placed + shown);
    }
}

/// The first end of a life after that time, were it the end of the first document.
fn later(now_ms: u64) -> Option<(u64, DocKey)> {
    Some((now_ms / 60_000 + 1, (0, Pk::parse("-").ok()?)))
}
