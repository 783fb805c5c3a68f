//! The right to read objects. If an application declares rights, to know a hash is none (R86).

use std::collections::{BTreeSet, HashMap, HashSet};

use escale::limits::CHUNK_BYTES;
use escale::model::{Def, Pk};
use escale::{Code, Result};

use crate::engine::caller::{Caller, NO_READS};
use crate::engine::instance::context::Instance;
use crate::engine::instance::refusals::level_of;
use crate::engine::instance::work::{Watched, Work};
use crate::engine::records::opened::read_document;
use crate::engine::rights::read::{Access, Reads};
use crate::engine::tx::trees::floor_of;
use crate::engine::tx::write_tx::{Named, named};
use crate::provider::Place;

/// Bytes of a chunk, as those of files are counted.
pub(in crate::engine) const CHUNK: u64 = CHUNK_BYTES as u64;

/// Documents and lists that are asked for a right to one object.
const ASKED_MAX: usize = 1_000;

/// The rights of one caller to objects, in one snapshot. Its uploaders may read an object, and the readers of a document
/// that references it, or that references a file with this chunk.
///
/// The caller chooses how many objects there are to decide, and others may have referenced each of them many times. So
/// each document is looked at once for all of them, and no further one once the work is used up: then the caller uploads
/// the object itself.
pub(in crate::engine) struct Readers<'a> {
    instance: &'a Instance,
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
    pub(in crate::engine) fn of(
        instance: &'a Instance,
        (snapshot, work): (&'a Watched<'a>, &'a Work<'a>),
        (org, caller): (&'a str, &'a Caller),
        now: u64,
    ) -> Self {
        Readers {
            instance,
            snapshot,
            work,
            org,
            caller,
            reads: Reads::of(instance, snapshot, (org, caller), now),
            is_restricted: level_of(instance, org, caller) >= NO_READS,
            looked_at: HashSet::new(),
            shown: HashMap::new(),
            decided: HashMap::new(),
            before: HashMap::new(),
        }
    }

    /// Those documents show the files that they had before.
    pub(in crate::engine) fn with_before(
        self,
        documents: impl Iterator<Item = (&'a str, &'a str, &'a BTreeSet<Named>)>,
    ) -> Self {
        let before = documents.map(|(class, pk, files)| ((class, pk), files)).collect();
        Readers { before, ..self }
    }

    /// Whether the caller may read an object that there is.
    pub(in crate::engine) fn may_read(&mut self, sha: &str) -> Result<bool> {
        if !self.is_restricted && (!Access::of(self.instance).is_decided() || self.has_uploaded(sha)?) {
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
    pub(in crate::engine) fn may_name(&mut self, sha: &str, size: u64) -> Result<bool> {
        if !Access::of(self.instance).is_decided() || size <= CHUNK {
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
        let instance = self.instance;
        let Ok(class) = instance.schema.class(at.class) else { return Ok(()) };
        let Some(stored) = read_document(self.snapshot, &instance.seal, at)? else { return Ok(()) };
        if stored.document.deleted || floor_of(self.snapshot, class, (at.org, &stored))?.is_some() {
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
            class.files(&stored.properties()?).unwrap_or_default().into_iter().map(named).collect()
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
