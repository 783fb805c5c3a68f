//! What the world needs of a server, so that one driver plays against several: the model, written from the rules, and
//! the real engine (`sim`).

use std::collections::BTreeSet;

use escale::codec::{OpResult, ServerParts, SyncReply, SyncRequest};
use escale::model::{Def, Epoch, Pk};
use escale::sync::Refusal;

use super::plan::Plan;
use super::schema::{Key, Map};

/// Whose session it is: the numbers of an org and of an account.
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

/// What one write left: for the checks only.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Key,
    pub v: u64,
    /// Empty for a deletion.
    pub defs: BTreeSet<Def>,
    pub data: Map,
    pub max_life: Option<u64>,
}

/// What a commit did: the documents written and every def that it touched.
#[derive(Clone, Debug, Default)]
pub struct Committed {
    pub org: usize,
    pub v: u64,
    pub keys: Vec<Key>,
    pub defs: Vec<Def>,
}

/// A request as it arrived at an instance.
pub struct Asked {
    pub by: Tenant,
    pub request: SyncRequest,
    pub instance: usize,
    pub now: u64,
}

/// How far the answer to a request has come.
pub enum Answer {
    Reply(Result<SyncReply, Refusal>),
    /// It is not ready: that many milliseconds later it goes on.
    Later(u64),
    /// Whoever worked on it is gone.
    Never,
}

/// A server, and the record of all that it ever did, for the checks.
pub trait Backend: Sized {
    /// A server with nothing in it, at the beginning.
    fn open(plan: &Plan, random: u64, now: u64) -> Self;

    /// In a few words, for the log.
    fn describe(&self) -> String;

    /// Writes before anybody is there.
    fn begin_with(&mut self, writes: &[Write]);

    /// Takes a request in: its operations are executed, or begun. Gives its number, and what is to be noted.
    fn receive(&mut self, asked: Asked, is_contended: &mut dyn FnMut() -> bool) -> (u64, String);

    /// Goes on with a request.
    fn answer(&mut self, call: u64, now: u64) -> Answer;

    /// What was committed since this was asked last.
    fn committed(&mut self) -> Vec<Committed>;

    /// The documents as they are now, for those registered for these defs; none where this server only hints.
    fn push(&mut self, session: &str, of: &Committed, defs: &[Def], at: (usize, u64)) -> Option<ServerParts>;

    /// Begins a transaction of the server's own, on an instance. Gives its number.
    fn begin(&mut self, org: usize, instance: usize, now: u64, writes: Vec<Write>) -> u64;

    /// Commits it, or gives it up where it has lasted too long.
    fn commit(&mut self, transaction: u64, now: u64);

    fn open_transactions(&self) -> usize;

    /// An instance's clock is ahead, of 255 parts of the skew so many.
    fn skew(&mut self, instance: usize, of_255: u8);

    /// The process of an instance ends, with the requests that it was about, and another takes its place.
    fn restart(&mut self, instance: usize);

    /// The next commit fails.
    fn fail_commit(&mut self);

    /// Every clock is set back by so much from the true time.
    fn set_back(&mut self, ms: u64);

    /// Faults of the server end, and its clocks are put right.
    fn heal(&mut self);

    /// Cursors are of no use any more.
    fn change_cursor_key(&mut self);

    /// The retention time has passed for all but what is as young as this; a server with a retention time of its own
    /// forgets what that allows.
    fn forget(&mut self, but_ms: u64, now: u64);

    fn back_up(&mut self);

    /// Puts the last copy back. Gives whether there was one.
    fn restore(&mut self, now: u64) -> bool;

    /// Begins another epoch by command.
    fn renew(&mut self, now: u64);

    /// The database's life (R8).
    fn epoch(&self) -> &Epoch;

    /// Whether another epoch has ended.
    fn has_past(&self) -> bool;

    /// The highest `now` told.
    fn told(&self) -> u64;

    /// Every write in an org in an epoch, in the order of their commits.
    fn history(&self, org: usize, epoch: &Epoch) -> Option<&[Entry]>;

    /// The epochs that there were.
    fn epochs(&self) -> Vec<Epoch>;

    /// The living members of a def.
    fn living(&self, org: usize, def: &Def, now: u64) -> Vec<(&Pk, u64, &Map)>;

    /// What was answered to an operation in this epoch.
    fn result(&self, of: Tenant, id: &str) -> Option<&OpResult>;

    /// What was answered to it in every epoch.
    fn results(&self, of: Tenant, id: &str) -> Vec<&OpResult>;

    /// Everything that was executed in this epoch, in order.
    fn executed(&self) -> Vec<(Tenant, &str)>;
}
