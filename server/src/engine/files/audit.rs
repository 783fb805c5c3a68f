//! The comparison of the database with the store, for a database or a store that was restored from an old backup.

use std::collections::BTreeSet;

use escale::Result;
use escale::model::sha_s;

use crate::engine::files::filing::Filing;
use crate::engine::files::objects::{NO_ORG, sha_in, sha_of};
use crate::provider::{Purge, Snapshot};

/// Objects looked at at once.
const LOOKED_AT: usize = 1_000;

/// A difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The database has the object, and the store lacks its bytes, or has others.
    Lost {
        /// Whether a document or a list references it.
        is_referenced: bool,
    },
    /// The store has bytes that the database knows nothing of.
    Unknown,
    /// The store has objects of an org that the database does not know: it may be older than the org. The org's `shaS`
    /// stands for its name, and no object is named.
    UnknownOrg,
}

/// The outcome of an audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Objects of the database.
    pub objects: u64,
    /// Those of them whose bytes the store lacks.
    pub lost: u64,
    /// Objects of the store that the database does not know.
    pub unknown: u64,
    /// Orgs of the store that the database does not know. Their objects are not counted, and stay.
    pub unknown_orgs: u64,
}

impl Filing<'_> {
    /// Compares the database with the store, and tells each difference. It reads every object of the orgs that the database
    /// knows. With `apply`, it forgets lost objects that nothing references, and leaves unknown bytes to the sweep. Errors:
    /// `not_supported`, and those of the database, of the store and of `tell`.
    pub fn audit_files(
        &self,
        apply: bool,
        tell: &mut dyn FnMut(Side, &str, &str) -> Result<()>,
    ) -> Result<Audit> {
        let mut audit = Audit::default();
        // First of all: an org has its head before its first object.
        let mut orgs = BTreeSet::from_iter(self.store()?.orgs()?);
        let mut last = String::new();
        loop {
            let heads = self.provider.read()?.heads(&last, LOOKED_AT)?;
            let Some((org, _)) = heads.last() else { break };
            last.clone_from(org);
            for (org, _) in &heads {
                orgs.remove(&sha_s(org));
                self.audit_database(org, apply, &mut audit, tell)?;
                self.audit_store(org, apply, &mut audit, tell)?;
            }
        }
        // The mark of a store whose objects are all sealed is the server's own.
        orgs.remove(&sha_s(NO_ORG));
        audit.unknown_orgs = orgs.len() as u64;
        orgs.iter().try_for_each(|org| tell(Side::UnknownOrg, org, ""))?;
        Ok(audit)
    }

    /// The objects of the database.
    fn audit_database(
        &self,
        org: &str,
        apply: bool,
        audit: &mut Audit,
        tell: &mut dyn FnMut(Side, &str, &str) -> Result<()>,
    ) -> Result<()> {
        let mut last = String::new();
        loop {
            let found = self.provider.read()?.files().files_after(org, &last, LOOKED_AT)?;
            let Some((sha, _)) = found.last() else { return Ok(()) };
            last.clone_from(sha);
            for (sha, file) in &found {
                audit.objects += 1;
                if self.is_sound(org, sha, &file.name)? {
                    continue;
                }
                let mut lock = self.hold(org, self.settings.write_wait)?;
                // It may have been collected since it was listed.
                let is_there = |tx: &dyn Snapshot| -> Result<bool> {
                    Ok(tx.files().file(org, sha)?.is_some_and(|now| now.name == file.name))
                };
                if !is_there(lock.tx.snapshot())? {
                    continue;
                }
                audit.lost += 1;
                let files = lock.tx.snapshot().files();
                let is_free =
                    files.referring(org, sha, 1)?.is_empty() && files.lists_of(org, sha, 1)?.is_empty();
                if apply && is_free {
                    let now = lock.time.unwrap_or_else(|| self.clock.now_ms());
                    self.remove_row(&mut lock, org, sha, now)?;
                    self.commit(lock)?;
                }
                tell(Side::Lost { is_referenced: !is_free }, org, sha)?;
            }
        }
    }

    /// Whether the store has the bytes of an object.
    fn is_sound(&self, org: &str, sha: &str, name: &str) -> Result<bool> {
        let Some(stored) = self.store()?.get(org, name)? else { return Ok(false) };
        Ok(self.open_object(org, sha, &stored).is_ok_and(|bytes| sha_of(&bytes) == sha))
    }

    /// The objects of the store.
    fn audit_store(
        &self,
        org: &str,
        apply: bool,
        audit: &mut Audit,
        tell: &mut dyn FnMut(Side, &str, &str) -> Result<()>,
    ) -> Result<()> {
        let mut last = String::new();
        loop {
            let found = self.store()?.list(org, &last, LOOKED_AT)?;
            let Some(name) = found.last() else { return Ok(()) };
            last.clone_from(name);
            for name in &found {
                // Under the lock of the org: an upload writes its line before its bytes.
                let mut lock = self.hold(org, self.settings.write_wait)?;
                let files = lock.tx.snapshot().files();
                let row = files.file(org, sha_in(name))?;
                if row.is_some_and(|file| file.name == *name) || files.purge(org, name)?.is_some() {
                    continue;
                }
                audit.unknown += 1;
                if apply {
                    let now = lock.time.unwrap_or_else(|| self.clock.now_ms());
                    let purge = Purge { at: now + self.settings.purge_ms(), is_claimed: false };
                    lock.tx.edit_files().put_purge(org, name, &purge)?;
                    self.commit(lock)?;
                }
                tell(Side::Unknown, org, name)?;
            }
        }
    }
}
