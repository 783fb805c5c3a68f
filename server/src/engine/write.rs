//! The only way to write: versions, refusals, memberships, departures, indexes.

use std::collections::{BTreeMap, BTreeSet};

use escale::codec::{Data, Row};
use escale::journal::{ActionType, iso8601};
use escale::model::schema::{Class, Schema};
use escale::model::{Pk, Value, Version};
use escale::{Code, Error, Result};
use smol_str::SmolStr;

use super::checks::{check_immutable, check_key_kept, check_map, key_of, unreadable};
use super::files::Referenced;
use super::growth::{Change, Growth, added_rows, cause_of, change_of, feed_bytes, feed_row, row_bytes};
use super::rights::{Counted, Counters};
use super::shown::Listed;
use super::trees::{Held, numbered_tree, parent_of};
use super::{Engine, shown};
use crate::clock::Clock;
use crate::provider::{Action, ChangeState, Document, Entry, Head, Link, Place, Shown, Transaction};
use crate::rights::Rights;
use crate::seal::Seal;
use crate::settings::{Settings, WRITE_MS_MAX};

/// The outcome of a put or a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The document was written, or deleted.
    Written,
    /// The document was already equal, and keeps its version.
    Unchanged,
}

impl Engine {
    /// A write that begins in `tx`. `head` is the org's, with the database's time.
    pub(super) fn writing<'t>(
        &'t self,
        org: &'t str,
        head: (&Head, Option<Version>),
        at_least: Version,
        tx: &'t mut dyn Transaction,
    ) -> Result<Writing<'t>> {
        let (now, time) = self.stamp(head, at_least)?;
        Ok(Writing {
            org,
            now,
            time,
            schema: &self.schema,
            rights: &self.rights,
            settings: &self.settings,
            seal: &self.seal,
            clock: self.clock.as_ref(),
            started: self.clock.elapsed_ms(),
            tx,
            commit: format!("v{now}"),
            kept: 0,
            own: BTreeSet::new(),
            counters: Counters::default(),
            files: Referenced::default(),
            trees: BTreeMap::new(),
            changed: false,
            restricts: false,
            regressed: None,
            is_blocked: false,
            met: None,
            growth: Growth::default(),
            journaled: 0,
            kept_before: head.0.kept,
        })
    }

    /// Tells this instance's listener that documents have changed.
    pub(super) fn after_commit(&self) {
        let notify = self.committed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(notify) = notify.as_ref() {
            notify();
        }
    }
}

/// Class and pk of a document.
pub(super) type Actor = (SmolStr, SmolStr);

/// A document or tombstone as a write finds it.
pub(super) struct Stored {
    pub(super) document: Document,
    /// The floor of its tree, if it is an item below it (R17).
    pub(super) ended: Option<Version>,
}

impl Stored {
    /// The document, if it exists.
    pub(super) fn living(&self) -> Option<&Document> {
        (!self.document.deleted && self.ended.is_none()).then_some(&self.document)
    }
}

/// The state in which a write leaves the place of a document.
pub(super) enum After<'m> {
    /// With a document of these properties.
    Living(Document, &'m BTreeMap<String, Value>),
    Tombstone(Document),
    /// With neither, in a class that is not synchronised.
    Nothing,
}

impl After<'_> {
    fn document(&self) -> Option<&Document> {
        match self {
            After::Living(document, _) | After::Tombstone(document) => Some(document),
            After::Nothing => None,
        }
    }

    /// The properties of a living document.
    fn map(&self) -> Option<&BTreeMap<String, Value>> {
        match self {
            After::Living(_, map) => Some(map),
            After::Tombstone(_) | After::Nothing => None,
        }
    }
}

/// A write in progress, on one org.
pub struct Writing<'t> {
    pub(super) org: &'t str,
    /// Its time, and the version of all that it writes outside of trees of the clock `sequence`.
    pub(super) now: Version,
    /// The time by the clock.
    time: Version,
    pub(super) schema: &'t Schema,
    pub(super) rights: &'t Rights,
    pub(super) settings: &'t Settings,
    pub(super) seal: &'t Seal,
    clock: &'t dyn Clock,
    started: u64,
    pub(super) tx: &'t mut dyn Transaction,
    /// The cause that the journal records.
    commit: String,
    /// The highest version among the documents that were put unchanged: they keep their versions.
    pub(super) kept: Version,
    /// Documents that this write has written. They have the version `now`, which is no regression.
    own: BTreeSet<Actor>,
    /// The counters that this write has read.
    pub(super) counters: Counters,
    /// The references to files.
    pub(super) files: Referenced<'t>,
    /// The trees that this write has read, by their parents.
    pub(super) trees: BTreeMap<Actor, Held>,
    pub(super) changed: bool,
    /// Whether it has written schedules (R89).
    pub(super) restricts: bool,
    /// The highest version met that is not below the write's own. The write must start again above it.
    pub(super) regressed: Option<Version>,
    /// Whether a write of another org held a value across orgs that this one needs.
    pub(super) is_blocked: bool,
    /// The document that had another version than a write expected.
    pub(super) met: Option<Actor>,
    pub(super) growth: Growth,
    /// The bytes that were added to the journal.
    pub(super) journaled: u64,
    /// The bytes of results and journal that the org had before.
    pub(super) kept_before: u64,
}

impl<'t> Writing<'t> {
    /// Makes the journal name that operation as the cause.
    pub(super) fn of_operation(self, id: &str) -> Self {
        Writing { commit: cause_of(id), ..self }
    }

    /// The org.
    pub fn org(&self) -> &'t str {
        self.org
    }

    /// The schema.
    pub fn schema(&self) -> &'t Schema {
        self.schema
    }

    /// Whether anything was written.
    pub(super) fn has_changed(&self) -> bool {
        self.changed
    }

    /// The highest current version among the documents that this write wrote or was asked to write; 0 if
    /// there is none. Documents that it wrote have `now`, which is above all that it read.
    pub(super) fn given(&self) -> Version {
        if self.changed { self.now } else { self.kept }
    }

    /// The transaction that it writes in.
    pub(super) fn transaction(&self) -> &dyn Transaction {
        self.tx
    }

    /// The current document of that class and pk. If there never was one: `deleted`, with version 0.
    pub(super) fn row(&mut self, class: &Class, pk: &Pk) -> Result<Row> {
        let at = Place { org: self.org, class: class.name().as_str(), pk: pk.as_str() };
        let nothing = Row { pk: pk.clone(), v: 0, deleted: true, max_life: None, data: None };
        Ok(match self.read(class, at)? {
            None => nothing,
            Some(Stored { ended: Some(floor), .. }) => Row { v: floor, ..nothing },
            Some(Stored { document, .. }) if document.deleted => Row { v: document.v, ..nothing },
            Some(Stored { document, .. }) => {
                let data = Data::from_bytes(&self.seal.open(at, document.v, &document.data)?)?;
                let (v, max_life) = (document.v, document.max_life);
                Row { v, deleted: false, max_life, data: Some(data), ..nothing }
            }
        })
    }

    /// The version of the documents that this write writes. Those of the clock `sequence` have the number of their tree.
    pub fn now(&self) -> Version {
        self.now
    }

    /// The time by the clock, which its versions may be ahead of. Ends of rights are judged by it.
    pub(super) fn time(&self) -> Version {
        self.time
    }

    /// The living document of that class and pk, with its version.
    pub fn get(&mut self, class: &str, pk: &str) -> Result<Option<(Version, BTreeMap<String, Value>)>> {
        let class = self.schema.class(class)?;
        let at = Place { org: self.org, class: class.name().as_str(), pk };
        let stored = self.read(class, at)?;
        match stored.as_ref().and_then(Stored::living) {
            Some(document) => {
                let bytes = self.seal.open(at, document.v, &document.data)?;
                let map = Data::from_bytes(&bytes).and_then(|data| data.to_map()).map_err(unreadable)?;
                Ok(Some((document.v, map)))
            }
            None => Ok(None),
        }
    }

    /// Writes a whole document. On a tombstone it creates the document again; an equal document keeps its
    /// version. Errors: `unknown_class`, `bad_key`, `bad_value`, `too_large`, `key_mismatch`,
    /// `immutable_key`, `not_unique`; `not_found` for an item whose parent does not exist.
    pub fn put(&mut self, class: &str, mut map: BTreeMap<String, Value>) -> Result<Outcome> {
        self.check_time()?;
        let class = self.schema.class(class)?;
        check_map(class, self.org, &mut map)?;
        let data = Data::from_map(&map)?;
        let (columns, shown) = shown::of(class, &map)?;
        let at = Place { org: self.org, class: class.name().as_str(), pk: columns.pk.as_str() };
        let parent = parent_of(class, &shown);
        if let Some(parent) = &parent {
            self.check_parent(class, parent)?;
        }
        let before = self.read(class, at)?;
        let living = before.as_ref().and_then(Stored::living);
        let mut change = Change::Whole;
        if let Some(document) = living {
            let held = self.seal.open(at, document.v, &document.data)?;
            if held == data.as_bytes() {
                let v = document.v;
                self.keep(numbered_tree(class, at, &shown).as_ref(), v)?;
                return Ok(Outcome::Unchanged);
            }
            check_key_kept(class, &held, &map)?;
            check_immutable(class, &document.shown, &shown)?;
            change = change_of(&held, &map, data.as_bytes())?;
        }
        self.check_unique(class, at, &shown.entries)?;
        if let Some(quota) = self.rights.quota(at.class) {
            let after = Counted::of((class, quota), &map, data.as_bytes());
            let before = living
                .map(|document| Counted::stored((class, quota), self.seal, at, document))
                .transpose()?;
            self.count(before.as_ref(), Some(&after))?;
        }
        if let Some(parent) = &parent {
            self.count_put(parent, before.as_ref())?;
        }
        let is_new = living.is_none();
        if is_new {
            self.check_memberships(class, &shown)?;
        }
        let v = self.version_in(numbered_tree(class, at, &shown).as_ref())?;
        // Like a tombstone, an expired document is kept for the sessions that do not know of its end.
        let ttl =
            columns.max_life.map(|minute| (minute * 60_000).max(self.now) + self.settings.retention_ms());
        let document = Document {
            v,
            deleted: false,
            max_life: columns.max_life,
            ttl,
            data: self.seal.close(at, v, data.as_bytes())?,
            shown,
        };
        if class.has_items() && is_new {
            self.begin_tree(at, v)?;
        }
        let before = before.as_ref().map(|stored| &stored.document);
        self.store(class, at, before, (After::Living(document, &map), change))?;
        Ok(Outcome::Written)
    }

    /// Deletes a document; of a synchronised class it leaves a tombstone. The items of a parent end with it.
    /// Errors: `unknown_class`, `bad_key`, and `not_found` if there is none, or no longer.
    pub fn delete(&mut self, class: &str, key: &BTreeMap<String, Value>) -> Result<()> {
        self.check_time()?;
        let class = self.schema.class(class)?;
        let (map, pk) = key_of(class, key)?;
        let at = Place { org: self.org, class: class.name().as_str(), pk: &pk };
        let stored = self.read(class, at)?;
        let Some(before) = stored.as_ref().and_then(Stored::living) else {
            return Err(Error::new(Code::NotFound, format!("no such document of class {}", class.name())));
        };
        if let Some(counted) = self.counted(class, at, before)? {
            self.count(Some(&counted), None)?;
        }
        if !class.is_sync() {
            return self.store(class, at, Some(before), (After::Nothing, Change::Whole));
        }
        let v = self.version_in(numbered_tree(class, at, &before.shown).as_ref())?;
        let tombstone = self.tombstone((at, v), before, &map)?;
        self.store(class, at, Some(before), (After::Tombstone(tombstone), Change::Whole))?;
        if let Some(parent) = parent_of(class, &before.shown) {
            self.count_deleted(&parent)?;
        }
        // A class without classes of items may have had them under another schema, and may have them again.
        if class.has_items() || self.tx.tree(at)?.is_some() {
            self.end_tree(class, at, v)?;
        }
        Ok(())
    }

    /// The tombstone of a document with that key.
    pub(super) fn tombstone(
        &self,
        (at, v): (Place, Version),
        before: &Document,
        key: &BTreeMap<String, Value>,
    ) -> Result<Document> {
        Ok(Document {
            v,
            deleted: true,
            max_life: None,
            ttl: Some(self.now + self.settings.retention_ms()),
            // The tombstone stays in the defs that held the document, so that they report its end.
            shown: Shown { links: before.shown.links.clone(), entries: Vec::new() },
            data: self.seal.close(at, v, Data::from_map(key)?.as_bytes())?,
        })
    }

    pub(super) fn check_time(&self) -> Result<()> {
        let elapsed = self.clock.elapsed_ms().saturating_sub(self.started);
        if elapsed > WRITE_MS_MAX {
            return Err(Error::new(
                Code::Contention,
                format!("a write outlasted {WRITE_MS_MAX} ms: given up"),
            ));
        }
        Ok(())
    }

    pub(super) fn read(&mut self, class: &Class, at: Place) -> Result<Option<Stored>> {
        let Some(document) = self.tx.document(at)? else { return Ok(None) };
        let own = self.own.contains(&(SmolStr::new(at.class), SmolStr::new(at.pk)));
        if document.v >= self.now && !own && !class.is_sequence() {
            self.regressed = self.regressed.max(Some(document.v));
            return Err(Error::new(Code::Contention, "a document is not older than the write"));
        }
        let ended = self.ended(class, &document)?;
        Ok(Some(Stored { document, ended }))
    }

    fn check_unique(&mut self, class: &Class, at: Place, entries: &[Entry]) -> Result<()> {
        for entry in entries {
            let index = class.index(&entry.index)?;
            if !index.is_unique() {
                continue;
            }
            self.check_time()?;
            let scope = shown::scope(class, &entry.index, at.org);
            let held = self.tx.is_held(at, scope, entry);
            if self.unless_blocked(held)? {
                return Err(Error::new(
                    Code::NotUnique,
                    format!("another document of class {} has this {}", class.name(), index.property()),
                ));
            }
        }
        Ok(())
    }

    /// Notes that the write met another org's lock: it must not end as if the application had caught that.
    fn unless_blocked<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.is_blocked |= error.code() == Code::Contention;
        }
        result
    }

    /// Leaves a place in that state, and tells the journal and the feed.
    fn store(
        &mut self,
        class: &Class,
        at: Place,
        before: Option<&Document>,
        (after, change): (After, Change),
    ) -> Result<()> {
        let nothing = Shown::default();
        let old = before.map_or(&nothing, |document| &document.shown);
        self.growth.added -= before.map_or(0, |before| row_bytes(at, before));
        self.lay_down(class, at, before, &after)?;
        let (v, state, new) = match after {
            After::Living(document, _) => (document.v, Some(document.data), document.shown),
            After::Tombstone(document) => (document.v, None, document.shown),
            After::Nothing => (self.now, None, nothing.clone()),
        };
        match change {
            Change::Whole => self.journal((at, v), (ActionType::Persist, state))?,
            Change::Of(bytes) => {
                let sealed = self.seal.close(at, v, &bytes)?;
                self.journal((at, v), (ActionType::Update, Some(sealed)))?;
            }
        }
        self.note(class, (at, v), old, &new)
    }

    /// Leaves a place in that state, with its memberships, the values of its indexes and its references to files. Every
    /// write of a document ends here, so that none forgets one of these.
    pub(super) fn lay_down(
        &mut self,
        class: &Class,
        at: Place,
        before: Option<&Document>,
        after: &After,
    ) -> Result<()> {
        self.note_files(class, at, before, after.map())?;
        let nothing = Shown::default();
        let old = before.map_or(&nothing, |document| &document.shown);
        let document = after.document();
        let new = document.map_or(&nothing, |document| &document.shown);
        self.growth.add(document.map_or(0, |document| row_bytes(at, document) + added_rows(at, old, new)))?;
        let (was, is) = (Listed::of(old), Listed::of(new));
        for (collection, hash) in was.links.difference(&is.links) {
            self.check_time()?;
            // Needed even if the key cannot change: after a tombstone, a document with another key may follow.
            match document {
                Some(Document { v, .. }) if class.is_sync() => {
                    let state = ChangeState::Left;
                    self.tx.put_link(at, &Link { collection, hash, v: *v, state, max_life: None })?;
                }
                _ => self.tx.remove_link(at, collection, hash)?,
            }
        }
        for entry in old.entries.iter().filter(|entry| !is.has(entry)) {
            self.check_time()?;
            let removed = self.tx.remove_entry(at, shown::scope(class, &entry.index, at.org), entry);
            self.unless_blocked(removed)?;
        }
        let Some(document) = document else { return self.tx.remove_document(at) };
        let (v, max_life) = (document.v, document.max_life);
        let state = if document.deleted { ChangeState::Deleted } else { ChangeState::Alive };
        for (collection, hash) in &is.links {
            self.check_time()?;
            self.tx.put_link(at, &Link { collection, hash, v, state, max_life })?;
        }
        for entry in new.entries.iter().filter(|entry| !was.has(entry)) {
            self.check_time()?;
            let put = self.tx.put_entry(at, shown::scope(class, &entry.index, at.org), entry);
            self.unless_blocked(put)?;
        }
        self.tx.put_document(at, document)
    }

    /// Appends the document's state to the journal, none if it was deleted, or its change.
    fn journal(
        &mut self,
        (at, v): (Place, Version),
        (kind, state): (ActionType, Option<Vec<u8>>),
    ) -> Result<()> {
        let (commit, timestamp) = (self.commit.clone(), iso8601(self.now));
        let action = Action { goblin: at.goblin(), kind, state, v, commit, timestamp };
        self.journaled += action.bytes();
        self.growth.add(action.bytes() as i64)?;
        self.tx.append_action(&action)
    }

    /// Records the write, and appends to the feed the defs that it affects.
    fn note(&mut self, class: &Class, (at, v): (Place, Version), old: &Shown, new: &Shown) -> Result<()> {
        self.changed = true;
        self.own.insert((SmolStr::new(at.class), SmolStr::new(at.pk)));
        if !class.is_sync() {
            return Ok(());
        }
        self.note_in_tree(class, (at, v), new)?;
        let row = feed_row((at, v), old, new);
        self.growth.add(feed_bytes(&row))?;
        self.tx.append_feed(&row)
    }
}
