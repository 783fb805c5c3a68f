//! Times and how they are spread.

use std::fmt;
use std::time::Duration;

/// Times of many events of one kind.
#[derive(Default)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The time within which so many of a thousand events came.
    pub fn within(&self, thousandths: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * thousandths).div_ceil(1_000);
        sorted.get(at.max(1) - 1).copied().unwrap_or_default()
    }
}

/// The median, the 99th percentile and the longest time, in milliseconds.
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |thousandths| self.within(thousandths).as_secs_f64() * 1_000.0;
        write!(f, "p50 {:.1} ms, p99 {:.1} ms, at most {:.1} ms", ms(500), ms(990), ms(1_000))
    }
}

#[test]
fn the_times_within_which_so_many_came() {
    let mut times = Times::default();
    assert_eq!(times.within(500), Duration::ZERO);
    (1..=200).rev().for_each(|ms| times.add(Duration::from_millis(ms)));
    let within = [0, 500, 990, 1_000].map(|thousandths| times.within(thousandths).as_millis());
    assert_eq!(within, [1, 100, 198, 200]);
}
