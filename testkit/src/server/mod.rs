//! The model of a server, written from the rules R4, R6 and R8 and the protocol alone: a few maps, several
//! instances with separate clocks, transactions that commit late.

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

/// This server's choices within the freedom that the protocol leaves.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Rows and departures of a reply.
    pub page_rows: usize,
    /// A pull from 0 lists deletions and departures. Otherwise it ends with `present`.
    pub tells_gone_on_whole: bool,
    /// A pull from 0 ends with `present` in any case.
    pub present_on_whole: bool,
    /// A def without room gets an empty part with a cursor. Otherwise it gets no part.
    pub empty_part_when_full: bool,
    /// `total` is sent.
    pub tells_total: bool,
    /// The treatment of an operation that changes nothing.
    pub idle: Idle,
}

/// The possible treatments of an operation that changes nothing. Only the first is the protocol's; sessions
/// must work with all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Idle {
    /// Its version is that of its documents, and later writes may name it.
    #[default]
    Kept,
    /// Its version is 0, and `{ op }` means exactly that version.
    Zero,
    /// The documents keep their versions, the operation has its own, and `{ op }` means exactly that one.
    Stamped,
    /// The documents are written all the same.
    Written,
}

impl Habits {
    /// The habits with that number.
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

/// A transaction in progress: stamped at its start, invisible to others until it commits.
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
    promised_now: u64,
}

pub struct ModelServer {
    pub db: Database,
    pub limits: Limits,
    pub habits: Habits,
    pub instances: Vec<Instance>,
    /// Milliseconds by which every clock of the server is set back.
    pub set_back: u64,
    /// Number of the key that signs cursors: cursors of other keys are refused.
    pub cursor_key: u64,
    open: BTreeMap<u64, Transaction>,
    last_transaction: u64,
    last_epoch_ms: u64,
    /// The histories of the ended epochs, by epoch.
    past: BTreeMap<Epoch, Vec<Entry>>,
    /// The answers given in the ended epochs.
    past_results: Vec<BTreeMap<(usize, String), OpResult>>,
    backups: Vec<Database>,
    calls: BTreeMap<u64, Call>,
    last_call: u64,
    /// Commits that no caller has taken yet.
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

    /// Begins a transaction on an instance. Returns its number.
    pub fn begin_write(&mut self, instance: usize, now: u64, writes: Vec<Write>) -> u64 {
        let v = self.stamp(instance, now);
        self.last_transaction += 1;
        self.open.insert(self.last_transaction, Transaction { v, began: now, writes });
        self.last_transaction
    }

    /// Commits. A transaction that outlasted the bound is aborted (R4), and changes nothing.
    pub fn commit_write(&mut self, number: u64, now: u64) -> Option<Committed> {
        let transaction = self.open.remove(&number)?;
        if now.saturating_sub(transaction.began) > self.limits.transaction_ms {
            return None;
        }
        Some(self.db.write(transaction.v, &transaction.writes))
    }

    /// Restores the last copy, and begins a new epoch (R8). Returns whether there was a copy.
    fn put_back(&mut self, now: u64) -> bool {
        let Some(copy) = self.backups.last().cloned() else { return false };
        let promised = self.db.promised_now;
        self.renew_from(copy, now);
        // Clocks continue from the `now` that was given: only the data went back.
        self.db.promised_now = self.db.promised_now.max(promised);
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
