//! A map whose entries have fixed indexes, for documents and members.
//!
//! An opening restores entries one after the other, and the time for each entry counts. So each entry is
//! pushed behind the one before and stays there: its index finds it without a search. A separate table of
//! numbers maps a key to its index. Later entries reuse the indexes of removed ones.

use std::fmt;
use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

use crate::model::QuickHasher;

/// The map. Entries are in the order of their indexes.
#[derive(Clone)]
pub struct Slab<K, V> {
    entries: Vec<Option<(K, V)>>,
    /// Indexes by the hashes of their keys.
    places: HashTable<u32>,
    /// Indexes whose entries were removed.
    free: Vec<u32>,
    hasher: QuickHasher,
}

impl<K, V> Default for Slab<K, V> {
    fn default() -> Self {
        let hasher = QuickHasher::default();
        Slab { entries: Vec::new(), places: HashTable::new(), free: Vec::new(), hasher }
    }
}

impl<K: Eq + Hash, V> Slab<K, V> {
    /// Reserves memory for that many more entries.
    pub fn reserve(&mut self, count: usize) {
        // An eighth more; otherwise the first entry added later would move all of them.
        self.entries.reserve(count + count / 8);
        self.places.reserve(count + count / 8, |place| hash_of(&self.entries, &self.hasher, *place));
    }

    /// The index of a key with that hash.
    fn find(&self, hash: u64, key: &K) -> Option<usize> {
        self.places.find(hash, |place| is_at(&self.entries, *place, key)).map(|place| *place as usize)
    }

    fn index_of(&self, key: &K) -> Option<usize> {
        // An empty map needs no hash.
        if self.places.is_empty() { None } else { self.find(self.hasher.hash_one(key), key) }
    }

    /// Inserts an entry, and returns its index and the value that it replaces. A new entry reuses a free
    /// index only if `may_reuse` is true, and otherwise takes the next one.
    pub fn put(&mut self, key: K, value: V, may_reuse: bool) -> (usize, Option<V>) {
        let hash = self.hasher.hash_one(&key);
        if let Some(place) = self.find(hash, &key) {
            let before = self.entries[place].replace((key, value));
            return (place, before.map(|(_, value)| value));
        }
        let entry = Some((key, value));
        let place = if let Some(place) = self.free.pop_if(|_| may_reuse) {
            self.entries[place as usize] = entry;
            place
        } else {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        };
        self.places.insert_unique(hash, place, |place| hash_of(&self.entries, &self.hasher, *place));
        (place as usize, None)
    }

    /// Inserts an entry, and returns the value that it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.put(key, value, true).1
    }

    /// Removes an entry.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        if self.places.is_empty() {
            return None;
        }
        let found =
            self.places.find_entry(self.hasher.hash_one(key), |place| is_at(&self.entries, *place, key));
        let (place, _) = found.ok()?.remove();
        self.free.push(place);
        self.entries[place as usize].take().map(|(_, value)| value)
    }

    /// The entry at an index.
    pub fn at(&self, place: usize) -> Option<(&K, &V)> {
        self.entries.get(place)?.as_ref().map(|(key, value)| (key, value))
    }

    /// The value at an index, mutable.
    pub fn value_mut(&mut self, place: usize) -> Option<&mut V> {
        self.entries.get_mut(place)?.as_mut().map(|(_, value)| value)
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.at(self.index_of(key)?).map(|(_, value)| value)
    }

    /// The value of a key, mutable.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.index_of(key)?;
        self.value_mut(place)
    }

    /// The same, for a caller that asks for keys in the order of their indexes. `next` is the index after the
    /// last one found, which is tried first and needs no search.
    pub fn next_mut(&mut self, key: &K, next: &mut usize) -> Option<&mut V> {
        let is_next = self.at(*next).is_some_and(|(found, _)| found == key);
        let place = if is_next { *next } else { self.index_of(key)? };
        *next = place + 1;
        self.value_mut(place)
    }

    /// Whether there is a value of that key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.index_of(key).is_some()
    }

    /// Every entry.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().flatten().map(|(key, value)| (key, value))
    }

    /// Every key.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Every value, mutable.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().flatten().map(|(_, value)| value)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// Whether the entry at an index has that key.
fn is_at<K: Eq, V>(entries: &[Option<(K, V)>], place: u32, key: &K) -> bool {
    entries[place as usize].as_ref().is_some_and(|(found, _)| found == key)
}

/// The hash of the entry at an index, for the table when it grows. The table lists no free index.
fn hash_of<K: Hash, V>(entries: &[Option<(K, V)>], hasher: &QuickHasher, place: u32) -> u64 {
    entries[place as usize].as_ref().map_or(0, |(key, _)| hasher.hash_one(key))
}

impl<K: Eq + Hash + fmt::Debug, V: fmt::Debug> fmt::Debug for Slab<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashMap;
    use std::hash::Hasher;

    use super::*;
    use crate::memory::tests::{Seeded, below, seeds};

    /// It is a map under any sequence of calls, and a restored entry keeps its index as long as it exists.
    #[test]
    fn it_is_a_map_whose_entries_keep_their_places() {
        for seed in seeds(300) {
            let random = &mut Seeded::new(seed);
            let (mut slab, mut wanted, mut places) = (Slab::default(), HashMap::new(), HashMap::new());
            let restored = below(random, 40);
            for step in 0..200 {
                let key = format!("key {}", below(random, 30));
                if step < restored && below(random, 5) > 0 {
                    let count = slab.entries.len();
                    let (place, before) = slab.put(key.clone(), step, false);
                    assert_eq!(before, wanted.insert(key.clone(), step), "ESCALE_SEED={seed}");
                    assert!(before.is_some() || place == count, "ESCALE_SEED={seed}: behind all others");
                    assert_eq!(
                        place,
                        *places.entry(key).or_insert(place),
                        "ESCALE_SEED={seed}: no other place"
                    );
                } else if below(random, 2) == 0 {
                    assert_eq!(
                        slab.insert(key.clone(), step),
                        wanted.insert(key, step),
                        "ESCALE_SEED={seed}"
                    );
                } else {
                    assert_eq!(slab.remove(&key), wanted.remove(&key), "ESCALE_SEED={seed}");
                    places.remove(&key);
                }
                if step == restored {
                    slab.reserve(below(random, 50));
                    for value in slab.values_mut().chain(wanted.values_mut()) {
                        *value += 1_000;
                    }
                }
                let mut next = 0;
                for number in 0..30 {
                    let key = format!("key {number}");
                    assert_eq!(slab.get(&key), wanted.get(&key), "ESCALE_SEED={seed}");
                    assert_eq!(slab.contains_key(&key), wanted.contains_key(&key), "ESCALE_SEED={seed}");
                    assert_eq!(slab.next_mut(&key, &mut next), wanted.get_mut(&key), "ESCALE_SEED={seed}");
                }
                for (key, place) in &places {
                    let found = slab.at(*place);
                    assert_eq!(found, wanted.get_key_value(key), "ESCALE_SEED={seed}: at its place");
                }
                let all: HashMap<_, _> = slab.iter().map(|(key, value)| (key.clone(), *value)).collect();
                assert_eq!((slab.len(), slab.is_empty()), (wanted.len(), wanted.is_empty()));
                let free = slab.entries.len() - slab.len();
                assert_eq!(slab.free.len(), free, "ESCALE_SEED={seed}: each free place is used again");
                assert_eq!(all, wanted, "ESCALE_SEED={seed}");
            }
        }
    }

    /// A key that counts how often it is hashed.
    #[derive(Clone)]
    struct Counted<'a>(usize, &'a Cell<usize>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    impl Eq for Counted<'_> {}

    impl Hash for Counted<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.1.set(self.1.get() + 1);
            self.0.hash(state);
        }
    }

    /// An opening asks for the keys in the order of their places. A search for each would cost it a hash.
    #[test]
    fn keys_in_the_order_of_their_places_are_found_without_a_search() {
        let hashed = Cell::new(0);
        let keys: Vec<Counted> = (0..20).map(|number| Counted(number, &hashed)).collect();
        let mut slab = Slab::default();
        for key in &keys {
            slab.put(key.clone(), key.0, false);
        }
        let mut next = 0;
        let mut searches = |number: usize| {
            let before = hashed.get();
            assert_eq!(slab.next_mut(&keys[number], &mut next).copied(), Some(number));
            hashed.get() - before
        };
        assert_eq!((0..20).map(&mut searches).sum::<usize>(), 0);
        assert_eq!(searches(5), 1, "out of order it is searched for");
        assert_eq!((6..20).map(&mut searches).sum::<usize>(), 0, "and the order goes on from there");
    }

    /// An opening that says how many entries come moves none of them, nor do the first ones added later.
    #[test]
    fn expected_entries_have_room_and_an_eighth_more() {
        let mut slab: Slab<usize, ()> = Slab::default();
        slab.reserve(800);
        let room = (slab.entries.capacity(), slab.places.capacity());
        assert_eq!(room.0, 900);
        assert!(room.1 >= 900);
        for key in 0..900 {
            slab.insert(key, ());
        }
        assert_eq!((slab.entries.capacity(), slab.places.capacity()), room);
    }
}
