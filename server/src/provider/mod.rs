//! The storage of documents: a narrow trait, its implementations on SQLite and PostgreSQL, and one in
//! memory for tests.
//!
//! A provider stores and finds; it decides nothing. Versions, departures, refusals and seals belong to the
//! engine, so another database only has to implement this trait. `conformance` is the suite that every
//! provider must pass.

pub mod conformance;
mod feed;
mod files;
#[cfg(feature = "testing")]
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod record;
mod spent;
mod sqlite;
mod tree;

use std::collections::HashMap;
use std::time::Duration;

use escale::Result;
use escale::model::{Def, Version};

pub use feed::{Changed, Seen};
pub use files::{File, FileEdits, FileReads, Purge, Uploads};
#[cfg(feature = "testing")]
pub use memory::{MemoryCopy, MemoryDatabase, MemoryProvider};
#[cfg(feature = "postgres")]
pub use postgres::{Address, PostgresProvider};
pub use record::{
    Action, ActionSize, Change, ChangeState, Document, Entry, EntryValue, FeedRow, Head, Link, Looked,
    Operation, Place, Purged, Removed, Server, ServerId, Session, Shown, Site,
};
pub use spent::Spent;
pub use sqlite::{SqliteProvider, copy_database, inspect, is_in_use};
pub use tree::{TOMBSTONES_MAX, Tree, Trimmed};

/// A database shared by every instance of the server, in this process and in others.
pub trait Provider: Send + Sync + 'static {
    /// Opens a snapshot: everything read from it is of one state. That state has every commit before this
    /// call, and none after it.
    fn read(&self) -> Result<Box<dyn Snapshot + '_>>;

    /// Begins a write of an org. It holds the org's head until it ends, so the writes of one org run one
    /// after another, over all instances. Waits at most `wait` for its turn. Errors: `contention`. Dropped
    /// without [`Transaction::commit`], it leaves no trace.
    fn write(&self, org: &str, wait: Duration) -> Result<Box<dyn Transaction + '_>>;

    /// Begins maintenance, which excludes every write. Otherwise as [`Provider::write`].
    fn maintain(&self, wait: Duration) -> Result<Box<dyn Maintenance + '_>>;

    /// Visits the rows of the feed that were committed after `since`, by any instance: each once, and those of
    /// one org in the order of its commits. Without `since` it visits none, and returns the position from
    /// which a reader begins. Quick if nothing was committed.
    fn changed(&self, since: Option<&Seen>, visit: &mut dyn FnMut(FeedRow) -> Result<()>) -> Result<Changed>;

    /// The connections to the database that are in use, by their purpose: few purposes, the same each time. Empty if
    /// the database has none.
    fn connections(&self) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    /// Leaves nothing of data that was replaced or deleted before. Called once data is sealed that was in clear.
    fn scrub(&self) -> Result<()> {
        Ok(())
    }
}

/// The documents of one state of the database, with their memberships, indexes and trees. Reads of these count as work of
/// a request, because its caller chooses how many there are.
pub trait DocumentReads {
    /// The document, or its tombstone.
    fn document(&self, at: Place) -> Result<Option<Document>>;

    /// The pk of the first document or tombstone of that class from this pk on; after the last, the first of all. None if
    /// the class is empty.
    fn neighbour(&self, at: Place) -> Result<Option<String>>;

    /// Visits the changes of a def after `(v, pk)`, excluding that position, ascending by (v, pk), until
    /// `visit` returns `false`. Tombstones and departures below `gone_from` are left out. Returns how many rows it has looked
    /// at, those left out included.
    fn changes(
        &self,
        org: &str,
        def: &Def,
        after: (Version, &str),
        gone_from: Version,
        visit: &mut dyn FnMut(Change) -> Result<bool>,
    ) -> Result<u64>;

    /// The number of documents and tombstones that [`DocumentReads::changes`] would visit from `v` on, without
    /// departures.
    fn count(&self, org: &str, def: &Def, v: Version, gone_from: Version, minute: u64)
    -> Result<Looked<u64>>;

    /// The pks of the living members of a def from `v` on at that minute, in any order.
    fn members(&self, org: &str, def: &Def, v: Version, minute: u64) -> Result<Looked<Vec<String>>>;

    /// The tree of the document at that place; none if nothing is stored of it.
    fn tree(&self, at: Place) -> Result<Option<Tree>>;

    /// Whether another document than the one at that place has this value of an index. `scope` is the org, or
    /// empty for an index across orgs.
    fn is_held(&self, at: Place, scope: &str, entry: &Entry) -> Result<bool>;
}

/// One state of the database: that of a moment, or of a write with its changes so far.
pub trait Snapshot: DocumentReads {
    /// The state that all orgs share.
    fn site(&self) -> Result<Site>;

    /// The server that runs the database, and its clock at the beginning of this snapshot or transaction; none
    /// if the database has no server of its own.
    fn server(&self) -> Result<Option<Server>> {
        Ok(None)
    }

    /// The head of an org; none if nothing was ever written for it.
    fn head(&self, org: &str) -> Result<Option<Head>>;

    /// The heads of at most `limit` orgs after that one, ascending by org.
    fn heads(&self, after: &str, limit: usize) -> Result<Vec<(String, Head)>>;

    /// At most `limit` trees of an org after that class and pk, ascending, for the purge: those whose
    /// [`Tree::due`] is not 0 and below `before`, and those with more than [`TOMBSTONES_MAX`] tombstones.
    fn due_trees(
        &self,
        org: &str,
        after: (&str, &str),
        before: Version,
        limit: usize,
    ) -> Result<Vec<(String, String, Tree)>>;

    /// The session of that name.
    fn session(&self, org: &str, session: &str) -> Result<Option<Session>>;

    /// Those of these names that there are.
    fn sessions(&self, org: &str, names: &[&str]) -> Result<HashMap<String, Session>> {
        let mut found = HashMap::new();
        for name in names {
            if let Some(session) = self.session(org, name)? {
                found.insert((*name).to_owned(), session);
            }
        }
        Ok(found)
    }

    /// The operation of that id, with its result.
    fn operation(&self, org: &str, account: &str, id: &str) -> Result<Option<Operation>>;

    /// The remains of the operation of that id, if [`Transaction::purge_operations`] has removed its result.
    fn spent(&self, org: &str, account: &str, id: &str) -> Result<Option<Spent>>;

    /// At most `limit` actors of an org after that one with more than `more_than` entries in the journal, ascending.
    fn actors(&self, org: &str, after: &str, more_than: u64, limit: usize) -> Result<Vec<String>>;

    /// At most `limit` entries of an actor below that number, from the newest on.
    fn actions_of(&self, actor: &str, below: i64, limit: usize) -> Result<Vec<ActionSize>>;

    /// The tables of files.
    fn files(&self) -> &dyn FileReads;
}

/// Changes of documents, their memberships and their indexes.
pub trait Edit {
    /// The state of the database with the changes so far.
    fn snapshot(&self) -> &dyn Snapshot;

    /// Stores a document or tombstone, and replaces an earlier one.
    fn put_document(&mut self, at: Place, document: &Document) -> Result<()>;

    /// Removes a document for good.
    fn remove_document(&mut self, at: Place) -> Result<()>;

    /// Stores a membership or departure, and replaces an earlier one.
    fn put_link(&mut self, at: Place, link: &Link) -> Result<()>;

    /// Removes a membership or departure.
    fn remove_link(&mut self, at: Place, collection: &str, hash: &str) -> Result<()>;

    /// Stores a value of an index. `scope` is the org, or empty for an index across orgs. Errors:
    /// `contention` if a write of another org holds a value across orgs.
    fn put_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()>;

    /// Removes a value of an index. Errors: as for [`Edit::put_entry`].
    fn remove_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()>;

    /// Stores a tree, and replaces an earlier state. The place is that of the parent.
    fn put_tree(&mut self, at: Place, tree: &Tree) -> Result<()>;

    /// Removes a tree's record.
    fn remove_tree(&mut self, at: Place) -> Result<()>;

    /// The tables of files, to be changed: those of the org alone, in a write of one org.
    fn edit_files(&mut self) -> &mut dyn FileEdits;

    /// Removes a document for good, with its memberships and its values of indexes. A tombstone has none of the latter.
    /// Errors: as for [`Edit::put_entry`].
    fn remove_shown(&mut self, at: Place, document: &Document) -> Result<()> {
        for (collection, hashes) in &document.shown.links {
            for hash in hashes {
                self.remove_link(at, collection, hash)?;
            }
        }
        // An index belongs to the org or to all orgs.
        for entry in &document.shown.entries {
            self.remove_entry(at, at.org, entry)?;
            self.remove_entry(at, "", entry)?;
        }
        self.remove_document(at)
    }
}

/// A write of one org. Nobody else sees it until it is committed. It writes nothing of another org.
pub trait Transaction: Edit {
    /// Replaces the head of the org, or makes it.
    fn put_head(&mut self, head: &Head) -> Result<()>;

    /// Appends to the feed: the row becomes visible with the commit.
    fn append_feed(&mut self, row: &FeedRow) -> Result<()>;

    /// Removes tombstones and expired documents of the org, at most `limit`, with their links. Their `ttl` is
    /// at most `now`, and their version below `horizon`. Also removes at most `limit` departures below
    /// `horizon`. Returns the number removed.
    fn purge(&mut self, now: u64, horizon: Version, limit: usize) -> Result<Purged>;

    /// Removes at most `limit` documents and tombstones of a collection that are below that version, with their
    /// links and their values of indexes. Returns the pks of those removed.
    fn purge_items(&mut self, collection: &Def, below: Version, limit: usize) -> Result<Vec<String>>;

    /// Removes from a collection its oldest tombstones, at most `limit`: those below `below` that are not among
    /// the newest `keep`. The documents' tombstones themselves stay.
    fn trim_items(&mut self, collection: &Def, keep: u64, below: Version, limit: usize) -> Result<Trimmed>;

    /// Stores a session, and replaces an earlier state.
    fn put_session(&mut self, session: &str, to: &Session) -> Result<()>;

    /// Stores an operation. Its id must be new within the account, its number within the session.
    fn append_operation(&mut self, account: &str, operation: &Operation) -> Result<()>;

    /// Appends to the journal.
    fn append_action(&mut self, action: &Action) -> Result<()>;

    /// Marks a point for [`Transaction::undo`], one at a time.
    fn savepoint(&mut self) -> Result<()>;

    /// Undoes everything written since the savepoint, which stays.
    fn undo(&mut self) -> Result<()>;

    /// Forgets the savepoint. Everything written since then stays.
    fn release(&mut self) -> Result<()>;

    /// Removes at most `limit` operations of the org executed before that time. The data for
    /// [`Snapshot::spent`] stays for ever.
    fn purge_operations(&mut self, before: u64, limit: usize) -> Result<Removed>;

    /// Removes at most `limit` entries of an actor of the org up to that number, from the oldest on.
    fn remove_actions(&mut self, actor: &str, upto: i64, limit: usize) -> Result<Removed>;

    /// Makes the write visible and durable, all at once. Returns [`Site::commits`] with this one.
    fn commit(self: Box<Self>) -> Result<u64>;
}

/// Work on the whole database. No write runs meanwhile, and nobody else sees it until it is committed.
pub trait Maintenance: Edit {
    /// Replaces the state that all orgs share, except the number of commits.
    fn put_site(&mut self, site: &Site) -> Result<()>;

    /// Replaces the head of an org.
    fn put_head(&mut self, org: &str, head: &Head) -> Result<()>;

    /// Lists at most `limit` documents of every org and class after that place, ascending, for work that must
    /// reach all of them.
    fn walk(&mut self, after: Option<(String, String, String)>, limit: usize) -> Result<Vec<Walked>>;

    /// Replaces the states of at most `limit` actions after that number, ascending. `change` computes each
    /// new state from the actor, version and bytes; none keeps the old one. Returns the last number seen.
    fn rewrite_actions(&mut self, from: (i64, usize), change: &RewriteState) -> Result<Option<i64>>;

    /// Does the same for results of operations; `change` gets the org, the account and the operation.
    fn rewrite_results(&mut self, from: (i64, usize), change: &RewriteResult) -> Result<Option<i64>>;

    /// As [`Transaction::commit`].
    fn commit(self: Box<Self>) -> Result<u64>;
}

/// Computes an action's new state from its actor, its version and its bytes; none keeps it.
pub type RewriteState<'a> = dyn Fn(&str, Version, &[u8]) -> Result<Option<Vec<u8>>> + 'a;

/// Computes an operation's new result from its org, its account and the operation; none keeps it.
pub type RewriteResult<'a> = dyn Fn(&str, &str, &Operation) -> Result<Option<Vec<u8>>> + 'a;

/// A document met by [`Maintenance::walk`].
pub struct Walked {
    /// The org's code.
    pub org: String,
    /// The class.
    pub class: String,
    /// The pk.
    pub pk: String,
    /// The stored document.
    pub document: Document,
}

impl Walked {
    /// Its place.
    pub fn place(&self) -> Place<'_> {
        Place { org: &self.org, class: &self.class, pk: &self.pk }
    }
}
