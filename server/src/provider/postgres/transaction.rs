//! The beginning and the end of a write: the locks, and the commit.

use std::time::{Duration, Instant};

use escale::Result;
use futures_util::future::{join, join3};

use super::connect::Connection;
use super::failed::{damaged, failed};
use super::heads::{LOCK_HEAD, SITE, head_of, site_of, unsigned};
use super::pool::{Pool, Pooled};
use super::read::{Known, PostgresSnapshot};
use super::turns::{Turn, Turns};
use super::wait::wait;

/// The advisory locks of two numbers: `Escl` with 0 for the site, and the next number with the hash of an org
/// that has no head.
const OF_SITE: i32 = 0x4573_636c;
const OF_NEW_ORG: i32 = OF_SITE + 1;

/// A write of an org, or maintenance; rolled back if dropped before its commit.
pub(super) struct PostgresTransaction<'p> {
    pub(super) reads: PostgresSnapshot<'p>,
    /// The org that it writes; empty for maintenance.
    pub(super) org: String,
    pub(super) has_savepoint: bool,
    /// Given back after the connection: the next writer of the org finds the lock free.
    _turn: Option<Turn<'p>>,
}

impl<'p> PostgresTransaction<'p> {
    /// Begins a write of an org: it shares the lock of the site, and holds the org's head.
    pub(super) fn of_org(writers: &'p Pool, turns: &'p Turns, org: &str, wait: Duration) -> Result<Self> {
        let until = Instant::now() + wait;
        let left = || until.saturating_duration_since(Instant::now());
        let turn = turns.take(org, wait)?;
        let (connection, known) = writers.take(left(), |connection| begin(connection, org, left()))?;
        Ok(Self::over(connection, org, Some(known), Some(turn)))
    }

    /// Begins maintenance: it holds the lock of the site alone, so no write runs.
    pub(super) fn of_all(writers: &'p Pool, wait: Duration) -> Result<Self> {
        let until = Instant::now() + wait;
        let (connection, ()) = writers.take(wait, |connection| {
            let left = until.saturating_duration_since(Instant::now());
            lock_site(connection, left)
        })?;
        Ok(Self::over(connection, "", None, None))
    }

    fn over(connection: Pooled<'p>, org: &str, known: Option<Known>, turn: Option<Turn<'p>>) -> Self {
        let reads = PostgresSnapshot::of(connection, known, !org.is_empty());
        PostgresTransaction { reads, org: org.to_owned(), has_savepoint: false, _turn: turn }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.reads.connection
    }

    /// Makes everything durable. Returns the number of commits of the database.
    pub(super) fn end(&mut self) -> Result<u64> {
        let count = self.connection().prepared("SELECT nextval('commits')")?;
        let client = self.connection().client();
        // After a failed statement COMMIT rolls back, and reports no error. The count then fails, too.
        let ending = async {
            let (count, committed) =
                join(client.query_one(&count, &[]), client.batch_execute("COMMIT")).await;
            let commits = unsigned(count.map_err(failed)?.get(0));
            committed.map_err(failed)?;
            Ok(commits)
        };
        let commits = self.connection().after_pending(ending)?;
        self.reads.is_over = true;
        Ok(commits)
    }
}

/// Begins a write in one message. Each statement sees the commits before it, also those that a lock waited for.
fn begin(connection: &Connection, org: &str, left: Duration) -> Result<Known> {
    let begin = format!(
        "BEGIN; SET LOCAL lock_timeout = {}; SELECT pg_advisory_xact_lock_shared({OF_SITE}, 0)",
        ms(left)
    );
    let (lock, read) = (connection.prepared(LOCK_HEAD)?, connection.prepared(SITE)?);
    let client = connection.client();
    let org_params: super::connect::Params = &[&org];
    let (begun, head, site) = wait(join3(
        client.batch_execute(&begin),
        client.query_opt(&lock, org_params),
        client.query_opt(&read, &[]),
    ));
    begun.map_err(failed)?;
    let mut head = head.map_err(failed)?;
    let mut site = site.map_err(failed)?;
    if head.is_none() {
        // There is no row to lock. The first writes of an org come one after another by this lock, and the
        // second one finds the row of the first.
        connection.batch(&format!("SELECT pg_advisory_xact_lock({OF_NEW_ORG}, {})", hash(org)))?;
        head = connection.one(LOCK_HEAD, org_params)?;
        site = connection.one(SITE, &[])?;
    }
    let head = head.map(|row| head_of(&row)).transpose()?;
    let (site, server) = site_of(connection, &site.ok_or_else(|| damaged("no site"))?)?;
    Ok(Known { site, server, head: Some((org.to_owned(), head)) })
}

/// Begins a transaction that holds the lock of the site alone. It may take long: a new index visits everything.
pub(super) fn lock_site(connection: &Connection, left: Duration) -> Result<()> {
    connection.batch(&format!(
        "BEGIN; SET LOCAL lock_timeout = {}; SELECT pg_advisory_xact_lock({OF_SITE}, 0);
         SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = '60s'",
        ms(left)
    ))
}

/// Milliseconds for a setting in which 0 would mean for ever.
fn ms(wait: Duration) -> u128 {
    wait.as_millis().clamp(1, 60_000)
}

/// A number for an org. Two orgs of one number wait for each other at their first writes, and no longer.
fn hash(org: &str) -> i32 {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(org);
    i32::from_be_bytes(*hash[..].first_chunk().expect("4 of 32 bytes"))
}
