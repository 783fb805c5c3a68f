//! The model of a server, written from the rules R4, R6 and R8 and the protocol alone: a few maps, several instances
//! with clocks of their own, transactions that commit late.

mod clock;
mod database;
mod operations;
mod reply;

pub use clock::{Instance, Limits};
pub use database::{Database, Entry, Stored, Write};
pub use operations::{key_of, outcome};

use std::collections::BTreeMap;

use escale::codec::OpResult;
use escale::model::{Def, Epoch};

use super::schema::Key;

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
        }
    }
}

/// A transaction under way: stamped at its start, seen by nobody until it commits.
pub struct Transaction {
    v: u64,
    began: u64,
    writes: Vec<Write>,
}

/// What a commit did: the documents written and every def that it touched.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    pub v: u64,
    pub keys: Vec<Key>,
    pub defs: Vec<Def>,
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
        }
    }

    /// Begins a transaction on an instance. Gives its number.
    pub fn begin(&mut self, instance: usize, now: u64, writes: Vec<Write>) -> u64 {
        let v = self.stamp(instance, now);
        self.last_transaction += 1;
        self.open.insert(self.last_transaction, Transaction { v, began: now, writes });
        self.last_transaction
    }

    /// Commits; one that has outlasted the bound is aborted (R4), and touches nothing.
    pub fn commit(&mut self, number: u64, now: u64) -> Option<Committed> {
        let transaction = self.open.remove(&number)?;
        if now.saturating_sub(transaction.began) > self.limits.transaction_ms {
            return None;
        }
        Some(self.db.write(transaction.v, &transaction.writes))
    }

    pub fn open_transactions(&self) -> usize {
        self.open.len()
    }

    /// Copies the data folder.
    pub fn back_up(&mut self) {
        self.backups.push(self.db.clone());
    }

    /// Restores the last copy; a new epoch begins (R8). Gives whether there was one.
    pub fn restore(&mut self, now: u64) -> bool {
        let Some(copy) = self.backups.last().cloned() else { return false };
        let now_told = self.db.told;
        self.renew_from(copy, now);
        // Clocks go on from what was told: only the data went back.
        self.db.told = self.db.told.max(now_told);
        true
    }

    /// A new epoch by command.
    pub fn renew(&mut self, now: u64) {
        self.renew_from(self.db.clone(), now);
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

    /// Whether another epoch has ended.
    pub fn has_past(&self) -> bool {
        !self.past.is_empty()
    }

    /// What was answered to an operation, in every epoch.
    pub fn results(&self, account: usize, id: &str) -> impl Iterator<Item = &OpResult> {
        let all = self.past_results.iter().chain([&self.db.operations.results]);
        let key = (account, id.to_owned());
        all.filter_map(move |results| results.get(&key))
    }

    /// Every write of every epoch.
    pub fn histories(&self) -> impl Iterator<Item = &[Entry]> {
        self.past.values().map(Vec::as_slice).chain([self.db.history.as_slice()])
    }

    /// Every write of an epoch, in the order of their commits.
    pub fn history(&self, epoch: &Epoch) -> Option<&[Entry]> {
        if *epoch == self.db.epoch {
            return Some(&self.db.history);
        }
        self.past.get(epoch).map(Vec::as_slice)
    }
}
