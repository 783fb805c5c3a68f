//! The settings of an instance: DELTA, skew, retention, the size of pages.

use std::time::Duration;

use escale::limits::PAGE_BYTES;
use escale::{Code, Error, Result};

/// Milliseconds after which a write is aborted (R4). Also the most by which a reply's `now` may exceed the
/// value stored in the database.
pub const WRITE_MS_MAX: u64 = 1_000;

/// The numeric settings of an instance.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Sessions subtract this from `now` to get their collections' `v` (R4).
    pub delta_ms: u64,
    /// The largest difference between the clocks of several instances; 0 if there is one instance. It only
    /// bounds DELTA.
    pub skew_ms: u64,
    /// Days for which tombstones and departures are kept (R6).
    pub retention_days: u64,
    /// Days for which the results of operations are kept (R11).
    pub results_days: u64,
    /// Bytes of rows after which a reply stops.
    pub page_bytes: usize,
    /// The steps in which the stored `now` of an org rises. Replies in between are answered without a write.
    pub tell_step_ms: u64,
    /// How long a reply waits for its turn to store its `now`. If it gets none, it gives an earlier `now`.
    /// That is always safe: the session then asks again for a little more.
    pub tell_wait: Duration,
    /// How long a write waits for the writes before it, each of which is bounded by [`WRITE_MS_MAX`]. If it
    /// gets no turn, it fails with `contention`.
    pub write_wait: Duration,
    /// Whether a database server that takes over has every commit that was acknowledged (R39).
    pub is_failover_lossless: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            delta_ms: 2_000,
            skew_ms: 0,
            retention_days: 365,
            results_days: 90,
            page_bytes: PAGE_BYTES,
            // A reply may exceed it by twice as much, so no reply gives an earlier `now` for the steps.
            tell_step_ms: WRITE_MS_MAX / 2,
            tell_wait: Duration::from_millis(250),
            write_wait: Duration::from_secs(5),
            is_failover_lossless: false,
        }
    }
}

impl Settings {
    /// Refuses settings under which R4 would not hold.
    pub fn check(&self) -> Result<()> {
        let bad = |what: String| Err(Error::new(Code::BadOption, what));
        let least = WRITE_MS_MAX.saturating_add(self.skew_ms);
        if self.delta_ms < least {
            return bad(format!(
                "--delta {}: at least {least}, the longest write ({WRITE_MS_MAX}) and the skew ({})",
                self.delta_ms, self.skew_ms
            ));
        }
        if self.delta_ms > 3_600_000 {
            return bad("--delta: at most an hour; every pull brings back what changed in it".into());
        }
        if self.retention_days == 0 || self.retention_days > 36_500 {
            return bad("--retention: 1 to 36500 days".into());
        }
        if self.results_days == 0 || self.results_days > 36_500 {
            return bad("--results: 1 to 36500 days".into());
        }
        if self.page_bytes == 0 || self.page_bytes > 16 << 20 {
            return bad("--page-bytes: 1 to 16777216".into());
        }
        Ok(())
    }

    /// The retention in milliseconds.
    pub fn retention_ms(&self) -> u64 {
        self.retention_days * 86_400_000
    }

    /// How long results are kept, in milliseconds.
    pub fn results_ms(&self) -> u64 {
        self.results_days * 86_400_000
    }
}
