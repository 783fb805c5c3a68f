//! Maps and sets with a short hash. The standard one withstands whoever chooses the keys at the price of a few hundred
//! instructions for each, which a session pays some ten times for each document when it opens. Here a word is a
//! multiplication, from a seed of each map's own: keys that fall together in one map do not in another, and keys are mostly
//! hashes already.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher};

/// A map with a short hash.
pub type QuickMap<K, V> = HashMap<K, V, Seed>;

/// A set with a short hash.
pub type QuickSet<K> = HashSet<K, Seed>;

/// Where the hashes of one map begin.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Default for Seed {
    fn default() -> Self {
        Seed(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Seed {
    type Hasher = QuickHasher;

    fn build_hasher(&self) -> QuickHasher {
        QuickHasher(self.0)
    }
}

/// An odd number whose bits are spread: 2^64 over the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash in the making.
#[derive(Debug)]
pub struct QuickHasher(u64);

impl QuickHasher {
    fn mix(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(SPREAD);
        // A product's high bits depend on all bits of the word, its low ones do not.
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl Hasher for QuickHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        let last = rest.iter().fold(rest.len() as u64, |last, byte| (last << 8) | u64::from(*byte));
        self.mix(last);
    }

    fn write_u8(&mut self, n: u8) {
        self.mix(n.into());
    }

    fn write_u16(&mut self, n: u16) {
        self.mix(n.into());
    }

    fn write_u32(&mut self, n: u32) {
        self.mix(n.into());
    }

    fn write_u64(&mut self, n: u64) {
        self.mix(n);
    }

    fn finish(&self) -> u64 {
        let mixed = self.0.wrapping_mul(SPREAD);
        mixed ^ (mixed >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Pk;

    /// Maps place by the low bits and tell apart by the seven highest.
    #[test]
    fn pks_and_numbers_are_spread_in_low_bits_and_high_ones() {
        let pks = (0..100_000).map(|n| Pk::from_key(&[&n.to_string()]).unwrap());
        let seed = Seed::default();
        let by_pk: Vec<u64> = pks.map(|pk| seed.hash_one(pk)).collect();
        let by_number: Vec<u64> = (0..100_000_u32).map(|n| seed.hash_one(n)).collect();
        for hashes in [by_pk, by_number] {
            for place in [|hash: u64| hash & 0x3ff, |hash: u64| hash >> 54] {
                let mut counts = vec![0_u32; 1024];
                hashes.iter().for_each(|hash| counts[place(*hash) as usize] += 1);
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                assert!((40..250).contains(least) && (40..250).contains(most), "{least} to {most}");
            }
            assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len(), "no two alike");
        }
    }

    #[test]
    fn texts_that_differ_in_length_or_zeros_differ() {
        let seed = Seed::default();
        let texts = ["", "\0", "\0\0", "a", "a\0", "aaaaaaaa", "aaaaaaaa\0", "aaaaaaaaa"];
        let hashes: HashSet<u64> = texts.iter().map(|text| seed.hash_one(text)).collect();
        assert_eq!(hashes.len(), texts.len());
        assert_ne!(Seed::default().hash_one("a"), seed.hash_one("a"), "another map, another seed");
    }
}
