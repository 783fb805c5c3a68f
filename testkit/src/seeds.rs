//! One convention for everything random (docs/testing.md): `ESCALE_SEED` plays one seed again, `ESCALE_CASES`
//! plays more or fewer of them. A failing test has printed the line that plays it again.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

#[cfg(feature = "proptest")]
use proptest::test_runner::{Config, RngSeed};

/// `ESCALE_SEED`, if it is given.
pub fn given() -> Option<u64> {
    number("ESCALE_SEED")
}

/// `ESCALE_CASES`, or the usual number.
pub fn cases(usual: u32) -> u32 {
    number("ESCALE_CASES").map_or(usual, |cases| u32::try_from(cases).expect("ESCALE_CASES is too large"))
}

/// The seeds to play: the one given; otherwise from 0, as many as `ESCALE_CASES` or the usual number.
pub fn each(usual: u32) -> Range<u64> {
    given().map_or(0..cases(usual).into(), |seed| seed..seed + 1)
}

/// The seed that proptest starts from: the one given, or a new one each time.
pub fn start() -> u64 {
    // Short, because people type it.
    given().unwrap_or_else(|| RandomState::new().hash_one("a seed") & 0xffff_ffff)
}

/// The configuration of a proptest property. The seed is printed, so that the test's output shows it if a
/// case fails.
#[cfg(feature = "proptest")]
pub fn config(usual: u32) -> Config {
    let seed = start();
    eprintln!("ESCALE_SEED={seed}");
    Config {
        cases: cases(usual),
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}
