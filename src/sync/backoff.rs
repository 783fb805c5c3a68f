//! Delays between attempts to reach the server: exponential with full jitter, 100 ms to 30 s. Used for pulls,
//! for the socket, for operations and for single defs.

use crate::crypto::Random;
use crate::error::Result;
use crate::limits::BACKOFF_MS;

/// The first delay, doubled with each failure after the first, up to the longest one.
pub fn doubled_ms((first, longest): (u64, u64), failures: u32) -> u64 {
    let times = 1_u64.checked_shl(failures).unwrap_or(u64::MAX);
    first.saturating_mul(times).min(longest)
}

/// The number of failures in a row, and the delay that follows from it.
#[derive(Clone, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Counts one more failure and returns the delay: uniform between 0 and the exponential bound.
    pub fn next_ms(&mut self, random: &mut dyn Random) -> Result<u64> {
        let bound = doubled_ms(BACKOFF_MS, self.failures);
        self.failures = self.failures.saturating_add(1);
        random.below(bound + 1)
    }

    /// Starts over: an attempt succeeded, or there is a reason to try at once.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// The number of failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::SeededRandom;

    #[test]
    fn delays_grow_to_the_bound_and_are_spread() {
        let (mut backoff, mut random) = (Backoff::default(), SeededRandom::new(4));
        let mut bound = BACKOFF_MS.0;
        for _ in 0..12 {
            assert!(backoff.next_ms(&mut random).unwrap() <= bound);
            bound = (bound * 2).min(BACKOFF_MS.1);
        }
        let late: Vec<u64> = (0..100).map(|_| backoff.next_ms(&mut random).unwrap()).collect();
        assert!(late.iter().any(|ms| *ms < 10_000) && late.iter().any(|ms| *ms > 20_000), "{late:?}");
        backoff.reset();
        assert!(backoff.next_ms(&mut random).unwrap() <= BACKOFF_MS.0);
    }
}
