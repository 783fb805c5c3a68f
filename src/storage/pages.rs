//! Which pages exist, and which of their rows are in use.

use crate::memory::PageRef;
use crate::model::{QuickMap, SortedSet, order};

/// One page: a bit for each row that a document uses.
#[derive(Clone, Debug, Default)]
struct PageUse {
    bits: Vec<u64>,
    live: u32,
    /// Bytes of these rows.
    bytes: usize,
}

/// Every page of the store. Freeing a row twice is harmless.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    pages: QuickMap<u64, PageUse>,
    /// The first number that no page has used.
    pub next: u64,
}

impl Pages {
    /// No pages; `next` is the number of the first one.
    pub fn starting_at(next: u64) -> Self {
        Pages { pages: QuickMap::default(), next }
    }

    /// Notes that a document uses that slot.
    pub fn occupy(&mut self, place: PageRef) {
        let page = self.pages.entry(place.page).or_default();
        let (word, bit) = (place.slot as usize / 64, 1 << (place.slot % 64));
        if page.bits.len() <= word {
            page.bits.resize(word + 1, 0);
        }
        if page.bits[word] & bit == 0 {
            page.bits[word] |= bit;
            page.live += 1;
            page.bytes += place.bytes as usize;
        }
    }

    /// Notes that no document uses that slot any more. Returns whether the page is empty: it is forgotten,
    /// and can be deleted.
    pub fn free(&mut self, place: PageRef) -> bool {
        let Some(page) = self.pages.get_mut(&place.page) else { return false };
        let (word, bit) = (place.slot as usize / 64, 1 << (place.slot % 64));
        if page.bits.get(word).is_some_and(|bits| bits & bit != 0) {
            page.bits[word] &= !bit;
            page.live -= 1;
            page.bytes = page.bytes.saturating_sub(place.bytes as usize);
        }
        let empty = page.live == 0;
        if empty {
            self.pages.remove(&place.page);
        }
        empty
    }

    /// The pages that documents use.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.pages.keys().copied()
    }

    /// How many pages documents use.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// The pages with the fewest bytes in use, worth rewriting together: at most `most`, each of at most
    /// `bytes`.
    pub fn sparse(&self, bytes: usize, most: usize, but: &SortedSet<u64>) -> Vec<u64> {
        let of = |(number, page): (&u64, &PageUse)| {
            (page.bytes <= bytes && !but.contains(number)).then_some((page.bytes, *number))
        };
        let mut sparse: Vec<(usize, u64)> = self.pages.iter().filter_map(of).collect();
        order::sort(&mut sparse);
        sparse.truncate(most);
        sparse.into_iter().map(|(_, number)| number).collect()
    }

    /// How many documents have their data in pages.
    pub fn rows(&self) -> u64 {
        self.pages.values().map(|page| u64::from(page.live)).sum()
    }
}
