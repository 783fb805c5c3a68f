//! The only source of randomness in the core: the system's, or a seeded one in tests and simulations.

use crate::error::{Code, Error, Result};

/// A source of random bytes.
pub trait Random {
    /// Fills the buffer. An error if the system has no random bytes; then nothing is sealed.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()>;

    /// A number below `bound` (at least 1), uniform enough for delays.
    fn below(&mut self, bound: u64) -> Result<u64> {
        Ok(u64::from_le_bytes(drawn(self)?) % bound.max(1))
    }

    /// Random text of 22 characters, 128 bits.
    fn text(&mut self) -> Result<String> {
        use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
        Ok(URL_SAFE_NO_PAD.encode(drawn::<16>(self)?))
    }
}

/// Random bytes, as many as the caller's type has.
pub fn drawn<const N: usize>(random: &mut (impl Random + ?Sized)) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    random.fill(&mut bytes)?;
    Ok(bytes)
}

/// The system's source: `crypto.getRandomValues` in a browser.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes).map_err(|_| Error::new(Code::Internal, "there are no random bytes"))
    }
}

/// SplitMix64 from a seed, for tests and simulations only: never for keys that matter.
#[derive(Clone, Debug)]
pub struct SeededRandom(u64);

impl SeededRandom {
    /// The source of that seed.
    pub fn new(seed: u64) -> Self {
        SeededRandom(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Random for SeededRandom {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of SplitMix64's reference implementation: a seed plays the same history for ever.
    #[test]
    fn a_seed_gives_the_numbers_of_splitmix64() {
        let numbers = |seed| {
            let mut random = SeededRandom::new(seed);
            [random.next_u64(), random.next_u64(), random.next_u64()]
        };
        assert_eq!(numbers(0), [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
        let of_1234567 = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(numbers(1_234_567), of_1234567);
        let bytes = drawn::<11>(&mut SeededRandom::new(0)).unwrap();
        let [first, second, _] = numbers(0).map(u64::to_le_bytes);
        assert_eq!((&bytes[..8], &bytes[8..]), (&first[..], &second[..3]));
    }

    #[test]
    fn a_number_is_below_its_bound_and_every_one_is_met() {
        let mut random = SeededRandom::new(1);
        for bound in 1..20 {
            let met: std::collections::BTreeSet<u64> =
                (0..400).map(|_| random.below(bound).unwrap()).collect();
            assert_eq!(met, (0..bound).collect(), "below {bound}");
        }
        assert_eq!(random.below(0).unwrap(), 0, "no bound at all");
    }

    #[test]
    fn the_systems_bytes_and_texts_differ_each_time() {
        let mut random = SystemRandom;
        assert_ne!(drawn::<16>(&mut random).unwrap(), drawn::<16>(&mut random).unwrap());
        let (text, other) = (random.text().unwrap(), random.text().unwrap());
        assert_ne!(text, other);
        assert_eq!((text.len(), other.len()), (22, 22));
    }
}
