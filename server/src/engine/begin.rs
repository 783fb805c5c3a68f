//! The beginning of a write: the lock of its org, and the counters under it (R34).

use std::time::{Duration, Instant};

use escale::model::Version;
use escale::{Code, Error, Result};

use super::Engine;
use super::database::has_lost;
use crate::mark::Reached;
use crate::provider::{Head, Site, Transaction};

/// How often a write begins again because the database has become another one.
pub(super) const RENEWALS_MAX: usize = 3;

/// A write of an org that holds its head.
pub(super) struct Begun<'p> {
    pub(super) tx: Box<dyn Transaction + 'p>,
    /// The state that all orgs share, as it stays until the commit.
    pub(super) site: Site,
    /// The org's head, with the changes so far.
    pub(super) head: Head,
    /// The database's time at the beginning; none if the instance's clock counts (R35).
    pub(super) time: Option<Version>,
    org: String,
    began: Instant,
}

impl Engine {
    /// Begins a write of an org. Errors: `contention`; `unavailable` if another instance has adopted another
    /// schema (R38).
    pub(super) fn begin(&self, org: &str, wait: Duration) -> Result<Begun<'_>> {
        let begun = self.hold(org, wait)?;
        if begun.site.generation != self.generation {
            // With the schema of this instance, its documents would lack memberships and indexes.
            let what = "another instance has adopted another schema: this one writes no more";
            return Err(Error::new(Code::Unavailable, what));
        }
        Ok(begun)
    }

    /// The same for work that depends on no schema.
    pub(super) fn hold(&self, org: &str, wait: Duration) -> Result<Begun<'_>> {
        for _ in 0..RENEWALS_MAX {
            let seen = self.reached.of(org);
            let asked = Instant::now();
            let tx = self.provider.write(org, wait)?;
            let began = Instant::now();
            self.figures.wait_seconds.observe((began - asked).as_secs_f64());
            let (site, server) = (tx.site()?, tx.server()?);
            let head = tx.head(org)?.unwrap_or_else(|| site.first_head());
            if has_lost((&site, server.as_ref()), seen.as_ref(), &head) {
                drop(tx);
                self.renew_what_was_lost(org, seen.as_ref())?;
                continue;
            }
            let time = server.is_some().then(|| self.time_by(server.as_ref())).transpose()?;
            return Ok(Begun { tx, site, head, time, org: org.to_owned(), began });
        }
        Err(restless())
    }

    /// Stores the head, counts its commit, and commits. Records in the watermark how far the database has
    /// come (R8). Returns the head as it is now.
    pub(super) fn commit(&self, begun: Begun) -> Result<Head> {
        let Begun { mut tx, site, mut head, time, org, began } = begun;
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
pub(super) fn restless() -> Error {
    Error::new(Code::Unavailable, "the database changes to another server again and again")
}
