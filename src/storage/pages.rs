//! Which pages exist, and which of their rows are in use.

use crate::memory::PageRef;
use crate::model::{SortedMap, SortedSet, order};

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
    pages: SortedMap<u64, PageUse>,
    /// The first number that no page has used.
    pub next: u64,
}

impl Pages {
    /// No pages; `next` is the number of the first one.
    pub fn starting_at(next: u64) -> Self {
        Pages { pages: SortedMap::new(), next }
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

    /// Whether a document uses that page.
    pub fn is_used(&self, number: u64) -> bool {
        self.pages.contains_key(&number)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::crypto::{Random, SeededRandom};

    /// Rows are occupied and freed in any order, some twice. The pages know the same as a list of all rows.
    #[test]
    fn pages_know_their_rows_as_a_list_of_all_rows_does() {
        for seed in 0..60 {
            let random = &mut SeededRandom::new(seed);
            let mut below = |bound: u64| random.below(bound).expect("random");
            let mut pages = Pages::starting_at(7);
            let mut rows: BTreeMap<(u64, u32), u32> = BTreeMap::new();
            for _ in 0..300 {
                let (page, slot) = (below(6), below(150) as u32);
                let bytes = *rows.get(&(page, slot)).unwrap_or(&(1 + below(90) as u32));
                let place = PageRef { page, slot, bytes };
                if below(2) == 0 {
                    rows.insert((page, slot), bytes);
                    pages.occupy(place);
                } else {
                    let was_used = rows.range((page, 0)..(page + 1, 0)).next().is_some();
                    rows.remove(&(page, slot));
                    let is_empty = rows.range((page, 0)..(page + 1, 0)).next().is_none();
                    assert_eq!(
                        pages.free(place),
                        was_used && is_empty,
                        "ESCALE_SEED={seed}: told when it is empty"
                    );
                }
                let mut used: BTreeMap<u64, usize> = BTreeMap::new();
                for ((page, _), bytes) in &rows {
                    *used.entry(*page).or_default() += *bytes as usize;
                }
                let numbers: SortedSet<u64> = order::set_of(pages.numbers());
                assert!(numbers.iter().eq(used.keys()), "ESCALE_SEED={seed}");
                assert_eq!(
                    (pages.len(), pages.rows()),
                    (used.len(), rows.len() as u64),
                    "ESCALE_SEED={seed}"
                );
                let (bound, most, but) = (below(2_000) as usize, below(4) as usize, below(6));
                let mut sparse: Vec<(usize, u64)> =
                    used.into_iter().map(|(page, bytes)| (bytes, page)).collect();
                sparse.retain(|(bytes, page)| *bytes <= bound && *page != but);
                sparse.sort_unstable();
                let wanted: Vec<u64> = sparse.into_iter().take(most).map(|(_, page)| page).collect();
                assert_eq!(pages.sparse(bound, most, &order::set_of([but])), wanted, "ESCALE_SEED={seed}");
            }
            assert_eq!(pages.next, 7, "numbers are the writer's");
        }
    }
}
