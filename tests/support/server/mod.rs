//! The model of a server, written from the rules R4, R6 and R8 and the protocol alone: a few maps, several instances
//! with clocks of their own, transactions that commit late.

mod backend;
mod clock;
mod database;
mod operations;
mod reply;

pub use clock::{Instance, Limits};
pub use database::{Database, Stored};

use std::collections::BTreeMap;

use escale::codec::{OpResult, SyncRequest};
use escale::model::Epoch;

pub use super::backend::{Committed, Entry, Write};

/// How this server uses the freedom that the protocol leaves.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Rows and departures of a reply.
    pub page_rows: usize,
    /// A pull from 0 is told what is gone; where not, it ends with `present`.
    pub tells_gone_on_whole: bool,
    /// A pull from 0 ends with `present` in any case.
    pub present_on_whole: bool,
    /// A def for which no room was left has an empty part with a cursor; where not, it has no part.
    pub empty_part_when_full: bool,
    /// `total` is told.
    pub tells_total: bool,
    /// What becomes of an operation that changes nothing.
    pub idle: Idle,
}

/// What a server does with an operation that changes nothing. Only the first is the protocol's; sessions must live with all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// Its version is that of its documents, and later writes may name it.
    #[default]
    Kept,
    /// Its version is 0, and `{ op }` means that version by the letter.
    Zero,
    /// The documents keep theirs, it has one of its own, and `{ op }` means that by the letter.
    Stamped,
    /// The documents are written all the same.
    Written,
}

impl Habits {
    /// The habits of that number.
    pub fn of(n: u64) -> Self {
        Habits {
            page_rows: [1, 2, 3, 5, 1000][(n / 16 % 5) as usize],
            tells_gone_on_whole: n & 1 == 0,
            present_on_whole: n & 2 == 0,
            empty_part_when_full: n & 4 == 0,
            tells_total: n & 8 == 0,
            idle: Idle::Kept,
        }
    }
}

/// A transaction under way: stamped at its start, seen by nobody until it commits.
pub struct Transaction {
    v: u64,
    began: u64,
    writes: Vec<Write>,
}

/// A request that was executed, and is not answered yet.
struct Call {
    account: usize,
    request: SyncRequest,
    results: Vec<OpResult>,
    epoch: Epoch,
    told: u64,
}

pub struct ModelServer {
    pub db: Database,
    pub limits: Limits,
    pub habits: Habits,
    pub instances: Vec<Instance>,
    /// Milliseconds that every clock of the server is set back by.
    pub set_back: u64,
    /// Number of the key that cursors are made with: others are refused.
    pub cursor_key: u64,
    open: BTreeMap<u64, Transaction>,
    last_transaction: u64,
    last_epoch_ms: u64,
    /// The histories of the epochs that ended, by epoch.
    past: BTreeMap<Epoch, Vec<Entry>>,
    /// What was answered in the epochs that ended.
    past_results: Vec<BTreeMap<(usize, String), OpResult>>,
    backups: Vec<Database>,
    calls: BTreeMap<u64, Call>,
    last_call: u64,
    /// Commits that nobody was told of yet.
    told_of: Vec<Committed>,
}

impl ModelServer {
    pub fn new(habits: Habits, instances: usize, now: u64) -> Self {
        let epoch = Epoch::new(now, "first").expect("an epoch");
        ModelServer {
            db: Database::new(epoch),
            limits: Limits::default(),
            habits,
            instances: vec![Instance::default(); instances],
            set_back: 0,
            cursor_key: 1,
            open: BTreeMap::new(),
            last_transaction: 0,
            last_epoch_ms: now,
            past: BTreeMap::new(),
            past_results: Vec::new(),
            backups: Vec::new(),
            calls: BTreeMap::new(),
            last_call: 0,
            told_of: Vec::new(),
        }
    }

    /// Begins a transaction on an instance. Gives its number.
    pub fn begin_write(&mut self, instance: usize, now: u64, writes: Vec<Write>) -> u64 {
        let v = self.stamp(instance, now);
        self.last_transaction += 1;
        self.open.insert(self.last_transaction, Transaction { v, began: now, writes });
        self.last_transaction
    }

    /// Commits; one that has outlasted the bound is aborted (R4), and touches nothing.
    pub fn commit_write(&mut self, number: u64, now: u64) -> Option<Committed> {
        let transaction = self.open.remove(&number)?;
        if now.saturating_sub(transaction.began) > self.limits.transaction_ms {
            return None;
        }
        Some(self.db.write(transaction.v, &transaction.writes))
    }

    /// Restores the last copy; a new epoch begins (R8). Gives whether there was one.
    fn put_back(&mut self, now: u64) -> bool {
        let Some(copy) = self.backups.last().cloned() else { return false };
        let now_told = self.db.told;
        self.renew_from(copy, now);
        // Clocks go on from what was told: only the data went back.
        self.db.told = self.db.told.max(now_told);
        true
    }

    fn renew_from(&mut self, mut database: Database, now: u64) {
        self.last_epoch_ms = now.max(self.last_epoch_ms + 1);
        database.epoch = Epoch::new(self.last_epoch_ms, "later").expect("an epoch");
        let ended = std::mem::replace(&mut self.db, database);
        self.past_results.push(ended.operations.results);
        self.past.insert(ended.epoch, ended.history);
        self.open.clear();
        self.cursor_key += 1;
    }
}
