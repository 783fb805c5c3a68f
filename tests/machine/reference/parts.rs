//! The parts of the reference: delays, loads and requests, and the status that it expects.

use std::collections::BTreeMap;

use escale::Code;
use escale::crypto::{Random, SeededRandom};
use escale::limits::BACKOFF_MS;
use escale::model::{Def, Pk};
use escale::sync::{Phase, Updates};

/// How far requests, or openings of a socket, may be ahead of one each second.
const BURST_MS: u64 = 9_000;

/// Failures in a row.
#[derive(Default)]
pub struct Failures(pub u32);

impl Failures {
    /// The delay after one more.
    pub fn next(&mut self, random: &mut SeededRandom) -> u64 {
        let most = (BACKOFF_MS.0 << self.0.min(20)).min(BACKOFF_MS.1);
        self.0 += 1;
        random.below(most + 1).expect("a number")
    }
}

/// Limits how many follow each other: ten at once, then one a second.
#[derive(Default)]
pub struct Pace(u64);

impl Pace {
    pub fn free_at(&self) -> u64 {
        self.0.saturating_sub(BURST_MS)
    }

    pub fn take(&mut self, now: u64) {
        self.0 = self.0.max(now) + 1_000;
    }

    pub fn reset(&mut self) {
        self.0 = 0;
    }
}

/// A load of several pages.
pub struct Load {
    pub cursor: String,
    pub since: u64,
    pub settle: u64,
    pub received: u64,
    pub total: Option<u64>,
}

#[derive(Default)]
pub struct Known {
    pub v: u64,
    pub is_ready: bool,
    pub load: Option<Load>,
    /// The last change of the last page.
    pub end: Option<(u64, Pk)>,
    /// The load began again because its cursor was refused.
    pub has_restarted: bool,
    /// The highest version of the load's pages.
    pub reached: Option<u64>,
    /// An operation was executed at a version that the load has passed.
    pub is_behind: bool,
    /// A hint came during the load.
    pub is_hinted: bool,
}

impl Known {
    pub fn is_loading(&self) -> bool {
        self.load.is_some() || self.v == 0
    }

    /// A page that is not the last one goes up to that version.
    pub fn reach(&mut self, is_first: bool, highest: Option<u64>) {
        if is_first {
            self.reached = Some(0);
        }
        self.reached = self.reached.map(|reached| reached.max(highest.unwrap_or(0)));
    }

    pub fn restart(&mut self) {
        (self.v, self.load) = (0, None);
    }
}

/// The request in flight.
pub struct Flight {
    pub number: u64,
    /// The `v` and the cursor of each def that still counts.
    pub asked: BTreeMap<Def, (u64, Option<String>)>,
    pub subs: usize,
    /// When it was sent, and its bytes: those of the operations' arguments, and 64 for each def.
    pub sent: (u64, usize),
    /// The ids and the numbers of the operations.
    pub ops: Vec<(String, u64)>,
    pub token: u64,
    pub is_less: bool,
}

/// One status, as far as it depends on the contact with the server.
#[derive(Debug, PartialEq)]
pub struct Shown {
    pub phase: Phase,
    pub updates: Option<Updates>,
    pub progress: Option<(u64, Option<u64>)>,
    pub error: Option<Code>,
    pub faults: Vec<(Def, Code)>,
    pub pending: u64,
}

impl Flight {
    pub fn has_asked(&self) -> bool {
        self.subs > 0 || !self.ops.is_empty()
    }

    pub fn forget_earlier_epoch(&mut self) {
        let before = self.asked.len();
        self.asked.retain(|_, (since, cursor)| *since == 0 && cursor.is_none());
        self.is_less |= self.asked.len() < before;
    }
}
