//! The figures that an instance takes of its own work. They cost some nanoseconds each, and nobody has to read them.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

/// Seconds from 0.1 ms to 13 s: a commit without a disk, and a wait that is given up.
pub fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 2.0, 18))
}

/// The figures of an instance since its start. Clones share them.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Until a write has its turn in its org (R34).
    pub wait_seconds: Histogram,
    /// From that turn to the commit.
    pub write_seconds: Histogram,
    /// The commits themselves.
    pub commit_seconds: Histogram,
    /// Times that all epochs were renewed, because the database may have lost commits (R8, R39).
    pub renewals: Counter,
    /// Milliseconds by which the database's clock was ahead at the last look (R35).
    pub database_clock_ms: Gauge,
}

impl Figures {
    /// All at zero.
    pub fn new() -> Self {
        Figures {
            wait_seconds: seconds(),
            write_seconds: seconds(),
            commit_seconds: seconds(),
            renewals: Counter::default(),
            database_clock_ms: Gauge::default(),
        }
    }
}
