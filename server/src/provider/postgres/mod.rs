//! The provider on PostgreSQL, 14 or later: one database, in its schema `escale`, for any number of instances.
//!
//! A write locks the row of its org's head, and each of its statements sees the commits before it. Nothing else of the
//! org moves under that lock, so no stronger isolation is needed. Snapshots are read-only transactions in `REPEATABLE
//! READ`.

mod address;
mod connect;
mod edit;
mod failed;
mod feed;
mod files;
mod heads;
mod maintenance;
mod open;
mod operations;
mod pack;
mod pool;
mod read;
mod transaction;
mod trees;
mod turns;
mod wait;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use escale::Result;
use tokio::runtime::Runtime;

use super::{Changed, FeedRow, Maintenance, Provider, Seen, Snapshot, Transaction};
pub use address::Address;
use feed::Follower;
use pool::Pool;
use read::PostgresSnapshot;
use transaction::PostgresTransaction;
use turns::Turns;

/// How long a snapshot waits for a free connection.
const READ_WAIT: Duration = Duration::from_secs(10);

/// Documents in a PostgreSQL database.
pub struct PostgresProvider {
    writers: Pool,
    readers: Pool,
    follower: Mutex<Follower>,
    turns: Turns,
    /// Carries the connections. It is here to end last.
    runtime: Option<Runtime>,
}

impl Provider for PostgresProvider {
    fn read(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(PostgresSnapshot::open(&self.readers, READ_WAIT)?))
    }

    fn write(&self, org: &str, wait: Duration) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(PostgresTransaction::of_org(&self.writers, &self.turns, org, wait)?))
    }

    fn connections(&self) -> Vec<(&'static str, usize)> {
        vec![("write", self.writers.in_use()), ("read", self.readers.in_use())]
    }

    fn maintain(&self, wait: Duration) -> Result<Box<dyn Maintenance + '_>> {
        Ok(Box::new(PostgresTransaction::of_all(&self.writers, wait)?))
    }

    fn changed(&self, since: Option<&Seen>, visit: &mut dyn FnMut(FeedRow) -> Result<()>) -> Result<Changed> {
        self.follower.lock().unwrap_or_else(PoisonError::into_inner).look(since, visit)
    }

    /// Rewrites the tables. The database's log and its backups still hold the data.
    fn scrub(&self) -> Result<()> {
        let (connection, ()) = self.writers.take(READ_WAIT, |_| Ok(()))?;
        connection.batch("SET statement_timeout = 0")?;
        for table in ["documents", "actions", "ops"] {
            connection.batch(&format!("VACUUM (FULL) {table}"))?;
        }
        connection.batch("SET statement_timeout = '10s'")
    }
}

impl Drop for PostgresProvider {
    fn drop(&mut self) {
        // The last owner may be a task of another runtime, which must not wait for this one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
