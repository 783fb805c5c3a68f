//! A map whose entries have places.
//!
//! What is restored comes one after the other, and an opening pays for whatever it does with each entry. Here each entry is
//! pushed behind the one before and stays there, so that a place names it without a search; what finds a key's place is a
//! table of numbers beside. Places that become free are taken by later entries.

use std::fmt;
use std::hash::{BuildHasher, Hash};

use hashbrown::HashTable;

use crate::model::QuickHasher;

/// The map. Entries are in the order of their places.
#[derive(Clone)]
pub struct Shelf<K, V> {
    entries: Vec<Option<(K, V)>>,
    /// Places by the hashes of their keys.
    places: HashTable<u32>,
    /// Places whose entries were taken out.
    free: Vec<u32>,
    hasher: QuickHasher,
}

impl<K, V> Default for Shelf<K, V> {
    fn default() -> Self {
        let hasher = QuickHasher::default();
        Shelf { entries: Vec::new(), places: HashTable::new(), free: Vec::new(), hasher }
    }
}

impl<K: Eq + Hash, V> Shelf<K, V> {
    /// Makes room for as many entries more.
    pub fn expect(&mut self, count: usize) {
        // An eighth more, or the first one to come afterwards would have all of them moved.
        self.entries.reserve(count + count / 8);
        self.places.reserve(count + count / 8, |place| hash_of(&self.entries, &self.hasher, *place));
    }

    /// The place of a key, whose hash that is.
    fn find(&self, hash: u64, key: &K) -> Option<usize> {
        self.places.find(hash, |place| is_at(&self.entries, *place, key)).map(|place| *place as usize)
    }

    fn place_of(&self, key: &K) -> Option<usize> {
        // For an empty map nothing is hashed.
        if self.places.is_empty() { None } else { self.find(self.hasher.hash_one(key), key) }
    }

    /// Puts an entry in, and gives its place and the value that it replaces. A new one takes a place that is free only
    /// where `may_reuse` says so, and the next one otherwise.
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

    /// Puts an entry in; gives the value that it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.put(key, value, true).1
    }

    /// Takes an entry out.
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

    /// The entry at a place.
    pub fn at(&self, place: usize) -> Option<(&K, &V)> {
        self.entries.get(place)?.as_ref().map(|(key, value)| (key, value))
    }

    /// The value at a place, to be changed.
    pub fn at_mut(&mut self, place: usize) -> Option<&mut V> {
        self.entries.get_mut(place)?.as_mut().map(|(_, value)| value)
    }

    /// The value of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.at(self.place_of(key)?).map(|(_, value)| value)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.place_of(key)?;
        self.at_mut(place)
    }

    /// The same, for one who asks for keys in the order of their places: `next` is the place after the one found last,
    /// where no search is needed.
    pub fn next_mut(&mut self, key: &K, next: &mut usize) -> Option<&mut V> {
        let is_next = self.at(*next).is_some_and(|(found, _)| found == key);
        let place = if is_next { *next } else { self.place_of(key)? };
        *next = place + 1;
        self.at_mut(place)
    }

    /// Whether there is a value of that key.
    pub fn contains_key(&self, key: &K) -> bool {
        self.place_of(key).is_some()
    }

    /// Every entry.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().flatten().map(|(key, value)| (key, value))
    }

    /// Every key.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// Every value, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.entries.iter_mut().flatten().map(|(_, value)| value)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// Whether the entry at a place is that key's.
fn is_at<K: Eq, V>(entries: &[Option<(K, V)>], place: u32, key: &K) -> bool {
    entries[place as usize].as_ref().is_some_and(|(found, _)| found == key)
}

/// The hash of the entry at a place, as the table asks for when it grows: of those that it lists, none is free.
fn hash_of<K: Hash, V>(entries: &[Option<(K, V)>], hasher: &QuickHasher, place: u32) -> u64 {
    entries[place as usize].as_ref().map_or(0, |(key, _)| hasher.hash_one(key))
}

impl<K: Eq + Hash, V: PartialEq> PartialEq for Shelf<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: Eq + Hash, V: Eq> Eq for Shelf<K, V> {}

impl<K: Eq + Hash + fmt::Debug, V: fmt::Debug> fmt::Debug for Shelf<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::memory::tests::{Seeded, below, seeds};

    /// Whatever is done to it, it is a map; and what is restored keeps its place for as long as it is there.
    #[test]
    fn it_is_a_map_whose_entries_keep_their_places() {
        for seed in seeds() {
            let random = &mut Seeded::new(seed);
            let (mut shelf, mut wanted, mut places) = (Shelf::default(), HashMap::new(), HashMap::new());
            let restored = below(random, 40);
            for step in 0..200 {
                let key = format!("key {}", below(random, 30));
                if step < restored && below(random, 5) > 0 {
                    let count = shelf.entries.len();
                    let (place, before) = shelf.put(key.clone(), step, false);
                    assert_eq!(before, wanted.insert(key.clone(), step), "ESCALE_SEED={seed}");
                    assert!(before.is_some() || place == count, "ESCALE_SEED={seed}: behind all others");
                    assert_eq!(
                        place,
                        *places.entry(key).or_insert(place),
                        "ESCALE_SEED={seed}: no other place"
                    );
                } else if below(random, 2) == 0 {
                    assert_eq!(
                        shelf.insert(key.clone(), step),
                        wanted.insert(key, step),
                        "ESCALE_SEED={seed}"
                    );
                } else {
                    assert_eq!(shelf.remove(&key), wanted.remove(&key), "ESCALE_SEED={seed}");
                    places.remove(&key);
                }
                if step == restored {
                    shelf.expect(below(random, 50));
                    for value in shelf.values_mut().chain(wanted.values_mut()) {
                        *value += 1_000;
                    }
                }
                let mut next = 0;
                for number in 0..30 {
                    let key = format!("key {number}");
                    assert_eq!(shelf.get(&key), wanted.get(&key), "ESCALE_SEED={seed}");
                    assert_eq!(shelf.contains_key(&key), wanted.contains_key(&key), "ESCALE_SEED={seed}");
                    assert_eq!(shelf.next_mut(&key, &mut next), wanted.get_mut(&key), "ESCALE_SEED={seed}");
                }
                for (key, place) in &places {
                    let found = shelf.at(*place);
                    assert_eq!(found, wanted.get_key_value(key), "ESCALE_SEED={seed}: at its place");
                }
                let all: HashMap<_, _> = shelf.iter().map(|(key, value)| (key.clone(), *value)).collect();
                assert_eq!((shelf.len(), shelf.is_empty()), (wanted.len(), wanted.is_empty()));
                assert_eq!(all, wanted, "ESCALE_SEED={seed}");
            }
            assert_eq!(shelf, shelf.clone());
        }
    }
}
