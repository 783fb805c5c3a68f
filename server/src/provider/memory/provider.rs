//! An instance on a database in memory.

use std::sync::Arc;
use std::time::Duration;

use escale::Result;

use super::database::MemoryDatabase;
use super::maintenance::MemoryMaintenance;
use super::snapshot::MemorySnapshot;
use super::transaction::MemoryTransaction;
use crate::provider::{Changed, FeedRow, Maintenance, Provider, Seen, Snapshot, Transaction};

/// An instance's connection to a [`MemoryDatabase`].
pub struct MemoryProvider {
    database: Arc<MemoryDatabase>,
}

impl MemoryProvider {
    /// A connection.
    pub fn open(database: &Arc<MemoryDatabase>) -> Self {
        MemoryProvider { database: database.clone() }
    }
}

impl Provider for MemoryProvider {
    fn read(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(MemorySnapshot::open(&self.database)))
    }

    fn write(&self, org: &str, wait: Duration) -> Result<Box<dyn Transaction + '_>> {
        self.database.turns.take_org(org, wait)?;
        Ok(Box::new(MemoryTransaction::begin(&self.database, org)))
    }

    fn maintain(&self, wait: Duration) -> Result<Box<dyn Maintenance + '_>> {
        self.database.turns.take_all(wait)?;
        Ok(Box::new(MemoryMaintenance::begin(&self.database)))
    }

    fn changed(&self, since: Option<&Seen>, visit: &mut dyn FnMut(FeedRow) -> Result<()>) -> Result<Changed> {
        let feed = self.database.tables().feed;
        let number = |entry: Option<(&u64, _)>| entry.map_or(0, |(number, _)| *number);
        let (oldest, newest) = (number(feed.first_key_value()), number(feed.last_key_value()));
        let since = since.map(Seen::number);
        for (_, row) in feed.range(since.unwrap_or(newest) + 1..) {
            visit(row.as_ref().clone())?;
        }
        Ok(Changed::at_number(newest, since, oldest))
    }
}
