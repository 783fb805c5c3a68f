//! The order of a sorted map's entries, as a list of lists of their slots. It is no generic type, so the wasm has
//! its code once, and not once for each type of entry.

use std::cmp::Ordering;

/// The maximum length of a list. Twice as long would move twice as much for each insertion, half as long
/// would make more lists.
const LIST_MAX: usize = 256;

/// The position of an entry: its list, and its index in that list. The end is the number of lists, and 0.
pub type At = (usize, usize);

/// Slots in the order of the keys of their entries.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// None of them is empty.
    lists: Vec<Vec<u32>>,
    len: usize,
    /// Slots whose entries were removed. Later entries reuse them.
    free: Vec<u32>,
}

impl Sequence {
    /// An empty sequence. It allocates nothing.
    pub const fn new() -> Self {
        Sequence { lists: Vec::new(), len: 0, free: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The position after all entries.
    pub fn end(&self) -> At {
        (self.lists.len(), 0)
    }

    /// The slot at a position before the end.
    pub fn slot(&self, (list, place): At) -> usize {
        self.lists[list][place] as usize
    }

    /// The position after this one, which is not the end.
    pub fn after(&self, (list, place): At) -> At {
        if place + 1 < self.lists[list].len() { (list, place + 1) } else { (list + 1, 0) }
    }

    /// The position before this one, which is not the first.
    pub fn before(&self, (list, place): At) -> At {
        if place > 0 { (list, place - 1) } else { (list - 1, self.lists[list - 1].len() - 1) }
    }

    /// The number of positions from `front` to `back`.
    pub fn between(&self, front: At, back: At) -> usize {
        let whole: usize = self.lists[front.0..back.0].iter().map(Vec::len).sum();
        whole + back.1 - front.1
    }

    /// The position of a key, or else of the first key above it. `order` compares the key of a slot with this one.
    pub fn find(&self, order: &dyn Fn(usize) -> Ordering) -> Result<At, At> {
        let is_below = |list: usize, place: usize| order(self.slot((list, place))) == Ordering::Less;
        let list = first_not(self.lists.len(), &|list| is_below(list, self.lists[list].len() - 1));
        if list == self.lists.len() {
            return Err((list, 0));
        }
        let at = (list, first_not(self.lists[list].len(), &|place| is_below(list, place)));
        if order(self.slot(at)) == Ordering::Equal { Ok(at) } else { Err(at) }
    }

    /// Inserts an entry at that position, and returns its slot: a free one, or that after all slots.
    pub fn insert(&mut self, (mut list, mut place): At) -> usize {
        let slot = self.free.pop().unwrap_or(self.len as u32);
        self.len += 1;
        if list == self.lists.len() {
            // After all others: it goes into the last list while there is room, so that ascending keys fill
            // their lists.
            match self.lists.last() {
                Some(last) if last.len() < LIST_MAX => (list, place) = (list - 1, last.len()),
                _ => self.lists.push(Vec::new()),
            }
        }
        let own = &mut self.lists[list];
        own.insert(place, slot);
        if own.len() > LIST_MAX {
            let upper = own.split_off(LIST_MAX / 2);
            self.lists.insert(list + 1, upper);
        }
        slot as usize
    }

    /// Removes the entry at that position, and returns its slot.
    pub fn remove(&mut self, (list, place): At) -> usize {
        self.len -= 1;
        let slot = self.lists[list].remove(place);
        if self.lists[list].is_empty() {
            self.lists.remove(list);
        }
        self.free.push(slot);
        slot as usize
    }

    /// Keeps the entries for whose slots `keep` returns true.
    pub fn retain(&mut self, keep: &mut dyn FnMut(usize) -> bool) {
        for list in &mut self.lists {
            list.retain(|slot| {
                let is_kept = keep(*slot as usize);
                if !is_kept {
                    self.free.push(*slot);
                }
                is_kept
            });
        }
        self.lists.retain(|list| !list.is_empty());
        self.len = self.between((0, 0), self.end());
    }

    /// Removes the entries from that position on, and returns their slots.
    pub fn split_off(&mut self, (list, place): At) -> Vec<u32> {
        let mut upper = self.lists.split_off(list);
        if let Some(first) = upper.first_mut().filter(|_| place > 0) {
            let from = first.split_off(place);
            self.lists.push(std::mem::replace(first, from));
        }
        let upper = upper.concat();
        self.len -= upper.len();
        self.free.extend(&upper);
        upper
    }

    /// All slots, in order.
    pub fn slots(&self) -> Vec<u32> {
        self.lists.concat()
    }
}

/// The first number below `len` for which `is_below` is false.
fn first_not(len: usize, is_below: &dyn Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low.midpoint(high);
        if is_below(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
