//! The beginning of a write: the lock of its org, and the counters under it (R34).

use std::time::Duration;

use escale::{Code, Error, Result};

use super::Engine;
use crate::mark::Reached;
use crate::provider::{Head, Site, Transaction};

/// A write of an org that holds its head.
pub(super) struct Begun<'p> {
    pub(super) tx: Box<dyn Transaction + 'p>,
    /// The state that all orgs share, as it stays until the commit.
    pub(super) site: Site,
    /// The org's head, with the changes so far.
    pub(super) head: Head,
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
        let tx = self.provider.write(org, wait)?;
        let site = tx.site()?;
        let head = tx.head(org)?.unwrap_or_else(|| site.first_head());
        Ok(Begun { tx, site, head })
    }

    /// Stores the head, counts its commit, and commits. Records in the watermark how far the database has
    /// come (R8). Returns the head as it is now.
    pub(super) fn commit(&self, begun: Begun) -> Result<Head> {
        let Begun { mut tx, site, mut head } = begun;
        head.commits += 1;
        tx.put_head(&head)?;
        let commits = tx.commit()?;
        self.mark.write(&Reached { epoch: site.last_epoch, commits });
        Ok(head)
    }
}
