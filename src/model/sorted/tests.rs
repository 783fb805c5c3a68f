//! Compares the sorted map with the standard B-tree, call by call.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::{SortedMap, SortedSet};

#[derive(Clone, Debug)]
enum Call {
    Insert(u16, u8),
    Remove(u16),
    Entry(u16, u8),
    PopFirst,
    PopLast,
    Retain(u8),
    SplitOff(u16),
    Range(Bound<u16>, Bound<u16>),
    Fill(u16),
}

/// Numbers from a seed: proptest is not built for browsers, and these tests are.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u16) -> u16 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(bound)) as u16
    }

    fn key(&mut self) -> u16 {
        self.below(600)
    }

    fn value(&mut self) -> u8 {
        self.below(256) as u8
    }

    fn bound(&mut self) -> Bound<u16> {
        match self.below(3) {
            0 => Bound::Included(self.key()),
            1 => Bound::Excluded(self.key()),
            _ => Bound::Unbounded,
        }
    }

    fn call(&mut self) -> Call {
        match self.below(85) {
            0..30 => Call::Insert(self.key(), self.value()),
            30..50 => Call::Remove(self.key()),
            50..60 => Call::Entry(self.key(), self.value()),
            60..65 => Call::PopFirst,
            65..70 => Call::PopLast,
            70 => Call::Retain(2 + self.below(7) as u8),
            71 => Call::SplitOff(self.key()),
            72..82 => Call::Range(self.bound(), self.bound()),
            _ => Call::Fill(self.key()),
        }
    }
}

/// The B-tree panics if a range ends before it begins; the sorted map returns no entry then.
fn is_range(from: Bound<u16>, to: Bound<u16>) -> bool {
    match (from, to) {
        (Bound::Excluded(a), Bound::Excluded(b)) => a < b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a <= b,
        _ => true,
    }
}

fn play(calls: Vec<Call>) {
    let (mut ours, mut std): (SortedMap<u16, u8>, BTreeMap<u16, u8>) = Default::default();
    for call in calls {
        match call {
            Call::Insert(key, value) => assert_eq!(ours.insert(key, value), std.insert(key, value)),
            Call::Remove(key) => {
                assert_eq!(ours.get(&key), std.get(&key));
                assert_eq!(ours.remove(&key), std.remove(&key));
            }
            Call::Entry(key, value) => {
                let (own, other) = (ours.entry(key).or_default(), std.entry(key).or_default());
                assert_eq!(own, other);
                (*own, *other) = (value, value);
            }
            Call::PopFirst => assert_eq!(ours.pop_first(), std.pop_first()),
            Call::PopLast => assert_eq!(ours.pop_last(), std.pop_last()),
            Call::Retain(n) => {
                ours.retain(|key, _| key % u16::from(n) != 0);
                std.retain(|key, _| key % u16::from(n) != 0);
            }
            Call::SplitOff(key) => {
                let (own, other) = (ours.split_off(&key), std.split_off(&key));
                assert!(own.iter().eq(other.iter()) && own.len() == other.len());
            }
            Call::Range(from, to) if is_range(from, to) => {
                let (own, other) = (ours.range((from, to)), std.range((from, to)));
                assert!(own.clone().eq(other.clone()));
                assert_eq!(own.len(), other.clone().count());
                assert!(own.rev().eq(other.rev()));
            }
            Call::Range(from, to) => assert_eq!(ours.range((from, to)).next(), None),
            Call::Fill(from) => {
                ours.extend((from..from + 150).map(|key| (key, 1)));
                std.extend((from..from + 150).map(|key| (key, 1)));
            }
        }
        assert_eq!(ours.len(), std.len());
        assert!(ours.iter().eq(std.iter()) && ours.iter().rev().eq(std.iter().rev()));
        assert_eq!(
            (ours.first_key_value(), ours.last_key_value()),
            (std.first_key_value(), std.last_key_value())
        );
    }
    let same: SortedMap<u16, u8> = std.iter().rev().map(|(key, value)| (*key, *value)).collect();
    assert_eq!(same, ours, "however the lists are cut");
    assert!(ours.into_iter().eq(std));
}

#[test]
fn it_does_what_the_standard_map_does() {
    for seed in 0..256 {
        eprintln!("seed {seed}");
        let numbers = &mut Numbers(seed);
        let count = 1 + numbers.below(299);
        play((0..count).map(|_| numbers.call()).collect());
    }
}

#[test]
fn a_set_does_what_the_standard_set_does() {
    for seed in 0..256 {
        eprintln!("seed {seed}");
        let numbers = &mut Numbers(seed);
        let items: Vec<u16> = (0..numbers.below(900)).map(|_| numbers.below(500)).collect();
        let (mut ours, mut std): (SortedSet<u16>, BTreeSet<u16>) = Default::default();
        for item in &items {
            assert_eq!(ours.insert(*item), std.insert(*item));
        }
        assert!(ours.iter().eq(&std) && ours.iter().rev().eq(std.iter().rev()));
        for item in items.iter().step_by(3) {
            assert_eq!((ours.contains(item), ours.remove(item)), (std.contains(item), std.remove(item)));
        }
        ours.retain(|item| item % 5 != 0);
        std.retain(|item| item % 5 != 0);
        assert_eq!((ours.len(), ours.first(), ours.last()), (std.len(), std.first(), std.last()));
        assert!(ours.into_iter().eq(std));
    }
}

/// Ascending keys, the most frequent case here, fill their lists.
#[test]
fn what_comes_in_order_is_put_at_the_end_of_full_lists() {
    let map: SortedMap<u32, ()> = (0..12_800).map(|key| (key, ())).collect();
    assert_eq!(map.len(), 12_800);
    assert_eq!(map.iter().len(), 12_800);
    assert!(map.range(..100).len() == 100 && map.range(12_000..).len() == 800);
}
