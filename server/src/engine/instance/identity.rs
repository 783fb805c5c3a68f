//! The server that runs the database: its clock (R35), and whether it lost commits (R39).
//!
//! A database server may go back: a replica that lacked commits is promoted, or a backup is restored under a
//! running instance. Another identity of the server shows it, or a head that is behind the one seen before. All
//! epochs are then renewed before any write, so that each session loads its collections again.

use escale::model::Version;
use escale::{Code, Error, Result};

use crate::engine::instance::context::Instance;
use crate::engine::instance::epochs::{WRITE_WAIT, fresh_name, next_epoch_after, renew_all};
use crate::engine::instance::heads_seen::Progress;
use crate::mark::Reached;
use crate::provider::{Head, Provider, Server, Site};

/// Milliseconds by which the clocks of the database and of this machine may differ. A step forward of an org's
/// versions is final, so two clocks must agree on it.
const CLOCKS_MS_MAX: u64 = 60_000;

impl Instance {
    /// The time of a write: the database's own if it has one, otherwise the instance's. Errors: `unavailable`
    /// if the two differ too much.
    pub(in crate::engine) fn time_by(&self, server: Option<&Server>) -> Result<Version> {
        let own = self.clock.now_ms();
        let Some(Server { now_ms, .. }) = server else { return Ok(own) };
        let apart = own.abs_diff(*now_ms);
        let ahead = i64::try_from(*now_ms).unwrap_or(i64::MAX) - i64::try_from(own).unwrap_or(i64::MAX);
        self.figures.database_clock_ms.set(ahead);
        if apart > CLOCKS_MS_MAX {
            let detail = format!(
                "the clocks of the database and of this machine are {} s apart: set both right, then writes go on",
                apart / 1_000
            );
            return Err(Error::new(Code::Unavailable, detail));
        }
        Ok(*now_ms)
    }

    /// Renews every epoch, unless another instance has done it. Called when [`is_rolled_back`] has found it
    /// necessary for that org.
    pub(in crate::engine) fn renew_lost(&self, org: &str, seen: Option<&Progress>) -> Result<()> {
        let mut tx = self.provider.maintain(WRITE_WAIT)?;
        let (mut site, server) = (tx.snapshot().site()?, tx.snapshot().server()?);
        let Some(server) = server else { return Ok(()) };
        let head = tx.snapshot().head(org)?.unwrap_or_else(|| site.first_head());
        let is_behind = seen.is_some_and(|seen| seen.is_lost_by(&head));
        let is_renewed = match &site.server {
            Some(before) if *before == server.id => is_behind,
            // Synchronous standbys have every commit that was acknowledged.
            Some(before) if self.settings.is_failover_lossless && before.database == server.id.database => {
                is_behind
            }
            _ => true,
        };
        if !is_renewed && site.server.as_ref() == Some(&server.id) {
            return Ok(());
        }
        site.server = Some(server.id.clone());
        if is_renewed {
            let now = self.time_by(Some(&server))?;
            let after = seen.map(|seen| seen.epoch.ms()).unwrap_or_default();
            let epoch = next_epoch_after(after, &site, &self.mark, (now, fresh_name()?))?;
            renew_all(tx.as_mut(), &mut site, &epoch)?;
            self.figures.renewals.inc();
            tracing::warn!(
                is_behind,
                "the database may have lost commits: it was restored, or its replica took over; all epochs are \
                 renewed, and every session loads its collections again"
            );
        } else {
            tracing::warn!("another server runs the database; by --failover lossless it has every commit");
        }
        tx.put_site(&site)?;
        let commits = tx.commit()?;
        self.mark.write(&Reached { epoch: site.last_epoch, commits });
        Ok(())
    }

    /// Checks the database while nobody asks for anything: whether it lost commits, and its clock. A server
    /// calls it every minute. Errors: those of the database; `unavailable` for its clock.
    pub fn check_database(&self) -> Result<()> {
        let snapshot = self.provider.read()?;
        let (site, server) = (snapshot.site()?, snapshot.server()?);
        drop(snapshot);
        if is_rolled_back((&site, server.as_ref()), None, &site.first_head()) {
            self.renew_lost("", None)?;
        }
        self.time_by(server.as_ref()).map(drop)
    }
}

impl Instance {
    /// Whether this instance can answer and write now. Errors: those of [`Instance::check_database`]; `unavailable` for a
    /// schema that another instance has replaced (R38).
    pub fn check_ready(&self) -> Result<()> {
        self.check_database()?;
        if self.provider.read()?.site()?.generation != self.generation {
            return Err(Error::new(
                Code::Unavailable,
                "another instance has a newer schema: start this one again with it",
            ));
        }
        Ok(())
    }
}

/// Whether the database is another one than before, or has lost commits of the org. `seen` is the progress that was
/// known before the head was read. An org without a head has the site's first one.
pub(in crate::engine) fn is_rolled_back(
    (site, server): (&Site, Option<&Server>),
    seen: Option<&Progress>,
    head: &Head,
) -> bool {
    server.is_some_and(|server| {
        site.server.as_ref() != Some(&server.id) || seen.is_some_and(|seen| seen.is_lost_by(head))
    })
}

/// Accepts the server that runs the database now, without new epochs: after an upgrade of PostgreSQL, for example,
/// which lost nothing. Errors: `bad_option` for a database without a server of its own.
pub fn adopt_server(provider: &dyn Provider) -> Result<()> {
    let mut tx = provider.maintain(WRITE_WAIT)?;
    let server = tx.snapshot().server()?.ok_or_else(|| {
        Error::new(Code::BadOption, "--adopt: only a database with a server of its own has an identity")
    })?;
    let site = Site { server: Some(server.id), ..tx.snapshot().site()? };
    tx.put_site(&site)?;
    tx.commit().map(drop)
}
