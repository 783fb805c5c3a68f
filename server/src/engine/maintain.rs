//! Maintenance of the database: the purge, and the renewal of the epoch.

use std::path::Path;

use escale::Result;
use escale::model::Epoch;

use super::open::{WRITE_WAIT, fresh_name, next_epoch, put_state, reached};
use super::{Engine, first_state};
use crate::mark::Mark;
use crate::provider::{Provider, SqliteProvider, inspect};

/// Documents and departures purged in one transaction: far below the time limit of a write.
const PURGE_BATCH: usize = 500;

impl Engine {
    /// Removes everything older than the retention time, and moves the horizon there (R6). Returns how many
    /// tombstones, expired documents and departures were removed. Old results of operations are removed too.
    pub fn purge(&self) -> Result<u64> {
        let mut n = 0;
        loop {
            let mut tx = self.provider.write(self.settings.write_wait)?;
            let mut state = tx.state()?;
            let now = self.clock.now_ms();
            let horizon = state.horizon.max(now.saturating_sub(self.settings.retention_ms()));
            let gone = tx.purge(now, horizon, PURGE_BATCH)?;
            n += gone;
            // The horizon moves with the first removal, and not before. Until then no session needs
            // `present`.
            if gone > 0 {
                state.horizon = horizon;
                put_state(tx.as_mut(), &mut state)?;
                tx.commit()?;
                self.remember(&state);
            }
            if gone < PURGE_BATCH as u64 {
                break;
            }
        }
        self.purge_results()?;
        Ok(n)
    }

    /// Removes the results of old operations (R11). Their ids, and the last number of each session, are kept
    /// for ever.
    fn purge_results(&self) -> Result<()> {
        loop {
            let mut tx = self.provider.write(self.settings.write_wait)?;
            let before = self.clock.now_ms().saturating_sub(self.settings.results_ms());
            let gone = tx.purge_operations(before, PURGE_BATCH)?;
            if gone > 0 {
                tx.commit()?;
            }
            if gone < PURGE_BATCH as u64 {
                return Ok(());
            }
        }
    }
}

/// The epoch of the database file at `path`. Writes nothing.
pub fn epoch_of(path: &Path) -> Result<Epoch> {
    Ok(inspect(path)?.epoch)
}

/// Begins a new epoch of the database file at `path` (R8), even if a server is using it. Every session then
/// loads its collections again.
pub fn renew_epoch_of(path: &Path, now_ms: u64) -> Result<Epoch> {
    inspect(path)?;
    let provider = SqliteProvider::open(path, &first_state(now_ms)?)?;
    renew_epoch(&provider, &Mark::beside(path), now_ms, fresh_name()?)
}

/// Begins a new epoch of a database, with that name.
pub fn renew_epoch(provider: &dyn Provider, mark: &Mark, now_ms: u64, name: u64) -> Result<Epoch> {
    let mut tx = provider.write(WRITE_WAIT)?;
    let mut state = tx.state()?;
    state.epoch = next_epoch(&state, mark, now_ms, name)?;
    put_state(tx.as_mut(), &mut state)?;
    tx.commit()?;
    mark.write(&reached(&state));
    Ok(state.epoch)
}
