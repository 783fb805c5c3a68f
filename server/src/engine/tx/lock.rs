//! The beginning and the end of a write: the lock of its org, and the counters under it (R34).

use std::time::{Duration, Instant};

use escale::model::Version;
use escale::{Code, Error, Result};

use crate::engine::instance::context::Instance;
use crate::engine::instance::identity::is_rolled_back;
use crate::mark::Reached;
use crate::provider::{Head, Site, Transaction};
use crate::spans::span;

/// How often a write begins again because the database has become another one.
pub(in crate::engine) const RENEWALS_MAX: usize = 3;

/// The lock of an org: it holds the head, for one write or for several.
pub(in crate::engine) struct OrgLock<'p> {
    pub(in crate::engine) tx: Box<dyn Transaction + 'p>,
    /// The state that all orgs share, as it stays until the commit.
    pub(in crate::engine) site: Site,
    /// The org's head, with the changes so far.
    pub(in crate::engine) head: Head,
    /// The database's time at the beginning; none if the instance's clock counts (R35).
    pub(in crate::engine) time: Option<Version>,
    pub(in crate::engine) org: String,
    began: Instant,
}

impl Instance {
    /// Begins a write of an org. Errors: `contention`; `unavailable` if another instance has adopted another
    /// schema (R38).
    pub(in crate::engine) fn begin(&self, org: &str, wait: Duration) -> Result<OrgLock<'_>> {
        let lock = self.hold(org, wait)?;
        if lock.site.generation != self.generation {
            // With the schema of this instance, its documents would lack memberships and indexes.
            let what = "another instance has adopted another schema: this one writes no more";
            return Err(Error::new(Code::Unavailable, what));
        }
        Ok(lock)
    }

    /// The same for work that depends on no schema.
    pub(in crate::engine) fn hold(&self, org: &str, wait: Duration) -> Result<OrgLock<'_>> {
        for _ in 0..RENEWALS_MAX {
            let seen = self.reached.of(org);
            let asked = Instant::now();
            let tx = self.provider.write(org, wait)?;
            let began = Instant::now();
            self.figures.wait_seconds.observe((began - asked).as_secs_f64());
            let (site, server) = (tx.snapshot().site()?, tx.snapshot().server()?);
            let head = tx.snapshot().head(org)?.unwrap_or_else(|| site.first_head());
            if is_rolled_back((&site, server.as_ref()), seen.as_ref(), &head) {
                drop(tx);
                self.renew_lost(org, seen.as_ref())?;
                continue;
            }
            let time = server.is_some().then(|| self.time_by(server.as_ref())).transpose()?;
            return Ok(OrgLock { tx, site, head, time, org: org.to_owned(), began });
        }
        Err(database_keeps_changing())
    }

    /// Stores the head, counts its commit, and commits. Records in the watermark how far the database has
    /// come (R8). Returns the head as it is now.
    pub(in crate::engine) fn commit(&self, lock: OrgLock) -> Result<Head> {
        let _in = span!("commit").entered();
        let OrgLock { mut tx, site, mut head, time, org, began } = lock;
        head.commits += 1;
        tx.put_head(&head)?;
        let written = Instant::now();
        let commits = tx.commit()?;
        self.figures.write_seconds.observe((written - began).as_secs_f64());
        self.figures.commit_seconds.observe(written.elapsed().as_secs_f64());
        self.mark.write(&Reached { epoch: site.last_epoch, commits });
        if time.is_some() {
            self.reached.saw(&org, &head);
        }
        Ok(head)
    }
}

/// The error for a database that has become another one at each attempt.
pub(in crate::engine) fn database_keeps_changing() -> Error {
    Error::new(Code::Unavailable, "the database changes to another server again and again")
}
