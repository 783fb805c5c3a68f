//! The only source of randomness in the core: the system's, or a seeded one in tests and simulations.

use crate::error::{Code, Error, Result};

/// A source of random bytes.
pub trait Random {
    /// Fills the buffer. An error if the system has no random bytes; then nothing is sealed.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()>;

    /// A number below `bound` (at least 1), uniform enough for delays.
    fn below(&mut self, bound: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes) % bound.max(1))
    }

    /// Random text of 22 characters, 128 bits.
    fn text(&mut self) -> Result<String> {
        use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
        let mut bytes = [0; 16];
        self.fill(&mut bytes)?;
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }
}

/// The system's source: `crypto.getRandomValues` in a browser.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        getrandom::fill(bytes).map_err(|e| Error::new(Code::Internal, format!("no random bytes: {e}")))
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
