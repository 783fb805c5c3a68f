//! The places that new operations take in the order.

/// Orders from here on belong to operations that the leader has not taken in yet.
const FLOOR: u64 = 1 << 52;

/// The places of new operations.
#[derive(Default)]
pub struct Places {
    last: u64,
    /// A follower's new operations come after all others, until the leader gives them their place.
    floor: u64,
    /// How many operations with local parts were issued.
    issued: u64,
}

impl Places {
    /// The place after all others.
    pub fn next(&self) -> u64 {
        (self.last + 1).max(self.floor)
    }

    /// An operation takes that place. Returns whether it comes after all others.
    pub fn take(&mut self, order: u64) -> bool {
        let is_last = order > self.last;
        self.last = self.last.max(order);
        is_last
    }

    /// This session follows. Returns the number that comes before those of its new actions.
    pub fn follow(&mut self) -> i64 {
        self.floor = FLOOR;
        FLOOR as i64
    }

    /// This session leads: new operations come after the one of that order.
    pub fn lead(&mut self, last: u64) {
        (self.last, self.floor) = (last, 0);
    }

    /// Counts another operation with local parts.
    pub fn count_issued(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }
}
