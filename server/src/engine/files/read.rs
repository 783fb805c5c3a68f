//! Reads of objects, and the right to them. If an application declares rights, to know a hash is none (R86).

use std::collections::{BTreeSet, HashMap, HashSet};

use escale::codec::Data;
use escale::model::{Def, Pk};
use escale::{Code, Error, Result};

use super::Filing;
use super::objects::{CHUNK, check_sha};
use super::refer::{Named, named};
use crate::engine::Caller;
use crate::engine::pull::{Watched, Work};
use crate::engine::rights::restrictions::{NO_READS, level_of};
use crate::engine::rights::{Access, Reads};
use crate::engine::trees::floor_above;
use crate::provider::{Place, Snapshot};

/// Documents and lists that are asked for a right to one object.
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
            let work = Work::of(self.settings.request_rows);
            let watched = Watched::of(snapshot.as_ref(), &work);
            let asking = (org, caller);
            if !Readers::of(self, (&watched, &work), asking, self.clock.now_ms()).may_read(sha)? {
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

    /// Whether a read of this caller may be refused.
    pub(super) fn decides_reads_of(&self, org: &str, caller: &Caller) -> bool {
        Access::of(self.0).is_decided_for_caller(org, caller)
    }
}

/// The rights of one caller to objects, in one snapshot. Its uploaders may read an object, and the readers of a document
/// that references it, or that references a file with this chunk.
///
/// The caller chooses how many objects there are to decide, and others may have referenced each of them many times. So
/// each document is looked at once for all of them, and no further one once the work is used up: then the caller uploads
/// the object itself.
pub(super) struct Readers<'a> {
    filing: &'a Filing<'a>,
    snapshot: &'a Watched<'a>,
    work: &'a Work<'a>,
    org: &'a str,
    caller: &'a Caller,
    reads: Reads<'a>,
    /// Whether not even its own uploads are for it (R89).
    is_restricted: bool,
    /// The documents that were looked at, by class and pk.
    looked_at: HashSet<(String, String)>,
    /// The objects that those of them show that the caller may read, each with the size of its largest file.
    shown: HashMap<String, u64>,
    /// The chunks and lists that were decided.
    decided: HashMap<(String, bool), bool>,
    /// The files of documents before the write in which they are asked for. No right to the files that it names now is decided yet.
    before: HashMap<(&'a str, &'a str), &'a BTreeSet<Named>>,
}

impl<'a> Readers<'a> {
    /// Nothing is decided yet.
    pub(super) fn of(
        filing: &'a Filing<'a>,
        (snapshot, work): (&'a Watched<'a>, &'a Work<'a>),
        (org, caller): (&'a str, &'a Caller),
        now: u64,
    ) -> Self {
        Readers {
            filing,
            snapshot,
            work,
            org,
            caller,
            reads: Reads::of(filing.0, snapshot, (org, caller), now),
            is_restricted: level_of(filing.0, org, caller) >= NO_READS,
            looked_at: HashSet::new(),
            shown: HashMap::new(),
            decided: HashMap::new(),
            before: HashMap::new(),
        }
    }

    /// Those documents show the files that they had before.
    pub(super) fn with_before(
        self,
        documents: impl Iterator<Item = (&'a str, &'a str, &'a BTreeSet<Named>)>,
    ) -> Self {
        let before = documents.map(|(class, pk, files)| ((class, pk), files)).collect();
        Readers { before, ..self }
    }

    /// Whether the caller may read an object that there is.
    pub(super) fn may_read(&mut self, sha: &str) -> Result<bool> {
        if !self.is_restricted && (!self.filing.decides_reads() || self.has_uploaded(sha)?) {
            return Ok(true);
        }
        self.decide((sha, false), |readers| {
            if readers.show(sha, 0)? {
                return Ok(true);
            }
            let lists = readers.snapshot.files().lists_of(readers.org, sha, ASKED_MAX)?;
            readers.work.spend(lists.len() as u64);
            for list in lists {
                if readers.show(&list, CHUNK + 1)? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    /// Whether the caller may name an object as a file of that size. The bytes of a list show nothing of its chunks: the
    /// caller must have the right to the file by a document, or to each chunk.
    pub(super) fn may_name(&mut self, sha: &str, size: u64) -> Result<bool> {
        if !self.filing.decides_reads() || size <= CHUNK {
            return self.may_read(sha);
        }
        self.decide((sha, true), |readers| {
            if readers.show(sha, CHUNK + 1)? {
                return Ok(true);
            }
            let chunks = readers.snapshot.files().chunks(readers.org, sha)?;
            readers.work.spend(chunks.len() as u64);
            for chunk in chunks.into_iter().collect::<BTreeSet<String>>() {
                if !readers.may_read(&chunk)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn decide(
        &mut self,
        (sha, is_list): (&str, bool),
        decide: impl FnOnce(&mut Self) -> Result<bool>,
    ) -> Result<bool> {
        let key = (sha.to_owned(), is_list);
        if let Some(decided) = self.decided.get(&key) {
            return Ok(*decided);
        }
        let decided = decide(self)?;
        self.decided.insert(key, decided);
        Ok(decided)
    }

    fn has_uploaded(&self, sha: &str) -> Result<bool> {
        self.work.spend_searches(1);
        self.snapshot.files().has_uploaded(self.org, &self.caller.account, sha)
    }

    /// Whether a document that the caller may read references the object, as a file of at least that size.
    fn show(&mut self, sha: &str, size_min: u64) -> Result<bool> {
        if self.is_shown(sha, size_min) {
            return Ok(true);
        }
        if self.work.is_used_up() {
            return Ok(false);
        }
        let referring = self.snapshot.files().referring(self.org, sha, ASKED_MAX)?;
        self.work.spend(referring.len() as u64);
        for document in referring {
            if self.work.is_used_up() {
                return Ok(false);
            }
            if self.looked_at.contains(&document) {
                continue;
            }
            self.look_at(Place { org: self.org, class: &document.0, pk: &document.1 })?;
            self.looked_at.insert(document);
            if self.is_shown(sha, size_min) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_shown(&self, sha: &str, size_min: u64) -> bool {
        self.shown.get(sha).is_some_and(|size| *size >= size_min)
    }

    /// Notes the files of a document that the caller may read.
    fn look_at(&mut self, at: Place) -> Result<()> {
        let engine = self.filing.0;
        let Ok(class) = engine.schema.class(at.class) else { return Ok(()) };
        let Some(document) = self.snapshot.document(at)?.filter(|document| !document.deleted) else {
            return Ok(());
        };
        if floor_above(self.snapshot, class, at)?.is_some() {
            return Ok(());
        }
        match self.reads.check(&Def::document(class.name(), &Pk::parse(at.pk)?)) {
            Ok(()) => {}
            Err(error) if matches!(error.code(), Code::Withdrawn | Code::Blocked) => return Ok(()),
            Err(error) => return Err(error),
        }
        let files = if let Some(files) = self.before.get(&(at.class, at.pk)) {
            (*files).clone()
        } else {
            let map = Data::from_bytes(&engine.seal.open(at, document.v, &document.data)?)?.to_map()?;
            class.files(&map).unwrap_or_default().into_iter().map(named).collect()
        };
        // A value that became a file with a later schema is no reference until it is written again.
        let referenced: HashSet<String> = self.snapshot.files().references(at)?.into_iter().collect();
        self.work.spend(referenced.len() as u64);
        for (sha, size) in files.into_iter().filter(|(sha, _)| referenced.contains(sha)) {
            let largest = self.shown.entry(sha).or_default();
            *largest = size.max(*largest);
        }
        Ok(())
    }
}
