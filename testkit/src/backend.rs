//! The world's view of a server, so that one driver plays against several: the model, written from the rules,
//! and the real engine (`sim`).

use std::collections::{BTreeMap, BTreeSet};

use escale::Code;
use escale::codec::{OpResult, ServerParts, SyncReply, SyncRequest};
use escale::model::{Def, Epoch, Pk};
use escale::sync::Refusal;

use super::files::{FilesAnswer, FilesFault, FilesStep, FilesWork};
use super::plan::Plan;
use super::schema::{Key, Map, tree_of_def};

/// The owner of a session: the numbers of an org and of an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tenant {
    pub org: usize,
    pub account: usize,
}

/// A write of a transaction.
#[derive(Clone, Debug)]
pub enum Write {
    Put { key: Key, data: Map, max_life: Option<u64> },
    Delete(Key),
}

/// The result of one write, for the checks only.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Key,
    pub v: u64,
    /// Empty for a deletion.
    pub defs: BTreeSet<Def>,
    pub data: Map,
    pub max_life: Option<u64>,
}

/// The effect of a commit: the documents written, and every def that it touched.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    pub org: usize,
    pub v: u64,
    pub keys: Vec<Key>,
    pub defs: Vec<Def>,
    /// The trees of the clock `sequence` that it wrote in, by the keys of their parents, with its numbers there.
    pub numbers: BTreeMap<Key, u64>,
}

impl Committed {
    /// The version at which it changed that def.
    pub fn version_of(&self, def: &Def) -> u64 {
        let number = tree_of_def(def).and_then(|tree| self.numbers.get(&tree));
        number.copied().unwrap_or(self.v)
    }
}

/// A request as it arrived at an instance.
pub struct Asked {
    pub by: Tenant,
    pub request: SyncRequest,
    pub instance: usize,
    pub now: u64,
}

/// The progress of the answer to a request.
pub enum Answer {
    Reply(Result<SyncReply, Refusal>),
    /// Not ready: the server continues after that many milliseconds.
    Later(u64),
    /// The process that worked on it has ended.
    Never,
}

/// A server, with a record of everything that it did, for the checks.
pub trait Backend: Sized {
    /// An empty server, at the beginning.
    fn open(plan: &Plan, random: u64, now: u64) -> Self;

    /// A short description for the log.
    fn describe(&self) -> String;

    /// Writes documents before any client exists.
    fn begin_with(&mut self, writes: &[Write]);

    /// Receives a request: its operations are executed, or begun. Returns its number, and a note for the log.
    fn receive(&mut self, asked: Asked, is_contended: &mut dyn FnMut() -> bool) -> (u64, String);

    /// Continues with a request.
    fn answer(&mut self, call: u64, now: u64) -> Answer;

    /// The commits since the last call.
    fn committed(&mut self) -> Vec<Committed>;

    /// The current documents, for a client registered for these defs, of which the commit concerns some; none if this
    /// server only hints.
    fn push(
        &mut self,
        session: &str,
        of: &Committed,
        registered: &BTreeSet<Def>,
        at: (usize, u64),
    ) -> Option<ServerParts>;

    /// Begins a transaction of the server itself, on an instance. Returns its number.
    fn begin(&mut self, org: usize, instance: usize, now: u64, writes: Vec<Write>) -> u64;

    /// Commits it, or aborts it if it has taken too long.
    fn commit(&mut self, transaction: u64, now: u64);

    fn open_transactions(&self) -> usize;

    /// Sets an instance's clock ahead, by `of_255` / 255 of the skew.
    fn skew(&mut self, instance: usize, of_255: u8);

    /// Ends the process of an instance, with the requests in progress, and starts another.
    fn restart(&mut self, instance: usize);

    /// Makes the next commit fail.
    fn fail_commit(&mut self);

    /// Sets every clock back from the true time.
    fn set_back(&mut self, ms: u64);

    /// Ends the faults of the server, and sets its clocks right.
    fn heal(&mut self);

    /// Makes all cursors invalid.
    fn change_cursor_key(&mut self);

    /// Lets the retention time pass for everything older than `but_ms`. A server with its own retention time
    /// forgets as much as that allows.
    fn forget(&mut self, but_ms: u64, now: u64);

    fn back_up(&mut self);

    /// Restores the last copy. Returns whether there was one.
    fn restore(&mut self, now: u64) -> bool;

    /// Begins work on files, on an instance. Returns its number.
    fn begin_files(&mut self, _: FilesWork, _instance: usize, _now: u64) -> u64 {
        0
    }

    /// Continues with such work. A server without files refuses it.
    fn go_on_files(&mut self, _work: u64, _now: u64) -> FilesStep {
        FilesStep::Done(FilesAnswer::Refused(Code::NotSupported))
    }

    /// The store of objects has a fault.
    fn inject_file_fault(&mut self, _: FilesFault) {}

    /// Restores the last copy, and the copy of the store of objects of the same moment. Returns whether there was one.
    fn restore_files(&mut self, _now: u64) -> bool {
        false
    }

    /// Deletes all documents that reference files, and lets all deadlines pass: nothing of a file must be left.
    fn end_files(&mut self, _now: u64) {}

    /// Begins another epoch by command, for one org or for all.
    fn renew(&mut self, now: u64);

    /// The epoch of an org (R8).
    fn epoch(&self, org: usize) -> &Epoch;

    /// The highest version committed in an org.
    fn highest(&self, org: usize) -> u64;

    /// Whether an earlier epoch has ended.
    fn has_past(&self) -> bool;

    /// The highest `now` given to a session.
    fn promised_now(&self) -> u64;

    /// Every write in an org in an epoch, in commit order.
    fn history(&self, org: usize, epoch: &Epoch) -> Option<&[Entry]>;

    /// All epochs so far.
    fn epochs(&self) -> Vec<Epoch>;

    /// The living members of a def.
    fn living(&self, org: usize, def: &Def, now: u64) -> Vec<(&Pk, u64, &Map)>;

    /// The answer to an operation in this epoch.
    fn result(&self, of: Tenant, id: &str) -> Option<&OpResult>;

    /// The answers to it in all epochs.
    fn results(&self, of: Tenant, id: &str) -> Vec<&OpResult>;

    /// All operations executed in this epoch, in order.
    fn executed(&self) -> Vec<(Tenant, &str)>;
}
