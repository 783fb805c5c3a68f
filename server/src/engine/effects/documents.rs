//! The only way to write: versions, refusals, memberships, departures, indexes.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use std::collections::BTreeMap;

use escale::codec::Data;
use escale::journal::{ActionType, iso8601};
use escale::model::schema::Class;
use escale::model::{Value, Version};
use escale::{Code, Error, Result};
use smol_str::SmolStr;

use crate::engine::records::counter::Counted;
use crate::engine::records::opened::Opened;
use crate::engine::records::record::Properties;
use crate::engine::tx::budget::{added_rows, feed_bytes, row_bytes};
use crate::engine::tx::checks::{check_immutable, check_key_kept, check_map, key_of};
use crate::engine::tx::feed::feed_row;
use crate::engine::tx::journal::{Change, change_of};
use crate::engine::tx::operation::OperationTx;
use crate::engine::tx::outcome::{key_map, working};
use crate::engine::tx::shown;
use crate::engine::tx::shown::Listed;
use crate::engine::tx::trees::{numbered_tree, parent_of};
use crate::engine::tx::write_tx::{After, Outcome, Stored, WriteTx};
use crate::provider::{Action, ChangeState, Document, Entry, Link, Place, Shown};
use escale::codec::Fault;

impl WriteTx<'_> {
    /// Writes a whole document. On a tombstone it creates the document again; an equal document keeps its
    /// version. Errors: `unknown_class`, `bad_key`, `bad_value`, `too_large`, `key_mismatch`,
    /// `immutable_key`, `not_unique`; `not_found` for an item whose parent does not exist.
    pub fn put(&mut self, class: &str, mut map: BTreeMap<String, Value>) -> Result<Outcome> {
        self.check_time()?;
        let class = self.instance.schema.class(class)?;
        check_map(class, self.org, &mut map)?;
        self.instance.values.check(class.name().as_str(), &map)?;
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
        if let Some(Opened { document, data: held }) = living {
            if held == data.as_bytes() {
                let v = document.v;
                self.keep(numbered_tree(class, at, &shown).as_ref(), v)?;
                return Ok(Outcome::Unchanged);
            }
            check_key_kept(class, held, &map)?;
            check_immutable(class, &document.shown, &shown)?;
            change = change_of(held, &map, data.as_bytes())?;
        }
        self.check_unique(class, at, &shown.entries)?;
        if let Some(quota) = self.instance.rights.quota(at.class) {
            let after = Counted::of((class, quota), &map, data.as_bytes());
            let before = living.map(|document| Counted::stored((class, quota), document)).transpose()?;
            let reads = (self.tx.snapshot(), &self.instance.seal, self.org);
            self.counters.count(reads, before.as_ref(), Some(&after))?;
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
        let ttl = columns
            .max_life
            .map(|minute| (minute * 60_000).max(self.now) + self.instance.settings.retention_ms());
        let document =
            Document { v, deleted: false, max_life: columns.max_life, ttl, shown, data: Vec::new() };
        let document = self.instance.seal.close_document(at, document, data.as_bytes())?;
        if class.has_items() && is_new {
            self.tree(&(at.class.into(), at.pk.into()))?.begin(v);
        }
        let before = before.as_ref().map(|stored| &stored.opened);
        self.store(class, at, before, (After::Living(document, &map), change))?;
        Ok(Outcome::Written)
    }

    /// Deletes a document; of a synchronised class it leaves a tombstone. The items of a parent end with it.
    /// Errors: `unknown_class`, `bad_key`, and `not_found` if there is none, or no longer.
    pub fn delete(&mut self, class: &str, key: &BTreeMap<String, Value>) -> Result<()> {
        self.check_time()?;
        let class = self.instance.schema.class(class)?;
        let (map, pk) = key_of(class, key)?;
        let at = Place { org: self.org, class: class.name().as_str(), pk: &pk };
        let stored = self.read(class, at)?;
        let Some(before) = stored.as_ref().and_then(Stored::living) else {
            return Err(Error::new(Code::NotFound, format!("no such document of class {}", class.name())));
        };
        if let Some(counted) = self.counted(class, before)? {
            let reads = (self.tx.snapshot(), &self.instance.seal, self.org);
            self.counters.count(reads, Some(&counted), None)?;
        }
        if !class.is_sync() {
            return self.store(class, at, Some(before), (After::Nothing, Change::Whole));
        }
        let v = self.version_in(numbered_tree(class, at, &before.document.shown).as_ref())?;
        let tombstone = self.tombstone((at, v), &before.document, &map)?;
        self.store(class, at, Some(before), (After::Tombstone(tombstone), Change::Whole))?;
        if let Some(parent) = parent_of(class, &before.document.shown) {
            self.tree(&parent)?.count_deleted();
        }
        // A class without classes of items may have had them under another schema, and may have them again.
        if class.has_items() || self.tx.snapshot().tree(at)?.is_some() {
            self.end_tree(class, at, v)?;
        }
        Ok(())
    }

    /// The tombstone of a document with that key.
    pub(in crate::engine) fn tombstone(
        &self,
        (at, v): (Place, Version),
        before: &Document,
        key: &BTreeMap<String, Value>,
    ) -> Result<Document> {
        let tombstone = Document {
            v,
            deleted: true,
            max_life: None,
            ttl: Some(self.now + self.instance.settings.retention_ms()),
            // The tombstone stays in the defs that held the document, so that they report its end.
            shown: Shown { links: before.shown.links.clone(), entries: Vec::new() },
            data: Vec::new(),
        };
        self.instance.seal.close_document(at, tombstone, Data::from_map(key)?.as_bytes())
    }

    fn check_unique(&mut self, class: &Class, at: Place, entries: &[Entry]) -> Result<()> {
        for entry in entries {
            let index = class.index(&entry.index)?;
            if !index.is_unique() {
                continue;
            }
            self.check_time()?;
            let scope = shown::scope(class, &entry.index, at.org);
            let held = self.tx.snapshot().is_held(at, scope, entry);
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
            self.notes.is_blocked |= error.code() == Code::Contention;
        }
        result
    }

    /// Leaves a place in that state, and tells the journal and the feed.
    fn store(
        &mut self,
        class: &Class,
        at: Place,
        before: Option<&Opened>,
        (after, change): (After, Change),
    ) -> Result<()> {
        let nothing = Shown::default();
        let old = before.map_or(&nothing, |before| &before.document.shown);
        self.notes.growth.added -= before.map_or(0, |before| row_bytes(at, &before.document));
        self.lay_down(class, at, before, &after)?;
        let (v, state, new) = match after {
            After::Living(document, _) => (document.v, Some(document.data), document.shown),
            After::Tombstone(document) => (document.v, None, document.shown),
            After::Nothing => (self.now, None, nothing.clone()),
        };
        match change {
            Change::Whole => self.journal((at, v), (ActionType::Persist, state))?,
            Change::Of(bytes) => {
                let sealed = self.instance.seal.close(at, v, &bytes)?;
                self.journal((at, v), (ActionType::Update, Some(sealed)))?;
            }
        }
        self.note(class, (at, v), old, &new)
    }

    /// Leaves a place in that state, with its memberships, the values of its indexes and its references to files. Every
    /// write of a document ends here, so that none forgets one of these.
    pub(in crate::engine) fn lay_down(
        &mut self,
        class: &Class,
        at: Place,
        before: Option<&Opened>,
        after: &After,
    ) -> Result<()> {
        self.files.note((class, at), before, after.map())?;
        let nothing = Shown::default();
        let old = before.map_or(&nothing, |before| &before.document.shown);
        let document = after.document();
        let new = document.map_or(&nothing, |document| &document.shown);
        self.notes
            .growth
            .add(document.map_or(0, |document| row_bytes(at, document) + added_rows(at, old, new)))?;
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
        let action = Action { actor: at.actor(), kind, state, v, commit, timestamp };
        self.notes.journaled += action.bytes();
        self.counters.kept += action.bytes();
        self.notes.growth.add(action.bytes() as i64)?;
        self.tx.append_action(&action)
    }

    /// Records the write, and appends to the feed the defs that it affects.
    fn note(&mut self, class: &Class, (at, v): (Place, Version), old: &Shown, new: &Shown) -> Result<()> {
        self.notes.changed = true;
        self.own.insert((SmolStr::new(at.class), SmolStr::new(at.pk)));
        if !class.is_sync() {
            return Ok(());
        }
        self.note_in_tree(class, (at, v), new)?;
        let row = feed_row((at, v), old, new);
        self.notes.growth.add(feed_bytes(&row))?;
        self.tx.append_feed(&row)
    }
}

impl OperationTx<'_> {
    /// Writes a document whole, key properties included.
    pub fn put(&mut self, class: &str, map: Properties) -> std::result::Result<(), Fault> {
        self.write.put(class, map).map(drop).map_err(working)
    }

    /// Deletes a document. Fails with `not_found` if there is none.
    pub fn delete(&mut self, class: &str, key: &[&str]) -> std::result::Result<(), Fault> {
        let (_, map) = key_map(self.class(class)?, key).map_err(working)?;
        self.write.delete(class, &map).map_err(working)
    }
}
