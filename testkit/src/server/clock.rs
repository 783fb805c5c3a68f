//! The server's clocks (R4): several instances that disagree, and may be set back.

use super::ModelServer;

/// The bounds that make DELTA large enough.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The greatest difference between two instances' clocks.
    pub skew_ms: u64,
    /// The longest transaction.
    pub transaction_ms: u64,
    /// DELTA: at least the sum of both.
    pub delta_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { skew_ms: 800, transaction_ms: 1_000, delta_ms: 1_801 }
    }
}

/// An instance of the server, and how far its clock is ahead: at most the greatest skew.
#[derive(Clone, Copy, Debug, Default)]
pub struct Instance {
    pub ahead_ms: u64,
}

impl ModelServer {
    fn clock(&self, instance: usize, now: u64) -> u64 {
        let instance = self.instances[instance % self.instances.len()];
        (now + instance.ahead_ms).saturating_sub(self.set_back)
    }

    /// The `now` of a reply, read before its snapshot is opened. The model remembers it.
    pub fn tell_now(&mut self, instance: usize, now: u64) -> u64 {
        let promised_now = self.clock(instance, now);
        self.db.promised_now = self.db.promised_now.max(promised_now);
        promised_now
    }

    /// The retention time has passed for all but the last `keep_ms`, by the server's own clocks. A tombstone
    /// younger than a possible new stamp must stay, or its document could begin again below it.
    pub fn forget_all_but(&mut self, keep_ms: u64, now: u64) {
        let clock = now.saturating_sub(self.set_back);
        self.db.forget_before(clock.saturating_sub(keep_ms));
    }

    /// The version of a transaction that begins: never below any version committed or `now` given, less the
    /// skew.
    pub(super) fn stamp(&self, instance: usize, now: u64) -> u64 {
        let floor = self.db.promised_now.max(self.db.highest).saturating_sub(self.limits.skew_ms);
        self.clock(instance, now).max(floor)
    }
}
