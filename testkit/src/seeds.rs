//! One convention for everything random (docs/testing.md): `ESCALE_SEED` plays one seed again, `ESCALE_CASES`
//! plays more or fewer of them, and `ESCALE_EFFORT=proof` ten times as many as usual. `ESCALE_SEEDS=same` plays the
//! same ones each time. A failing test has printed the line that plays it again.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

#[cfg(feature = "proptest")]
use proptest::test_runner::{Config, RngSeed};

/// `ESCALE_SEED`, if it is given.
pub fn given() -> Option<u64> {
    number("ESCALE_SEED")
}

/// `ESCALE_CASES`, or the usual number, or ten times as many with `ESCALE_EFFORT=proof`.
pub fn cases(usual: u32) -> u32 {
    u32::try_from(count("ESCALE_CASES", usual.into())).expect("ESCALE_CASES is too large")
}

/// The number of an environment variable that only some tests read; without it as in `cases`.
pub fn count(variable: &str, usual: u64) -> u64 {
    number(variable).unwrap_or_else(|| usual * effort(std::env::var("ESCALE_EFFORT").ok().as_deref()))
}

/// How many times the usual number is played.
fn effort(named: Option<&str>) -> u64 {
    match named {
        None | Some("") => 1,
        Some("proof") => 10,
        Some(other) => panic!("ESCALE_EFFORT is proof or not set: {other}"),
    }
}

/// The seeds to play: the one given; otherwise from 0, as many as `cases` says.
pub fn each(usual: u32) -> Range<u64> {
    given().map_or(0..cases(usual).into(), |seed| seed..seed + 1)
}

/// The seed that random histories start from: the one given, or 1 with `ESCALE_SEEDS=same`, or a new one.
pub fn start() -> u64 {
    given().unwrap_or_else(|| match std::env::var("ESCALE_SEEDS").ok().as_deref() {
        Some("same") => 1,
        // Short, because people type it.
        None | Some("" | "new") => RandomState::new().hash_one("a seed") & 0xffff_ffff,
        Some(other) => panic!("ESCALE_SEEDS is same, new or not set: {other}"),
    })
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
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[cfg(test)]
mod tests {
    use super::effort;

    #[test]
    fn the_dial_knows_one_word() {
        assert_eq!([None, Some(""), Some("proof")].map(effort), [1, 1, 10]);
        assert!(
            std::panic::catch_unwind(|| effort(Some("profo"))).is_err(),
            "a misspelt dial is no short run"
        );
    }
}
