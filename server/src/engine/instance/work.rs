//! The work that one request may cause. The caller chooses how many defs, files and documents there are to look at, so
//! their number alone bounds nothing.
//!
//! Work is counted in rows, and not measured in time: a request ends at the same place on each machine, and a test can tell
//! how much it was. Once it is used up, a reply ends with the parts that it has, and a right that was not found counts as none.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use escale::model::{Def, Version};
use escale::{Code, Error, Result};

use crate::provider::{Change, Document, DocumentReads, Entry, FileReads, Looked, Place, Snapshot, Tree};

/// A search by key takes as long as so many rows in their order.
const SEARCH: u64 = 16;

/// To read and decide a document takes as long as so many rows, and one more for so many bytes.
const DOCUMENT: u64 = 200;
const BYTES_A_ROW: u64 = 16;

/// The work of one request.
pub(in crate::engine) struct Work<'g> {
    left: Cell<u64>,
    has_gone: &'g AtomicBool,
}

impl Work<'static> {
    /// That of a caller who waits for the answer in any case.
    pub(in crate::engine) fn of(rows: u64) -> Self {
        static NEVER: AtomicBool = AtomicBool::new(false);
        Work::while_there(rows, &NEVER)
    }
}

impl<'g> Work<'g> {
    /// So many rows, for a caller of whom `has_gone` tells whether it still waits.
    pub(in crate::engine) fn while_there(rows: u64, has_gone: &'g AtomicBool) -> Self {
        Work { left: Cell::new(rows), has_gone }
    }

    /// Notes that so many rows were looked at.
    pub(in crate::engine) fn spend(&self, rows: u64) {
        self.left.set(self.left.get().saturating_sub(rows));
    }

    /// Notes searches by key.
    pub(in crate::engine) fn spend_searches(&self, n: usize) {
        self.spend(SEARCH * n as u64);
    }

    /// Whether nothing more may begin.
    pub(in crate::engine) fn is_used_up(&self) -> bool {
        self.left.get() == 0
    }

    /// Ends the work of a caller who has gone: nobody reads the answer. Errors: `unavailable`.
    pub(in crate::engine) fn check_caller(&self) -> Result<()> {
        if self.has_gone.load(Ordering::Relaxed) {
            return Err(Error::new(Code::Unavailable, "the caller has gone"));
        }
        Ok(())
    }
}

/// Reads of documents that count as work.
pub(in crate::engine) struct Watched<'a> {
    inner: &'a dyn Snapshot,
    work: &'a Work<'a>,
}

impl<'a> Watched<'a> {
    /// These reads are that work.
    pub(in crate::engine) fn of(inner: &'a dyn Snapshot, work: &'a Work<'a>) -> Self {
        Watched { inner, work }
    }

    /// The tables of files. Their readers note that work themselves.
    pub(in crate::engine) fn files(&self) -> &dyn FileReads {
        self.inner.files()
    }

    fn looked<T>(&self, looked: Looked<T>) -> Looked<T> {
        self.work.spend(SEARCH + looked.rows);
        looked
    }
}

impl DocumentReads for Watched<'_> {
    fn document(&self, at: Place) -> Result<Option<Document>> {
        let found = self.inner.document(at)?;
        let bytes = found.as_ref().map_or(0, |document| document.data.len() as u64);
        self.work.spend(if found.is_some() { DOCUMENT + bytes / BYTES_A_ROW } else { SEARCH });
        Ok(found)
    }

    fn neighbour(&self, at: Place) -> Result<Option<String>> {
        self.work.spend_searches(1);
        self.inner.neighbour(at)
    }

    fn changes(
        &self,
        org: &str,
        def: &Def,
        after: (Version, &str),
        gone_from: Version,
        visit: &mut dyn FnMut(Change) -> Result<bool>,
    ) -> Result<u64> {
        let rows = self.inner.changes(org, def, after, gone_from, visit)?;
        Ok(self.looked(Looked { found: rows, rows }).found)
    }

    fn count(
        &self,
        org: &str,
        def: &Def,
        v: Version,
        gone_from: Version,
        minute: u64,
    ) -> Result<Looked<u64>> {
        Ok(self.looked(self.inner.count(org, def, v, gone_from, minute)?))
    }

    fn members(&self, org: &str, def: &Def, v: Version, minute: u64) -> Result<Looked<Vec<String>>> {
        Ok(self.looked(self.inner.members(org, def, v, minute)?))
    }

    fn tree(&self, at: Place) -> Result<Option<Tree>> {
        self.work.spend_searches(1);
        self.inner.tree(at)
    }

    fn is_held(&self, at: Place, scope: &str, entry: &Entry) -> Result<bool> {
        self.work.spend_searches(1);
        self.inner.is_held(at, scope, entry)
    }
}
