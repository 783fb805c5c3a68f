//! A database provider with the simulator in between. It records commits, and it delays, refuses or fails
//! reads and commits as the world demands.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use escale::model::{Def, Version};
use escale::{Code, Error, Result};
use escale_server::provider::{
    Action, Changed, Document, Edit, Entry, FeedRow, FileEdits, Head, Link, Maintenance, Operation, Place,
    Provider, Purged, Removed, RewriteResult, RewriteState, Seen, Session, Site, Snapshot, Transaction, Tree,
    Trimmed, Walked,
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

impl<P> Tap<P> {
    /// Refuses the write if the world wants it to meet another one.
    fn meet(&self) -> Result<()> {
        if self.wire.refuses.swap(false, Ordering::SeqCst) {
            return Err(Error::new(Code::Contention, "another write holds the org"));
        }
        Ok(())
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

    // The world's time does not pass during a wait, so a write that cannot begin at once must fail.
    fn write(&self, org: &str, _: Duration) -> Result<Box<dyn Transaction + '_>> {
        self.meet()?;
        let inner = self.inner.write(org, Duration::ZERO)?;
        Ok(Box::new(Tapped::of(org, inner, &self.wire)))
    }

    fn maintain(&self, _: Duration) -> Result<Box<dyn Maintenance + '_>> {
        self.meet()?;
        let inner = self.inner.maintain(Duration::ZERO)?;
        Ok(Box::new(Tapped::of("", inner, &self.wire)))
    }

    fn changed(&self, since: Option<&Seen>, visit: &mut dyn FnMut(FeedRow) -> Result<()>) -> Result<Changed> {
        self.inner.changed(since, visit)
    }

    fn scrub(&self) -> Result<()> {
        self.inner.scrub()
    }
}

/// A write of an org, or maintenance.
struct Tapped<'p, T: ?Sized> {
    org: String,
    inner: Box<T>,
    wire: &'p Wire,
    written: Written,
    saved: Written,
}

impl<'p, T: ?Sized> Tapped<'p, T> {
    fn of(org: &str, inner: Box<T>, wire: &'p Wire) -> Self {
        let (written, saved) = (Written::default(), Written::default());
        Tapped { org: org.to_owned(), inner, wire, written, saved }
    }

    fn before_commit(&self) -> Result<()> {
        stop()?;
        if self.wire.fails.swap(false, Ordering::SeqCst) {
            return Err(Error::new(Code::StorageFull, "the disk of the simulation is full"));
        }
        Ok(())
    }
}

impl Wire {
    fn note(&self, written: Written) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).push(written);
    }
}

impl<T: Edit + ?Sized> Edit for Tapped<'_, T> {
    fn snapshot(&self) -> &dyn Snapshot {
        self.inner.snapshot()
    }

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

    fn put_tree(&mut self, at: Place, tree: &Tree) -> Result<()> {
        self.inner.put_tree(at, tree)?;
        self.written.tree(at, tree)
    }

    fn remove_tree(&mut self, at: Place) -> Result<()> {
        self.inner.remove_tree(at)
    }

    fn edit_files(&mut self) -> &mut dyn FileEdits {
        self.inner.edit_files()
    }
}

impl Transaction for Tapped<'_, dyn Transaction + '_> {
    fn put_head(&mut self, head: &Head) -> Result<()> {
        self.written.promised_now = Some(head.promised_now);
        self.inner.put_head(head)
    }

    fn append_feed(&mut self, row: &FeedRow) -> Result<()> {
        self.written.feed.push(row.clone());
        self.inner.append_feed(row)
    }

    fn purge(&mut self, now: u64, horizon: Version, limit: usize) -> Result<Purged> {
        self.inner.purge(now, horizon, limit)
    }

    fn purge_items(&mut self, collection: &Def, below: Version, limit: usize) -> Result<Vec<String>> {
        self.inner.purge_items(collection, below, limit)
    }

    fn trim_items(&mut self, collection: &Def, keep: u64, below: Version, limit: usize) -> Result<Trimmed> {
        self.inner.trim_items(collection, keep, below, limit)
    }

    fn put_session(&mut self, session: &str, to: &Session) -> Result<()> {
        self.inner.put_session(session, to)
    }

    fn append_operation(&mut self, account: &str, operation: &Operation) -> Result<()> {
        self.inner.append_operation(account, operation)?;
        self.written.operations.push((self.org.clone(), account.to_owned(), operation.clone()));
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

    fn release(&mut self) -> Result<()> {
        self.inner.release()
    }

    fn purge_operations(&mut self, before: u64, limit: usize) -> Result<Removed> {
        self.inner.purge_operations(before, limit)
    }

    fn remove_actions(&mut self, actor: &str, upto: i64, limit: usize) -> Result<Removed> {
        self.inner.remove_actions(actor, upto, limit)
    }

    fn commit(self: Box<Self>) -> Result<u64> {
        self.before_commit()?;
        let commits = self.inner.commit()?;
        self.wire.note(self.written);
        Ok(commits)
    }
}

impl Maintenance for Tapped<'_, dyn Maintenance + '_> {
    fn put_site(&mut self, site: &Site) -> Result<()> {
        self.written.promised_now = Some(site.promised_now);
        self.inner.put_site(site)
    }

    fn put_head(&mut self, org: &str, head: &Head) -> Result<()> {
        self.inner.put_head(org, head)
    }

    fn walk(&mut self, after: Option<(String, String, String)>, limit: usize) -> Result<Vec<Walked>> {
        self.inner.walk(after, limit)
    }

    fn rewrite_actions(&mut self, from: (i64, usize), change: &RewriteState) -> Result<Option<i64>> {
        self.inner.rewrite_actions(from, change)
    }

    fn rewrite_results(&mut self, from: (i64, usize), change: &RewriteResult) -> Result<Option<i64>> {
        self.inner.rewrite_results(from, change)
    }

    fn commit(self: Box<Self>) -> Result<u64> {
        self.before_commit()?;
        let commits = self.inner.commit()?;
        self.wire.note(self.written);
        Ok(commits)
    }
}
