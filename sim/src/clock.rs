//! An instance's clocks, which the world moves.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use escale_server::clock::Clock;

/// Clocks that show the world's time. The date may be set ahead of it or behind it.
#[derive(Debug, Default)]
pub struct SimClock {
    now: AtomicU64,
    ahead_ms: AtomicI64,
}

impl SimClock {
    /// Sets the world's time.
    pub fn show(&self, now: u64) {
        self.now.store(now, Ordering::SeqCst);
    }

    /// Sets how far the date is ahead of the world's time.
    pub fn set_ahead(&self, ms: i64) {
        self.ahead_ms.store(ms, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now_ms(&self) -> u64 {
        self.now.load(Ordering::SeqCst).saturating_add_signed(self.ahead_ms.load(Ordering::SeqCst))
    }

    fn elapsed_ms(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn pass(&self, _: u64) -> bool {
        false
    }
}
