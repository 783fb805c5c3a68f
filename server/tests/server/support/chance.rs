//! Seeded random choices, for runs that are too long for proptest.

use escale_testkit::seeds;

/// SplitMix64: small, and good enough for choices.
pub struct Chance(u64);

impl Chance {
    /// From `ESCALE_SEED`, or from a new seed each time, which is printed.
    pub fn new() -> Self {
        let seed = seeds::start();
        eprintln!("ESCALE_SEED={seed}");
        Chance(seed)
    }

    /// From that seed.
    pub fn of(seed: u64) -> Self {
        Chance(seed)
    }

    /// Another generator with an independent sequence.
    pub fn fork(&mut self) -> Self {
        Chance(self.next())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True in `percent` of a hundred cases.
    pub fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }
}
