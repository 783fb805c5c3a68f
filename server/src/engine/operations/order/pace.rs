//! How fast operations take versions. Each takes one above all others of its org, also if the clock has not gone on since.
//! Without a pace, a session with many operations would push the org's time ahead of the clock, and lives would end early.
//!
//! So an org may be ahead by a second, and then takes a version in each millisecond. The pace counts only versions above
//! the clock, from the start of the instance: a clock that was set back holds nobody up beyond that.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use escale::{Code, Error, Result};

use crate::clock::Clock;

/// Milliseconds by which operations may push an org ahead of its clock.
const AHEAD_MS_MAX: u64 = 1_000;

/// Orgs remembered at a time, unless more are ahead.
const ORGS_MAX: usize = 4_096;

/// The orgs that are ahead.
#[derive(Default)]
pub(in crate::engine) struct Pace {
    by_org: Mutex<HashMap<String, Ahead>>,
}

/// By how much an org was ahead, and when.
#[derive(Clone, Copy)]
struct Ahead {
    ms: u64,
    at_ms: u64,
}

impl Ahead {
    fn left(self, elapsed_ms: u64) -> u64 {
        self.ms.saturating_sub(elapsed_ms.saturating_sub(self.at_ms))
    }
}

impl Pace {
    /// An operation has taken a version above the clock.
    pub(in crate::engine) fn take(&self, org: &str, clock: &dyn Clock) {
        let elapsed_ms = clock.elapsed_ms();
        let mut by_org = self.by_org.lock().unwrap_or_else(PoisonError::into_inner);
        if by_org.len() >= ORGS_MAX && !by_org.contains_key(org) {
            by_org.retain(|_, ahead| ahead.left(elapsed_ms) > 0);
        }
        let ahead = by_org.get(org).map_or(0, |ahead| ahead.left(elapsed_ms));
        by_org.insert(org.to_owned(), Ahead { ms: ahead + 1, at_ms: elapsed_ms });
    }

    /// Whether the org has to wait for its clock.
    pub(in crate::engine) fn is_ahead(&self, org: &str, clock: &dyn Clock) -> bool {
        self.wait_ms(org, clock.elapsed_ms()) > 0
    }

    /// Waits until the org may take a version, before the lock of its writes. Errors: `contention` if that takes longer
    /// than a lock would be waited for.
    pub(in crate::engine) fn keep(&self, org: &str, clock: &dyn Clock, patience: Duration) -> Result<()> {
        let (began, patience_ms) = (clock.elapsed_ms(), patience.as_millis() as u64);
        loop {
            let elapsed_ms = clock.elapsed_ms();
            let wait_ms = self.wait_ms(org, elapsed_ms);
            if wait_ms == 0 {
                return Ok(());
            }
            let is_late = elapsed_ms.saturating_sub(began) + wait_ms > patience_ms;
            if is_late || !clock.pass(wait_ms) {
                let what = "the org's versions are ahead of the clock: too many operations at once";
                return Err(Error::new(Code::Contention, what));
            }
        }
    }

    /// Milliseconds until the org may take another one.
    fn wait_ms(&self, org: &str, elapsed_ms: u64) -> u64 {
        let by_org = self.by_org.lock().unwrap_or_else(PoisonError::into_inner);
        let ahead = by_org.get(org).map_or(0, |ahead| ahead.left(elapsed_ms));
        (ahead + 1).saturating_sub(AHEAD_MS_MAX)
    }
}
