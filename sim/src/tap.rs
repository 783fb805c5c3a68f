//! A database provider with the simulator in between. It records commits, and it delays, refuses or fails
//! reads and commits as the world demands.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use escale::model::{Def, Version};
use escale::{Code, Error, Result};
use escale_server::provider::{
    Action, Change, Document, Entry, FeedRow, Link, Operation, Place, Provider, RewriteResult, RewriteState,
    Session, Snapshot, Spent, State, Transaction, Walked,
};

use crate::fiber::pause;
use crate::record::Written;

/// The state that the instances of one world share.
#[derive(Default)]
pub struct Wire {
    /// Commits that nobody has recorded yet.
    written: Mutex<Vec<Written>>,
    /// The next write meets another one.
    refuses: AtomicBool,
    /// The next commit fails, as on a full disk.
    fails: AtomicBool,
}

impl Wire {
    /// Takes the commits since the last call, in order.
    pub fn take(&self) -> Vec<Written> {
        std::mem::take(&mut self.written.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets whether the next write meets another one.
    pub fn refuse_next(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::SeqCst);
    }

    /// Makes the next commit fail.
    pub fn fail_next(&self) {
        self.fails.store(true, Ordering::SeqCst);
    }

    /// From now on nothing is refused and nothing fails.
    pub fn heal(&self) {
        self.refuses.store(false, Ordering::SeqCst);
        self.fails.store(false, Ordering::SeqCst);
    }
}

/// A provider whose calls pass through the simulator.
pub struct Tap<P> {
    inner: P,
    wire: Arc<Wire>,
}

impl<P> Tap<P> {
    /// Wraps a provider.
    pub fn on(inner: P, wire: &Arc<Wire>) -> Self {
        Tap { inner, wire: wire.clone() }
    }
}

fn stop() -> Result<()> {
    pause().map_err(|_| Error::new(Code::StorageFailed, "the process has ended"))
}

impl<P: Provider> Provider for Tap<P> {
    fn read(&self) -> Result<Box<dyn Snapshot + '_>> {
        stop()?;
        self.inner.read()
    }

    fn write(&self, _: Duration) -> Result<Box<dyn Transaction + '_>> {
        if self.wire.refuses.swap(false, Ordering::SeqCst) {
            return Err(Error::new(Code::Contention, "another write holds the database"));
        }
        // The world's time does not pass during a wait, so a write that cannot begin at once must fail.
        let inner = self.inner.write(Duration::ZERO)?;
        Ok(Box::new(TappedTransaction {
            inner,
            wire: &self.wire,
            written: Written::default(),
            saved: Written::default(),
        }))
    }

    fn revision(&self) -> Result<u64> {
        self.inner.revision()
    }
}

struct TappedTransaction<'p> {
    inner: Box<dyn Transaction + 'p>,
    wire: &'p Wire,
    written: Written,
    saved: Written,
}

impl Snapshot for TappedTransaction<'_> {
    fn state(&self) -> Result<State> {
        self.inner.state()
    }

    fn knows_org(&self, org: &str) -> Result<bool> {
        self.inner.knows_org(org)
    }

    fn document(&self, at: Place) -> Result<Option<Document>> {
        self.inner.document(at)
    }

    fn changes(
        &self,
        org: &str,
        def: &Def,
        after: (Version, &str),
        gone_from: Version,
        visit: &mut dyn FnMut(Change) -> Result<bool>,
    ) -> Result<()> {
        self.inner.changes(org, def, after, gone_from, visit)
    }

    fn count(&self, org: &str, def: &Def, v: Version, gone_from: Version, minute: u64) -> Result<u64> {
        self.inner.count(org, def, v, gone_from, minute)
    }

    fn members(&self, org: &str, def: &Def, minute: u64) -> Result<Vec<String>> {
        self.inner.members(org, def, minute)
    }

    fn is_held(&self, at: Place, scope: &str, entry: &Entry) -> Result<bool> {
        self.inner.is_held(at, scope, entry)
    }

    fn feed(&self, after: u64, limit: usize) -> Result<(u64, Vec<FeedRow>)> {
        self.inner.feed(after, limit)
    }

    fn session(&self, org: &str, session: &str) -> Result<Option<Session>> {
        self.inner.session(org, session)
    }

    fn operation(&self, org: &str, account: &str, id: &str) -> Result<Option<Operation>> {
        self.inner.operation(org, account, id)
    }

    fn spent(&self, org: &str, account: &str, id: &str) -> Result<Option<Spent>> {
        self.inner.spent(org, account, id)
    }
}

impl Transaction for TappedTransaction<'_> {
    fn put_document(&mut self, at: Place, document: &Document) -> Result<()> {
        self.inner.put_document(at, document)?;
        self.written.put(at, document)
    }

    fn remove_document(&mut self, at: Place) -> Result<()> {
        self.inner.remove_document(at)
    }

    fn put_link(&mut self, at: Place, link: &Link) -> Result<()> {
        self.inner.put_link(at, link)
    }

    fn remove_link(&mut self, at: Place, collection: &str, hash: &str) -> Result<()> {
        self.inner.remove_link(at, collection, hash)
    }

    fn put_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        self.inner.put_entry(at, scope, entry)
    }

    fn remove_entry(&mut self, at: Place, scope: &str, entry: &Entry) -> Result<()> {
        self.inner.remove_entry(at, scope, entry)
    }

    fn add_org(&mut self, org: &str) -> Result<()> {
        self.inner.add_org(org)
    }

    fn append_feed(&mut self, row: &FeedRow) -> Result<()> {
        self.written.feed.push(row.clone());
        self.inner.append_feed(row)
    }

    fn put_state(&mut self, state: &State) -> Result<()> {
        self.written.told = Some(state.told);
        self.inner.put_state(state)
    }

    fn purge(&mut self, now: u64, horizon: Version, limit: usize) -> Result<u64> {
        self.inner.purge(now, horizon, limit)
    }

    fn walk(&mut self, after: Option<(String, String, String)>, limit: usize) -> Result<Vec<Walked>> {
        self.inner.walk(after, limit)
    }

    fn put_session(&mut self, org: &str, session: &str, to: &Session) -> Result<()> {
        self.inner.put_session(org, session, to)
    }

    fn append_operation(&mut self, org: &str, account: &str, operation: &Operation) -> Result<()> {
        self.inner.append_operation(org, account, operation)?;
        self.written.operations.push((org.to_owned(), account.to_owned(), operation.clone()));
        Ok(())
    }

    fn append_action(&mut self, action: &Action) -> Result<()> {
        self.inner.append_action(action)
    }

    fn savepoint(&mut self) -> Result<()> {
        self.saved = self.written.clone();
        self.inner.savepoint()
    }

    fn undo(&mut self) -> Result<()> {
        self.written = self.saved.clone();
        self.inner.undo()
    }

    fn purge_operations(&mut self, before: u64, limit: usize) -> Result<u64> {
        self.inner.purge_operations(before, limit)
    }

    fn rewrite_actions(&mut self, from: (i64, usize), change: &RewriteState) -> Result<Option<i64>> {
        self.inner.rewrite_actions(from, change)
    }

    fn rewrite_results(&mut self, from: (i64, usize), change: &RewriteResult) -> Result<Option<i64>> {
        self.inner.rewrite_results(from, change)
    }

    fn commit(self: Box<Self>) -> Result<()> {
        stop()?;
        if self.wire.fails.swap(false, Ordering::SeqCst) {
            return Err(Error::new(Code::StorageFull, "the disk of the simulation is full"));
        }
        self.inner.commit()?;
        self.wire.written.lock().unwrap_or_else(PoisonError::into_inner).push(self.written);
        Ok(())
    }
}
