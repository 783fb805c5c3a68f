//! The beginning and the end of a write: the lock of its org, and the counters under it (R34).

use std::time::{Duration, Instant};

use escale::model::Version;
use escale::{Code, Error, Result};

use super::database::has_lost;
use super::operation::Tx;
use super::write::Writing;
use super::{Caller, Engine};
use crate::mark::Reached;
use crate::provider::{Head, Site, Transaction};
use crate::spans::span;

/// How often a write begins again because the database has become another one.
pub(super) const RENEWALS_MAX: usize = 3;

/// How often a write restarts with a later version before it fails.
pub(super) const RESTARTS_MAX: usize = 16;

/// The result of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Written<T> {
    /// The version of the documents written, except those of the clock `sequence`; none if nothing was written.
    pub v: Option<Version>,
    /// The closure's return value.
    pub value: T,
}

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
    /// Runs `run` as one transaction on an org. All its writes become visible at once, under one version, or
    /// none does. If it reads a document that is not older than its version, it runs again from the start.
    /// Errors: those of `run`, `unavailable`, and `contention`. The latter means that other writes held the
    /// org, that the write took longer than a second, or that it ran again too often.
    pub fn write<T>(
        &self,
        org: &str,
        mut run: impl FnMut(&mut Writing<'_>) -> Result<T>,
    ) -> Result<Written<T>> {
        write_as(self, (org, &Caller { may_write: true, ..Caller::default() }), |tx| run(&mut tx.writing))
    }

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
        let _in = span!("commit").entered();
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

/// Like [`Engine::write`], in the name of a caller.
pub(super) fn write_as<T>(
    engine: &Engine,
    (org, caller): (&str, &Caller),
    mut run: impl FnMut(&mut Tx<'_>) -> Result<T>,
) -> Result<Written<T>> {
    let mut at_least = Version::default();
    for _ in 0..RESTARTS_MAX {
        let mut begun = engine.begin(org, engine.settings.write_wait)?;
        let writing = engine.writing(org, (&begun.head, begun.time), at_least, begun.tx.as_mut())?;
        let (rights, hooks) = (&engine.rights, &engine.hooks);
        let mut tx = Tx { writing, caller, rights, hooks, level: 0 };
        let result = run(&mut tx).and_then(|value| tx.writing.finish().map(|()| value));
        let writing = tx.writing;
        let (now, changed, in_time) = (writing.now, writing.changed, writing.check_time());
        let (restricts, journaled) = (writing.restricts, writing.journaled);
        if let Some(v) = writing.regressed {
            at_least = v + 1;
            continue;
        }
        let value = result?;
        if !changed {
            return Ok(Written { v: None, value });
        }
        in_time?;
        begun.head.highest = begun.head.highest.max(now);
        begun.head.kept += journaled;
        engine.commit(begun)?;
        if restricts {
            engine.known_schedules.forget(org);
        }
        engine.after_commit();
        return Ok(Written { v: Some(now), value });
    }
    Err(Error::new(Code::Contention, "the documents read kept a version above the write's"))
}

/// The error for a database that has become another one at each attempt.
pub(super) fn restless() -> Error {
    Error::new(Code::Unavailable, "the database changes to another server again and again")
}
