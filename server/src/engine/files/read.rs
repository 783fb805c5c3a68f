//! Reads of objects, and the right to them. If an application declares rights, to know a hash is none (R86).

use std::collections::BTreeSet;

use escale::codec::Data;
use escale::model::{Def, Pk};
use escale::{Code, Error, Result};

use super::Filing;
use super::objects::{CHUNK, check_sha};
use crate::engine::rights::restrictions::{NO_READS, level_of};
use crate::engine::rights::{Access, Reads};
use crate::engine::trees::floor_above;
use crate::engine::{Caller, Engine};
use crate::provider::{Place, Snapshot};

/// Documents and lists that are asked for a right to one object: so much work a stranger may cause.
const ASKED_MAX: usize = 1_000;

impl Filing<'_> {
    /// The bytes of an object. Errors: `not_supported`; `not_found` if there is none, or none for this caller; those of the
    /// database and of the store.
    pub fn object(&self, org: &str, caller: &Caller, sha: &str) -> Result<Vec<u8>> {
        let store = self.store()?;
        check_sha(sha)?;
        // Between the two reads an object may get another name, but not two.
        for _ in 0..2 {
            let snapshot = self.provider.read()?;
            let absent = || Error::new(Code::NotFound, "no such object, or none for this account");
            let file = snapshot.files().file(org, sha)?.ok_or_else(absent)?;
            if !self.may_read_object(snapshot.as_ref(), (org, caller), sha, self.clock.now_ms())? {
                return Err(absent());
            }
            drop(snapshot);
            if let Some(stored) = store.get(org, &file.name)? {
                return self.open_object(org, sha, &stored);
            }
        }
        Err(Error::new(
            Code::StorageFailed,
            "the store has lost an object: see `escale-server files --audit`",
        ))
    }

    /// Whether a read may be refused at all.
    pub(super) fn decides_reads(&self) -> bool {
        Access::of(self.0).is_decided()
    }

    /// Whether the caller may read an object that there is. Its uploaders may, and the readers of a document that references
    /// it, or that references a file with this chunk.
    pub(super) fn may_read_object(
        &self,
        snapshot: &dyn Snapshot,
        (org, caller): (&str, &Caller),
        sha: &str,
        now: u64,
    ) -> Result<bool> {
        let files = snapshot.files();
        let is_restricted = level_of(self.0, org, caller) >= NO_READS;
        if !is_restricted && (!self.decides_reads() || files.has_uploaded(org, &caller.account, sha)?) {
            return Ok(true);
        }
        let mut readers =
            Readers { engine: self.0, reads: Reads::of(self.0, snapshot, (org, caller), now), snapshot };
        if readers.show(org, sha, 0)? {
            return Ok(true);
        }
        for list in files.lists_of(org, sha, ASKED_MAX)? {
            if readers.show(org, &list, CHUNK + 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the caller may name an object as a file of that size. The bytes of a list show nothing of its chunks: the
    /// caller must have the right to the file by a document, or to each chunk.
    pub(super) fn may_name_file(
        &self,
        snapshot: &dyn Snapshot,
        (org, caller): (&str, &Caller),
        (sha, size): (&str, u64),
        now: u64,
    ) -> Result<bool> {
        if !self.decides_reads() || size <= CHUNK {
            return self.may_read_object(snapshot, (org, caller), sha, now);
        }
        let mut readers =
            Readers { engine: self.0, reads: Reads::of(self.0, snapshot, (org, caller), now), snapshot };
        if readers.show(org, sha, CHUNK + 1)? {
            return Ok(true);
        }
        let chunks: BTreeSet<String> = snapshot.files().chunks(org, sha)?.into_iter().collect();
        for chunk in chunks {
            if !self.may_read_object(snapshot, (org, caller), &chunk, now)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The documents that show an object to one caller.
struct Readers<'a> {
    engine: &'a Engine,
    reads: Reads<'a>,
    snapshot: &'a dyn Snapshot,
}

impl Readers<'_> {
    /// Whether a document that the caller may read references the object, as a file of at least that size.
    fn show(&mut self, org: &str, sha: &str, size_min: u64) -> Result<bool> {
        for (class, pk) in self.snapshot.files().referring(org, sha, ASKED_MAX)? {
            if self.shows(Place { org, class: &class, pk: &pk }, sha, size_min)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn shows(&mut self, at: Place, sha: &str, size_min: u64) -> Result<bool> {
        let Ok(class) = self.engine.schema.class(at.class) else { return Ok(false) };
        let Some(document) = self.snapshot.document(at)?.filter(|document| !document.deleted) else {
            return Ok(false);
        };
        if floor_above(self.snapshot, class, at)?.is_some() {
            return Ok(false);
        }
        match self.reads.check(&Def::document(class.name(), &Pk::parse(at.pk)?)) {
            Ok(()) => {}
            Err(error) if matches!(error.code(), Code::Withdrawn | Code::Blocked) => return Ok(false),
            Err(error) => return Err(error),
        }
        let map = Data::from_bytes(&self.engine.seal.open(at, document.v, &document.data)?)?.to_map()?;
        let mut files = class.files(&map).unwrap_or_default().into_iter();
        Ok(files.any(|file| file.sha == sha && file.size >= size_min))
    }
}
