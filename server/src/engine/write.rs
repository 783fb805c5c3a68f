//! The only way to write: versions, refusals, memberships, departures, indexes.

use std::collections::{BTreeMap, BTreeSet};

use escale::codec::{Data, Row};
use escale::journal::iso8601;
use escale::model::schema::{Class, Schema};
use escale::model::{Name, Pk, Value, Version};
use escale::{Code, Error, Result};
use smol_str::SmolStr;

use super::{Engine, shown};
use crate::clock::Clock;
use crate::provider::{Action, ChangeState, Document, Entry, FeedRow, Head, Link, Place, Shown, Transaction};
use crate::seal::Seal;
use crate::settings::{Settings, WRITE_MS_MAX};

/// How often a write restarts with a later version before it fails.
pub(super) const RESTARTS_MAX: usize = 16;

/// The result of a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Written<T> {
    /// The version of the documents written; none if nothing was written.
    pub v: Option<Version>,
    /// The closure's return value.
    pub value: T,
}

/// The outcome of a put or a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The document was written, or deleted.
    Written,
    /// The document was already equal, and keeps its version.
    Unchanged,
}

impl Engine {
    /// Runs `run` as one transaction on an org. All its writes become visible at once, under one version, or
    /// none does. If it reads a document that is not older than its version, it runs again from the start.
    /// Errors: those of `run`, `unavailable`, and `contention`. The latter means that other writes held the
    /// org, that the write took longer than a second, or that it ran again too often.
    pub fn write<T>(
        &self,
        org: &str,
        mut run: impl FnMut(&mut Writing<'_>) -> Result<T>,
    ) -> Result<Written<T>> {
        let mut at_least = Version::default();
        for _ in 0..RESTARTS_MAX {
            let mut begun = self.begin(org, self.settings.write_wait)?;
            let mut writing = self.writing(org, (&begun.head, begun.time), at_least, begun.tx.as_mut())?;
            let result = run(&mut writing);
            let (now, changed, in_time) = (writing.now, writing.changed, writing.check_time());
            if let Some(v) = writing.regressed {
                at_least = v + 1;
                continue;
            }
            let value = result?;
            if !changed {
                return Ok(Written { v: None, value });
            }
            in_time?;
            begun.head.highest = begun.head.highest.max(now);
            self.commit(begun)?;
            self.after_commit();
            return Ok(Written { v: Some(now), value });
        }
        Err(Error::new(Code::Contention, "the documents read kept a version above the write's"))
    }

    /// A write that begins in `tx`. `head` is the org's, with the database's time.
    pub(super) fn writing<'t>(
        &'t self,
        org: &'t str,
        head: (&Head, Option<Version>),
        at_least: Version,
        tx: &'t mut dyn Transaction,
    ) -> Result<Writing<'t>> {
        let now = self.stamp(head, at_least)?;
        Ok(Writing {
            org,
            now,
            schema: &self.schema,
            settings: &self.settings,
            seal: &self.seal,
            clock: self.clock.as_ref(),
            started: self.clock.elapsed_ms(),
            tx,
            commit: format!("v{now}"),
            kept: 0,
            own: BTreeSet::new(),
            changed: false,
            regressed: None,
            is_blocked: false,
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

/// A write in progress, on one org.
pub struct Writing<'t> {
    org: &'t str,
    now: Version,
    schema: &'t Schema,
    settings: &'t Settings,
    seal: &'t Seal,
    clock: &'t dyn Clock,
    started: u64,
    tx: &'t mut dyn Transaction,
    /// The cause that the journal records.
    commit: String,
    /// The highest version among the documents that were put unchanged: they keep their versions.
    kept: Version,
    /// Documents that this write has written. They have the version `now`, which is no regression.
    own: BTreeSet<(SmolStr, SmolStr)>,
    changed: bool,
    /// The highest version met that is not below the write's own. The write must start again above it.
    pub(super) regressed: Option<Version>,
    /// Whether a write of another org held a value across orgs that this one needs.
    pub(super) is_blocked: bool,
}

impl<'t> Writing<'t> {
    /// Makes the journal name that operation as the cause.
    pub(super) fn of_operation(self, id: &str) -> Self {
        Writing { commit: id.to_owned(), ..self }
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
        Ok(match self.read(at)? {
            None => nothing,
            Some(document) if document.deleted => Row { v: document.v, ..nothing },
            Some(document) => {
                let data = Data::from_bytes(&self.seal.open(at, document.v, &document.data)?)?;
                let (v, max_life) = (document.v, document.max_life);
                Row { v, deleted: false, max_life, data: Some(data), ..nothing }
            }
        })
    }

    /// The version of the documents that this write writes.
    pub fn now(&self) -> Version {
        self.now
    }

    /// The living document of that class and pk, with its version.
    pub fn get(&mut self, class: &str, pk: &str) -> Result<Option<(Version, BTreeMap<String, Value>)>> {
        let class = self.schema.class(class)?;
        let at = Place { org: self.org, class: class.name().as_str(), pk };
        match self.read(at)? {
            Some(document) if !document.deleted => {
                let bytes = self.seal.open(at, document.v, &document.data)?;
                let map = Data::from_bytes(&bytes).and_then(|data| data.to_map()).map_err(unreadable)?;
                Ok(Some((document.v, map)))
            }
            _ => Ok(None),
        }
    }

    /// Writes a whole document. On a tombstone it creates the document again; an equal document keeps its
    /// version. Errors: `unknown_class`, `bad_key`, `bad_value`, `too_large`, `key_mismatch`,
    /// `immutable_key`, `not_unique`.
    pub fn put(&mut self, class: &str, mut map: BTreeMap<String, Value>) -> Result<Outcome> {
        self.check_time()?;
        let class = self.schema.class(class)?;
        check_map(class, self.org, &mut map)?;
        let data = Data::from_map(&map)?;
        let (columns, shown) = shown::of(class, &map)?;
        let at = Place { org: self.org, class: class.name().as_str(), pk: columns.pk.as_str() };
        let before = self.read(at)?;
        let living = before.as_ref().filter(|document| !document.deleted);
        if let Some(document) = living {
            let held = self.seal.open(at, document.v, &document.data)?;
            if held == data.as_bytes() {
                self.kept = self.kept.max(document.v);
                return Ok(Outcome::Unchanged);
            }
            check_key_kept(class, &held, &map)?;
            check_immutable(class, &document.shown, &shown)?;
        }
        self.check_unique(class, at, &shown.entries)?;
        let now = self.now;
        // Like a tombstone, an expired document is kept for the sessions that do not know of its end.
        let ttl = columns.max_life.map(|minute| (minute * 60_000).max(now) + self.settings.retention_ms());
        let document = Document {
            v: now,
            deleted: false,
            max_life: columns.max_life,
            ttl,
            data: self.seal.close(at, now, data.as_bytes())?,
            shown,
        };
        self.store(class, at, before.as_ref(), document)?;
        Ok(Outcome::Written)
    }

    /// Deletes a document; of a synchronised class it leaves a tombstone. Errors: `unknown_class`, `bad_key`,
    /// and `not_found` if there is none, or no longer.
    pub fn delete(&mut self, class: &str, key: &BTreeMap<String, Value>) -> Result<()> {
        self.check_time()?;
        let class = self.schema.class(class)?;
        let (map, pk) = key_of(class, key)?;
        let at = Place { org: self.org, class: class.name().as_str(), pk: &pk };
        let before = self.read(at)?.filter(|document| !document.deleted);
        let Some(before) = before else {
            return Err(Error::new(Code::NotFound, format!("no such document of class {}", class.name())));
        };
        if !class.is_sync() {
            return self.remove(class, at, &before);
        }
        let now = self.now;
        let tombstone = Document {
            v: now,
            deleted: true,
            max_life: None,
            ttl: Some(now + self.settings.retention_ms()),
            // The tombstone stays in the defs that held the document, so that they report its end.
            shown: Shown { links: before.shown.links.clone(), entries: Vec::new() },
            data: self.seal.close(at, now, Data::from_map(&map)?.as_bytes())?,
        };
        self.store(class, at, Some(&before), tombstone)
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

    fn read(&mut self, at: Place) -> Result<Option<Document>> {
        let document = self.tx.document(at)?;
        if let Some(document) = &document {
            let own = self.own.contains(&(SmolStr::new(at.class), SmolStr::new(at.pk)));
            if document.v >= self.now && !own {
                self.regressed = self.regressed.max(Some(document.v));
                return Err(Error::new(Code::Contention, "a document is not older than the write"));
            }
        }
        Ok(document)
    }

    fn check_unique(&mut self, class: &Class, at: Place, entries: &[Entry]) -> Result<()> {
        for entry in entries {
            let index = class.index(&entry.index)?;
            if !index.is_unique() {
                continue;
            }
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

    /// Stores a document or tombstone, and updates collections, indexes and the feed.
    fn store(&mut self, class: &Class, at: Place, before: Option<&Document>, after: Document) -> Result<()> {
        let nothing = Shown::default();
        let old = before.map_or(&nothing, |document| &document.shown);
        for (collection, hashes) in &old.links {
            for hash in hashes {
                if after.shown.links.get(collection).is_some_and(|kept| kept.contains(hash)) {
                    continue;
                }
                // Needed even if the key cannot change: after a tombstone, a document with another key may
                // follow.
                if class.is_sync() {
                    let state = ChangeState::Left;
                    self.tx.put_link(at, &Link { collection, hash, v: after.v, state, max_life: None })?;
                } else {
                    self.tx.remove_link(at, collection, hash)?;
                }
            }
        }
        let state = if after.deleted { ChangeState::Deleted } else { ChangeState::Alive };
        for (collection, hashes) in &after.shown.links {
            for hash in hashes {
                let link = Link { collection, hash, v: after.v, state, max_life: after.max_life };
                self.tx.put_link(at, &link)?;
            }
        }
        for entry in old.entries.iter().filter(|entry| !after.shown.entries.contains(entry)) {
            let removed = self.tx.remove_entry(at, shown::scope(class, &entry.index, at.org), entry);
            self.unless_blocked(removed)?;
        }
        for entry in after.shown.entries.iter().filter(|entry| !old.entries.contains(entry)) {
            let put = self.tx.put_entry(at, shown::scope(class, &entry.index, at.org), entry);
            self.unless_blocked(put)?;
        }
        self.tx.put_document(at, &after)?;
        self.journal(at, (!after.deleted).then_some(after.data))?;
        self.note(class, at, old, &after.shown)
    }

    fn remove(&mut self, class: &Class, at: Place, before: &Document) -> Result<()> {
        for (collection, hashes) in &before.shown.links {
            for hash in hashes {
                self.tx.remove_link(at, collection, hash)?;
            }
        }
        for entry in &before.shown.entries {
            let removed = self.tx.remove_entry(at, shown::scope(class, &entry.index, at.org), entry);
            self.unless_blocked(removed)?;
        }
        self.tx.remove_document(at)?;
        self.journal(at, None)?;
        self.note(class, at, &before.shown, &Shown::default())
    }

    /// Appends the document's state to the journal; none if it was deleted.
    fn journal(&mut self, at: Place, state: Option<Vec<u8>>) -> Result<()> {
        self.tx.append_action(&Action {
            goblin: goblin(at),
            state,
            v: self.now,
            commit: self.commit.clone(),
            timestamp: iso8601(self.now),
        })
    }

    /// Records the write, and appends to the feed the defs that it affects.
    fn note(&mut self, class: &Class, at: Place, old: &Shown, new: &Shown) -> Result<()> {
        self.changed = true;
        self.own.insert((SmolStr::new(at.class), SmolStr::new(at.pk)));
        if !class.is_sync() {
            return Ok(());
        }
        let mut links = old.links.clone();
        for (collection, hashes) in &new.links {
            let listed = links.entry(collection.clone()).or_default();
            let fresh: Vec<SmolStr> = hashes.iter().filter(|hash| !listed.contains(hash)).cloned().collect();
            listed.extend(fresh);
        }
        self.tx.append_feed(&FeedRow {
            org: at.org.into(),
            class: at.class.into(),
            pk: at.pk.into(),
            v: self.now,
            links,
        })
    }
}

/// The actor of a document in the journal.
pub(super) fn goblin(at: Place) -> String {
    format!("{}/{}@{}", at.org, at.class, at.pk)
}

/// The place of an actor of the journal.
pub(super) fn place_of(goblin: &str) -> Option<Place<'_>> {
    let (org, document) = goblin.split_once('/')?;
    let (class, pk) = document.split_once('@')?;
    Some(Place { org, class, pk })
}

/// Refuses reserved names, and gives the document its release.
fn check_map(class: &Class, org: &str, map: &mut BTreeMap<String, Value>) -> Result<()> {
    if map.keys().any(|name| name.starts_with('_')) {
        return Err(Error::new(Code::BadValue, "names that begin with _ are reserved"));
    }
    if class.name().as_str() == "Hdr" && org != "ROOT" {
        return Err(Error::new(Code::BadKey, "the singleton Hdr belongs to the org ROOT"));
    }
    match map.get("release") {
        None => {
            map.insert("release".into(), Value::from(class.release() as i64));
        }
        Some(value) => {
            let is_known_release =
                value.as_u64().is_some_and(|release| (1..=class.release()).contains(&release));
            if !is_known_release {
                let detail = format!("release must be 1 to {}, the class's own", class.release());
                return Err(Error::new(Code::BadValue, detail));
            }
        }
    }
    Ok(())
}

/// The key properties alone, and the pk that they give.
fn key_of(class: &Class, key: &BTreeMap<String, Value>) -> Result<(BTreeMap<String, Value>, SmolStr)> {
    let mut map = BTreeMap::new();
    let mut parts = Vec::new();
    for name in class.key() {
        match key.get(name.as_str()) {
            Some(Value::String(text)) => {
                parts.push(text.as_str());
                map.insert(name.as_str().to_owned(), Value::String(text.clone()));
            }
            Some(_) => return Err(Error::new(Code::BadKey, format!("key property {name} must be a string"))),
            None => return Err(Error::new(Code::BadKey, format!("key property {name} is missing"))),
        }
    }
    let pk = SmolStr::new(class.pk_of(&parts)?.as_str());
    Ok((map, pk))
}

/// The stored data is at fault, not the caller.
fn unreadable(error: Error) -> Error {
    Error::new(Code::StorageFailed, error.detail()).at("a stored document")
}

/// Another key under the same pk is possible only for `Hdr`, and by a hash collision.
fn check_key_kept(class: &Class, held: &[u8], map: &BTreeMap<String, Value>) -> Result<()> {
    let names: Vec<&Name> = class.key().iter().collect();
    let kept = Data::from_bytes(held).and_then(|data| data.pick(&names)).map_err(unreadable)?;
    if names.iter().all(|name| kept.get(name.as_str()) == map.get(name.as_str())) {
        return Ok(());
    }
    Err(Error::new(
        Code::KeyMismatch,
        format!("the stored document of class {} has another key", class.name()),
    ))
}

fn check_immutable(class: &Class, old: &Shown, new: &Shown) -> Result<()> {
    for collection in class.collections().iter().filter(|collection| !collection.is_mutable()) {
        let name = collection.name().as_str();
        if old.links.get(name) != new.links.get(name) {
            let detail = format!("collection {}/{name} is not mutable", class.name());
            return Err(Error::new(Code::ImmutableKey, detail));
        }
    }
    Ok(())
}
