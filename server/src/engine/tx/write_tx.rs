//! A write in progress: its version, and all that it has read and noted so far. `effects` changes documents with it.

use std::collections::{BTreeMap, BTreeSet};

use escale::model::schema::{FileRef, Schema};
use escale::model::{Value, Version};
use escale::{Code, Error, Result};
use smol_str::SmolStr;

use crate::engine::caller::Caller;
use crate::engine::instance::context::Instance;
use crate::engine::instance::work::Work;
use crate::engine::records::counter::Counter;
use crate::engine::records::opened::Opened;
use crate::engine::tx::budget::Growth;
use crate::engine::tx::lock::OrgLock;
use crate::provider::{Document, Transaction, Tree};
use crate::settings::WRITE_MS_MAX;

/// The outcome of a put or a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The document was written, or deleted.
    Written,
    /// The document was already equal, and keeps its version.
    Unchanged,
}

impl OrgLock<'_> {
    /// A write that begins under the lock, in the name of a caller. Its version is at least this one.
    pub(in crate::engine) fn write<'t>(
        &'t mut self,
        instance: &'t Instance,
        caller: &'t Caller,
        at_least: Version,
    ) -> Result<WriteTx<'t>> {
        let (now, time) = instance.stamp((&self.head, self.time), at_least)?;
        Ok(WriteTx {
            instance,
            org: &self.org,
            caller,
            level: 0,
            now,
            time,
            started: instance.clock.elapsed_ms(),
            tx: self.tx.as_mut(),
            commit: format!("v{now}"),
            own: BTreeSet::new(),
            counters: Counters { kept: self.head.kept, ..Counters::default() },
            files: Referenced::default(),
            trees: BTreeMap::new(),
            notes: Notes::default(),
        })
    }

    /// A write of that version is to be committed: the next one is stamped above it.
    pub(in crate::engine) fn keep(&mut self, now: Version, notes: &Notes) {
        self.head.highest = self.head.highest.max(now);
        self.head.kept += notes.journaled;
    }
}

/// Class and pk of a document.
pub(in crate::engine) type Actor = (SmolStr, SmolStr);

/// A document or tombstone as a write finds it.
pub(in crate::engine) struct Stored {
    pub(in crate::engine) opened: Opened,
    /// The floor of its tree, if it is an item below it (R17).
    pub(in crate::engine) ended: Option<Version>,
}

impl Stored {
    /// The document, if it exists.
    pub(in crate::engine) fn living(&self) -> Option<&Opened> {
        (!self.opened.document.deleted && self.ended.is_none()).then_some(&self.opened)
    }
}

/// The state in which a write leaves the place of a document.
pub(in crate::engine) enum After<'m> {
    /// With a document of these properties.
    Living(Document, &'m BTreeMap<String, Value>),
    Tombstone(Document),
    /// With neither, in a class that is not synchronised.
    Nothing,
}

impl After<'_> {
    pub(in crate::engine) fn document(&self) -> Option<&Document> {
        match self {
            After::Living(document, _) | After::Tombstone(document) => Some(document),
            After::Nothing => None,
        }
    }

    /// The properties of a living document.
    pub(in crate::engine) fn map(&self) -> Option<&BTreeMap<String, Value>> {
        match self {
            After::Living(_, map) => Some(map),
            After::Tombstone(_) | After::Nothing => None,
        }
    }
}

/// A write in progress, on one org: one operation, or one write of an application. Several may follow each other under one
/// lock.
pub struct WriteTx<'t> {
    pub(in crate::engine) instance: &'t Instance,
    pub(in crate::engine) org: &'t str,
    pub(in crate::engine) caller: &'t Caller,
    /// The level at which the caller is restricted (R89).
    pub(in crate::engine) level: u8,
    /// Its time, and the version of all that it writes outside of trees of the clock `sequence`.
    pub(in crate::engine) now: Version,
    /// The time by the clock, which its versions may be ahead of. Ends of rights are judged by it.
    pub(in crate::engine) time: Version,
    pub(in crate::engine) started: u64,
    pub(in crate::engine) tx: &'t mut dyn Transaction,
    /// The cause that the journal records.
    pub(in crate::engine) commit: String,
    /// Documents that this write has written. They have the version `now`, which is no regression.
    pub(in crate::engine) own: BTreeSet<Actor>,
    /// The counters that this write has read.
    pub(in crate::engine) counters: Counters,
    /// The references to files.
    pub(in crate::engine) files: Referenced<'t>,
    /// The trees that this write has read, by their parents.
    pub(in crate::engine) trees: BTreeMap<Actor, Held>,
    pub(in crate::engine) notes: Notes,
}

/// The notes of a write that outlive it: its lock and its instance go by them.
#[derive(Default)]
pub(in crate::engine) struct Notes {
    /// Whether anything was written.
    pub(in crate::engine) changed: bool,
    /// The highest version among the documents that were put unchanged: they keep their versions.
    pub(in crate::engine) kept: Version,
    /// Whether it has written schedules (R89).
    pub(in crate::engine) restricts: bool,
    /// The highest version met that is not below the write's own. The write must start again above it.
    pub(in crate::engine) regressed: Option<Version>,
    /// Whether a write of another org held a value across orgs that this one needs.
    pub(in crate::engine) is_blocked: bool,
    /// The document that had another version than a write expected.
    pub(in crate::engine) met: Option<Actor>,
    pub(in crate::engine) growth: Growth,
    /// The bytes that were added to the journal.
    pub(in crate::engine) journaled: u64,
}

impl<'t> WriteTx<'t> {
    /// The org.
    pub fn org(&self) -> &'t str {
        self.org
    }

    /// The schema.
    pub fn schema(&self) -> &'t Schema {
        &self.instance.schema
    }

    /// The version of the documents that this write writes. Those of the clock `sequence` have the number of their tree.
    pub fn now(&self) -> Version {
        self.now
    }

    pub(in crate::engine) fn check_time(&self) -> Result<()> {
        let elapsed = self.instance.clock.elapsed_ms().saturating_sub(self.started);
        if elapsed > WRITE_MS_MAX {
            return Err(Error::new(
                Code::Contention,
                format!("a write outlasted {WRITE_MS_MAX} ms: given up"),
            ));
        }
        Ok(())
    }
}

/// A tree that a write has read.
#[derive(Default)]
pub(in crate::engine) struct Held {
    pub(in crate::engine) tree: Tree,
    /// Whether the parent lives; none if it was not read yet.
    pub(in crate::engine) lives: Option<bool>,
    pub(in crate::engine) is_changed: bool,
    /// Whether it had a record before this write.
    pub(in crate::engine) is_stored: bool,
    /// The items that this write has written.
    pub(in crate::engine) own: BTreeSet<Actor>,
    /// For the clock `sequence`, the number that this write has taken (R20).
    pub(in crate::engine) number: Option<Version>,
    /// For that clock, the highest version among the documents that were put unchanged.
    pub(in crate::engine) kept: Version,
}

/// The counters that a write has read.
#[derive(Default)]
pub(in crate::engine) struct Counters {
    /// By name; whether it changed each.
    pub(in crate::engine) held: BTreeMap<String, (Counter, bool)>,
    /// The bytes of those that are new.
    pub(in crate::engine) new_bytes: usize,
    /// The bytes of results and journal that the org has, with those of this write.
    pub(in crate::engine) kept: u64,
}

/// A file as a document references it: the hash and the size. The same bytes can be a file and the list of a larger one.
pub(in crate::engine) type Named = (String, u64);

/// The references of the documents that a write has written.
#[derive(Default)]
pub(in crate::engine) struct Referenced<'t> {
    pub(in crate::engine) documents: BTreeMap<Actor, Noted>,
    /// The work of its request, if an operation writes and rights decide which objects it may name.
    pub(in crate::engine) work: Option<&'t Work<'t>>,
    /// The objects for which the write is refused, or the first of them.
    pub(in crate::engine) missing: Vec<String>,
}

/// The files of a document.
pub(in crate::engine) struct Noted {
    /// As it was before the write, if rights decide.
    pub(in crate::engine) was: BTreeSet<Named>,
    pub(in crate::engine) now: BTreeSet<Named>,
}

pub(in crate::engine) fn named(file: FileRef) -> Named {
    (file.sha.to_owned(), file.size)
}
