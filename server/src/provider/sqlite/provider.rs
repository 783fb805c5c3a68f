//! An instance on a file.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use escale::Result;

use super::connection::{BUSY, Readers, connect};
use super::failed::failed;
use super::feed::Watcher;
use super::open::make_tables;
use super::read::SqliteSnapshot;
use super::transaction::SqliteTransaction;
use super::turn::Turn;
use crate::lock::lock;
use crate::provider::{Changed, FeedRow, Maintenance, Provider, Seen, Site, Snapshot, Transaction};

/// Documents in one SQLite file.
pub struct SqliteProvider {
    writer: Turn,
    readers: Readers,
    watcher: Mutex<Watcher>,
}

impl SqliteProvider {
    /// Opens the file at `path`, or makes it with `first`. Errors: `store_too_new` for a file of
    /// a newer format, which is left untouched; `storage_failed` for a file of another kind.
    pub fn open(path: &Path, first: &Site) -> Result<Self> {
        let mut writer = connect(path)?;
        // Writes touch pages all over the indexes. A larger cache keeps these in memory, and rarer
        // checkpoints copy them from the log less often.
        writer
            .execute_batch("PRAGMA cache_size = -65536; PRAGMA wal_autocheckpoint = 16384;")
            .map_err(failed)?;
        make_tables(&mut writer, first)?;
        let watcher = Watcher::on(connect(path)?);
        Ok(SqliteProvider {
            writer: Turn::new(writer),
            readers: Readers::of(path),
            watcher: Mutex::new(watcher),
        })
    }
}

impl Provider for SqliteProvider {
    fn read(&self) -> Result<Box<dyn Snapshot + '_>> {
        Ok(Box::new(SqliteSnapshot::open(&self.readers)?))
    }

    /// SQLite has one lock for the whole file, so writes of different orgs wait for each other, too. The orgs take turns.
    fn write(&self, org: &str, wait: Duration) -> Result<Box<dyn Transaction + '_>> {
        Ok(Box::new(SqliteTransaction::begin(self.writer.take(org, wait)?, org, wait)?))
    }

    fn maintain(&self, wait: Duration) -> Result<Box<dyn Maintenance + '_>> {
        Ok(Box::new(SqliteTransaction::begin(self.writer.take("", wait)?, "", wait)?))
    }

    fn changed(&self, since: Option<&Seen>, visit: &mut dyn FnMut(FeedRow) -> Result<()>) -> Result<Changed> {
        lock(&self.watcher).look(since, visit)
    }

    /// From now on overwrites deleted data, and rewrites the file once.
    fn scrub(&self) -> Result<()> {
        let writer = self.writer.take("", BUSY)?;
        writer
            .execute_batch("PRAGMA secure_delete = ON; VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")
            .map_err(failed)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use escale::model::Epoch;

    use super::super::connection::IDLE_READERS_MAX;
    use super::*;

    fn first() -> Site {
        let epoch = Epoch::new(1, "first").unwrap();
        let (last_epoch, cursor_key) = (epoch.clone(), vec![0; 32]);
        let (schema, seal_check) = (String::new(), Vec::new());
        Site {
            epoch,
            last_epoch,
            generation: 0,
            commits: 0,
            promised_now: 0,
            cursor_key,
            schema,
            seal_check,
            server: None,
        }
    }

    #[test]
    fn read_connections_are_kept_for_the_next_snapshots_up_to_a_bound() {
        let folder = tempfile::tempdir().unwrap();
        let provider = SqliteProvider::open(&folder.path().join("db"), &first()).unwrap();
        let before = provider.readers.idle();
        drop(provider.read().unwrap());
        assert_eq!(provider.readers.idle(), before.max(1));
        let many: Vec<_> = (0..IDLE_READERS_MAX + 2).map(|_| provider.read().unwrap()).collect();
        assert_eq!(provider.readers.idle(), 0, "each snapshot has its own");
        drop(many);
        assert_eq!(provider.readers.idle(), IDLE_READERS_MAX);
    }
}
