//! The end of objects: those past their time lose their rows, and some days later their bytes. Every instance collects and
//! sweeps: twice is harmless.

use std::collections::BTreeSet;

use escale::Result;

use crate::engine::files::filing::Filing;
use crate::engine::records::object::end_reference;
use crate::engine::tx::lock::OrgLock;
use crate::provider::{File, Purge};

/// Objects that lose their rows in one transaction.
const COLLECTED: usize = 100;

/// Chunks of lists after which such a transaction ends.
const CHUNKS: usize = 2_000;

/// Objects whose bytes are removed between two transactions.
const SWEPT: usize = 100;

impl Filing<'_> {
    /// Collects and sweeps the objects of an org. Returns how many lost their rows. Errors: those of the database and of the
    /// store.
    pub(in crate::engine) fn purge_files(&self, org: &str) -> Result<u64> {
        if self.store().is_err() || !self.is_due(org)? {
            return Ok(0);
        }
        let mut n = 0;
        while let Some(collected) = self.collect(org)? {
            n += collected;
        }
        while self.sweep(org)? {}
        Ok(n)
    }

    /// Whether anything of an org is past its time. It takes no lock, because most orgs have nothing most of the time.
    fn is_due(&self, org: &str) -> Result<bool> {
        let snapshot = self.provider.read()?;
        let now = self.time_by(snapshot.server()?.as_ref())?;
        let files = snapshot.files();
        Ok(!files.due_files(org, now, 1)?.is_empty() || !files.due_purges(org, now, 1)?.is_empty())
    }

    /// One transaction that removes the rows of objects past their time. Returns their number; none if nothing was due.
    fn collect(&self, org: &str) -> Result<Option<u64>> {
        let mut lock = self.hold(org, self.settings.write_wait)?;
        let now = lock.time.unwrap_or_else(|| self.clock.now_ms());
        let due = lock.tx.snapshot().files().due_files(org, now, COLLECTED)?;
        if due.is_empty() {
            return Ok(None);
        }
        let (mut n, mut room) = (0, CHUNKS);
        for sha in &due {
            if room == 0 {
                break;
            }
            let files = lock.tx.snapshot().files();
            let Some(file) = files.file(org, sha)? else { continue };
            if !files.referring(org, sha, 1)?.is_empty() || !files.lists_of(org, sha, 1)?.is_empty() {
                lock.tx.edit_files().put_file(org, sha, &File { until: None, ..file })?;
                continue;
            }
            room = room.saturating_sub(self.remove_row(&mut lock, org, sha, now)?);
            let purge = Purge { at: now + self.settings.purge_ms(), is_claimed: false };
            lock.tx.edit_files().put_purge(org, &file.name, &purge)?;
            n += 1;
        }
        self.commit(lock)?;
        Ok(Some(n))
    }

    /// Removes the row of an object that nothing references. Chunks that nothing else lists get a deadline. Returns how many
    /// chunks it listed.
    pub(super) fn remove_row(&self, lock: &mut OrgLock, org: &str, sha: &str, now: u64) -> Result<usize> {
        let files = lock.tx.snapshot().files();
        let chunks: BTreeSet<String> = files.chunks(org, sha)?.into_iter().collect();
        lock.tx.edit_files().remove_file(org, sha)?;
        // A session may know from a moment ago that the server keeps a chunk for so long.
        let until = now + self.settings.upload_ms();
        for chunk in &chunks {
            end_reference(lock.tx.as_mut(), org, chunk, until)?;
        }
        Ok(chunks.len())
    }

    /// Removes the bytes of objects whose lines are due. A claim comes first, so that no upload ends under such a name.
    /// Returns whether there may be more.
    fn sweep(&self, org: &str) -> Result<bool> {
        let mut lock = self.hold(org, self.settings.write_wait)?;
        let now = lock.time.unwrap_or_else(|| self.clock.now_ms());
        let due = lock.tx.snapshot().files().due_purges(org, now, SWEPT)?;
        if due.is_empty() {
            return Ok(false);
        }
        for name in &due {
            lock.tx.edit_files().put_purge(org, name, &Purge { at: now, is_claimed: true })?;
        }
        self.commit(lock)?;
        for name in &due {
            self.store()?.delete(org, name)?;
        }
        let mut lock = self.hold(org, self.settings.write_wait)?;
        for name in &due {
            // An upload that found the claim may have written the line again: its bytes came late.
            if lock.tx.snapshot().files().purge(org, name)?.is_some_and(|purge| purge.is_claimed) {
                lock.tx.edit_files().remove_purge(org, name)?;
            }
        }
        self.commit(lock)?;
        Ok(due.len() == SWEPT)
    }
}
