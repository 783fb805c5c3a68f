//! Time, behind a trait: the machine's clock, and a clock that tests set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The two clocks that a server reads.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970 UTC. May be wrong, and may go back.
    fn now_ms(&self) -> u64;

    /// Milliseconds since an arbitrary instant. Never goes back: durations are measured with it.
    fn elapsed_ms(&self) -> u64;

    /// Waits for so many milliseconds. Returns whether they have passed: a clock of a simulation goes on by other means.
    fn pass(&self, ms: u64) -> bool;
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// The clock, ready to be shared.
    pub fn shared() -> Arc<dyn Clock> {
        Arc::new(SystemClock { started: Instant::now() })
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
    }

    fn elapsed_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn pass(&self, ms: u64) -> bool {
        std::thread::sleep(Duration::from_millis(ms));
        true
    }
}

/// A clock that stands still until a test moves it: for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicU64,
    elapsed: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `now_ms`.
    pub fn at(now_ms: u64) -> Arc<Self> {
        Arc::new(ManualClock { now: AtomicU64::new(now_ms), elapsed: AtomicU64::new(0) })
    }

    /// Lets time pass on both clocks.
    pub fn advance(&self, ms: u64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
        self.elapsed.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets the date, forward or back. No time passes.
    pub fn set(&self, now_ms: u64) {
        self.now.store(now_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn elapsed_ms(&self) -> u64 {
        self.elapsed.load(Ordering::SeqCst)
    }

    fn pass(&self, ms: u64) -> bool {
        self.advance(ms);
        true
    }
}
