//! Time as sessions and documents see it (R4, R35, R36).
//!
//! The invariant: every commit in an org after a reply's snapshot was opened has a version of at least the
//! reply's `now` - DELTA. Clocks alone cannot guarantee it, because a clock may be set back. So the org's
//! head stores two numbers. `highest` is the highest version committed in it. `promised_now` is a `now` given to a
//! session of the org: it is stored again before a later `now` exceeds both numbers by more than a step.
//!
//! - A reply's `now` is at most [`WRITE_MS_MAX`] above the higher of `promised_now` and `highest`, which are stored
//!   before the reply's snapshot opens.
//! - A write is stamped at or above `promised_now`, and above `highest`.
//!
//! Operations alone push `highest` a second ahead of the clock at most (`operations::order`). Ends of rights are judged by the
//! clock itself, and lives by `now`, as sessions judge them.
//!
//! The writes of an org run one after another, and storing `promised_now` is one of them. So a write that the
//! snapshot lacks began when both numbers were already stored. It is stamped at or above both of them, that
//! is at least `now` - `WRITE_MS_MAX`. DELTA is at least that (`Settings::check`).
//!
//! An org in which nothing was written has no head, because names that strangers make up must take no room.
//! The `promised_now` of the site serves all of these orgs, and a new head begins with it. It is stored while no write
//! runs. But between that and the snapshot, a first write may make the head, with an earlier `promised_now`. Then the
//! reply's `now` is made again.

use escale::limits::VERSION_MAX;
use escale::model::Version;
use escale::{Code, Error, Result};

use crate::engine::instance::context::Instance;
use crate::engine::instance::identity::is_rolled_back;
use crate::engine::tx::lock::{RENEWALS_MAX, database_keeps_changing};
use crate::mark::Reached;
use crate::provider::{Head, Site, Snapshot};
use crate::settings::WRITE_MS_MAX;

/// A reply's `now`, and the snapshot that it is for.
pub(in crate::engine) struct TimedSnapshot<'p> {
    pub(in crate::engine) now: Version,
    /// The time by the clock, which `now` may be ahead of. Ends of rights are judged by it.
    pub(in crate::engine) time: Version,
    pub(in crate::engine) snapshot: Box<dyn Snapshot + 'p>,
    pub(in crate::engine) site: Site,
    pub(in crate::engine) head: Head,
}

impl Instance {
    /// The `now` of a reply for an org, and a snapshot that was opened after it was stored.
    pub(in crate::engine) fn tell_now(&self, org: &str) -> Result<TimedSnapshot<'_>> {
        // A head appears once, and the database becomes another one rarely.
        for _ in 0..=RENEWALS_MAX {
            let (now, time, has_head) = self.now_of(org)?;
            let seen = self.reached.of(org);
            let snapshot = self.provider.read()?;
            let (site, head, server) = (snapshot.site()?, snapshot.head(org)?, snapshot.server()?);
            let is_first = head.is_none();
            let head = head.unwrap_or_else(|| site.first_head());
            if is_rolled_back((&site, server.as_ref()), seen.as_ref(), &head) {
                drop(snapshot);
                self.renew_lost(org, seen.as_ref())?;
                continue;
            }
            if server.is_some() && !is_first {
                self.reached.saw(org, &head);
            }
            if has_head || is_first {
                return Ok(TimedSnapshot { now, time, snapshot, site, head });
            }
        }
        Err(database_keeps_changing())
    }

    /// A `now`, the time by the clock, and whether the org has a head.
    fn now_of(&self, org: &str) -> Result<(Version, Version, bool)> {
        let snapshot = self.provider.read()?;
        let head = snapshot.head(org)?;
        let mut stored = match &head {
            Some(head) => head.promised_now.max(head.highest),
            None => snapshot.site()?.promised_now,
        };
        let server = snapshot.server()?;
        drop(snapshot);
        // With a clock that is wrong, time stands still.
        let time = self.time_by(server.as_ref()).unwrap_or(stored);
        let wanted = time.max(stored);
        // Replies in between give their `now` without a write.
        if wanted > stored + self.settings.tell_step_ms {
            let written = match &head {
                Some(_) => self.promise(org, wanted),
                None => self.promise_of_site(wanted),
            };
            match written {
                Ok(promised_now) => stored = promised_now,
                Err(error) if error.code() == Code::Contention => {
                    tracing::debug!("another write holds the org: an earlier `now` is told");
                }
                // A full disk, for example: stored data can still be read.
                Err(error) => tracing::warn!(%error, "`now` cannot be written down: an earlier one is told"),
            }
        }
        Ok((checked(wanted.min(stored + WRITE_MS_MAX))?, time, head.is_some()))
    }

    fn promise(&self, org: &str, wanted: Version) -> Result<Version> {
        let mut lock = self.hold(org, self.settings.tell_wait)?;
        let head = &mut lock.head;
        // Another instance may have written a later one meanwhile.
        head.promised_now = checked(wanted.max(head.highest).max(head.promised_now))?;
        // If the database is restored from before this `now`, it must not stamp below it (R8).
        Ok(self.commit(lock)?.promised_now)
    }

    /// The same for all orgs without a head.
    fn promise_of_site(&self, wanted: Version) -> Result<Version> {
        let mut tx = self.provider.maintain(self.settings.tell_wait)?;
        let mut site = tx.snapshot().site()?;
        site.promised_now = checked(wanted.max(site.promised_now))?;
        tx.put_site(&site)?;
        let commits = tx.commit()?;
        self.mark.write(&Reached { epoch: site.last_epoch, commits });
        Ok(site.promised_now)
    }

    /// The version of a write that begins now: each write of an org has its own. Also the time by the clock, which the
    /// version may be ahead of.
    pub(in crate::engine) fn stamp(
        &self,
        (head, time): (&Head, Option<Version>),
        at_least: Version,
    ) -> Result<(Version, Version)> {
        let time = time.unwrap_or_else(|| self.clock.now_ms());
        Ok((checked(time.max(head.promised_now).max(head.highest + 1).max(at_least))?, time))
    }
}

fn checked(v: Version) -> Result<Version> {
    if v <= VERSION_MAX {
        Ok(v)
    } else {
        Err(Error::new(Code::ServerError, "the server's clock is beyond what a version can hold"))
    }
}
