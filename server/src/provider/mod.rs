//! Where documents live: a narrow trait, and its implementation on SQLite.
//!
//! A provider stores and finds; it decides nothing. Versions, departures, refusals and seals are the engine's
//! matter, so that another database needs this trait alone. `conformance` is the suite that each one must pass.

pub mod conformance;
mod conformance_operations;
#[cfg(feature = "testing")]
mod memory;
mod record;
mod spent;
mod sqlite;

use std::time::Duration;

use escale::Result;
use escale::model::{Def, Version};

#[cfg(feature = "testing")]
pub use memory::{MemoryCopy, MemoryDatabase, MemoryProvider};
pub use record::{
    Action, Change, ChangeState, Document, Entry, EntryValue, FeedRow, Link, Operation, Place, Session,
    Shown, State,
};
pub use spent::Spent;
pub use sqlite::{SqliteProvider, inspect};

/// A database shared by every instance of the server, in this process and in others.
pub trait Provider: Send + Sync + 'static {
    /// Opens a snapshot: everything read from it is of one state. What is committed before this call is in it,
    /// what is committed after is not.
    fn read(&self) -> Result<Box<dyn Snapshot + '_>>;

    /// Begins a write, one at a time over all instances, waiting at most `wait` for its turn. Errors:
    /// `contention`. Dropped without [`Transaction::commit`], it leaves nothing.
    fn write(&self, wait: Duration) -> Result<Box<dyn Transaction + '_>>;

    /// A number that differs from the last one given where anything was committed since, by any instance.
    fn revision(&self) -> Result<u64>;
}

/// One state of the database.
pub trait Snapshot {
    /// What is known of the database as a whole.
    fn state(&self) -> Result<State>;

    /// Whether anything was ever written for this org.
    fn knows_org(&self, org: &str) -> Result<bool>;

    /// The document, or its tombstone.
    fn document(&self, at: Place) -> Result<Option<Document>>;

    /// Shows what changed in a def after `(v, pk)`, that one excluded, ascending by (v, pk), until `visit` says
    /// `false`. Tombstones and departures below `gone_from` are left out.
    fn changes(
        &self,
        org: &str,
        def: &Def,
        after: (Version, &str),
        gone_from: Version,
        visit: &mut dyn FnMut(Change) -> Result<bool>,
    ) -> Result<()>;

    /// How many documents and tombstones [`Snapshot::changes`] would show from `v` on, departures not counted.
    fn count(&self, org: &str, def: &Def, v: Version, gone_from: Version, minute: u64) -> Result<u64>;

    /// The pks of the living members of a def at that minute, in any order.
    fn members(&self, org: &str, def: &Def, minute: u64) -> Result<Vec<String>>;

    /// Whether a document other than the one at that place has this value of an index. `scope` is the org, or
    /// empty for an index across orgs.
    fn is_held(&self, at: Place, scope: &str, entry: &Entry) -> Result<bool>;

    /// What was written after that number of the feed, in the order of the commits, at most `limit` rows; and
    /// the oldest number still kept.
    fn feed(&self, after: u64, limit: usize) -> Result<(u64, Vec<FeedRow>)>;

    /// The session of that name.
    fn session(&self, org: &str, session: &str) -> Result<Option<Session>>;

    /// The operation of that id, with its result.
    fn operation(&self, org: &str, account: &str, id: &str) -> Result<Option<Operation>>;

    /// What is left of the operation of that id, where [`Transaction::purge_operations`] took its result.
    fn spent(&self, org: &str, account: &str, id: &str) -> Result<Option<Spent>>;
}

/// A write, seen by nobody else until it is committed.
pub trait Transaction: Snapshot {
    /// Stores a document or tombstone in place of the one there.
    fn put_document(&mut self, at: Place, document: &Document) -> Result<()>;

    /// Removes a document for good.
    fn remove_document(&mut self, at: Place) -> Result<()>;

    /// Stores a membership or departure in place of the one there.
    fn put_link(&mut self, at: Place, link: &Link) -> Result<()>;

    /// Removes a membership or departure.
    fn remove_link(&mut self, at: Place, collection: &str, hash: &str) -> Result<()>;

    /// Stores a value of an index. `scope` is the org, or empty for an index across orgs.
    fn put_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()>;

    /// Removes a value of an index.
    fn remove_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()>;

    /// Makes the org known.
    fn add_org(&mut self, org: &str) -> Result<()>;

    /// Appends to the feed; `number` is given by the provider.
    fn append_feed(&mut self, row: &FeedRow) -> Result<()>;

    /// Replaces what is known of the database as a whole.
    fn put_state(&mut self, state: &State) -> Result<()>;

    /// Removes at most `limit` tombstones and expired documents whose `ttl` is at most `now` and whose version is
    /// below `horizon`, with their links, and as many departures below `horizon`. Returns how many went.
    fn purge(&mut self, now: u64, horizon: Version, limit: usize) -> Result<u64>;

    /// Shows at most `limit` documents of every org and class after that place, ascending: for what must be done
    /// to all of them.
    fn walk(&mut self, after: Option<(String, String, String)>, limit: usize) -> Result<Vec<Walked>>;

    /// Stores a session in place of the one there.
    fn put_session(&mut self, org: &str, session: &str, to: &Session) -> Result<()>;

    /// Stores an operation: its id is new within the account, its number within the session.
    fn append_operation(&mut self, org: &str, account: &str, operation: &Operation) -> Result<()>;

    /// Appends to the journal.
    fn append_action(&mut self, action: &Action) -> Result<()>;

    /// Marks what was written up to here, for [`Transaction::undo`].
    fn savepoint(&mut self) -> Result<()>;

    /// Undoes what was written since the savepoint.
    fn undo(&mut self) -> Result<()>;

    /// Removes at most `limit` operations executed before that time, but for what [`Snapshot::spent`] tells of them,
    /// which stays for ever. Returns how many went.
    fn purge_operations(&mut self, before: u64, limit: usize) -> Result<u64>;

    /// Replaces the states of at most `limit` actions after that number, ascending, by what `change` makes of their
    /// actor, version and bytes; none keeps them. Returns the last number seen.
    fn rewrite_actions(&mut self, from: (i64, usize), change: &RewriteState) -> Result<Option<i64>>;

    /// The same for results of operations, of an org and an account.
    fn rewrite_results(&mut self, from: (i64, usize), change: &RewriteResult) -> Result<Option<i64>>;

    /// Makes it all visible at once, and durable.
    fn commit(self: Box<Self>) -> Result<()>;
}

/// What becomes of an action's state, from its actor, its version and its bytes; none keeps it.
pub type RewriteState<'a> = dyn Fn(&str, Version, &[u8]) -> Result<Option<Vec<u8>>> + 'a;

/// What becomes of an operation's result, from its org, its account and itself; none keeps it.
pub type RewriteResult<'a> = dyn Fn(&str, &str, &Operation) -> Result<Option<Vec<u8>>> + 'a;

/// A document met by [`Transaction::walk`].
pub struct Walked {
    /// The org's code.
    pub org: String,
    /// The class.
    pub class: String,
    /// The pk.
    pub pk: String,
    /// What is stored there.
    pub document: Document,
}
