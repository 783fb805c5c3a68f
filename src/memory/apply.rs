//! Applies a part to the memory: the rules R1, R3, R5 and R6 on the changes of one def.

use std::collections::BTreeMap;

use super::collection::Load;
use super::document::{Content, DocKey};
use super::overlay::is_local;
use super::stamp::Stamp;
use super::state::Memory;
use super::tree::drop_below;
use crate::codec::{Part, Row};
use crate::error::{Code, Result, fail};
use crate::model::schema::{Class, Collection};
use crate::model::{Def, Name, Pk, Value, Version, order};

/// The message that a part came in.
#[derive(Clone, Copy, Debug)]
pub struct PartContext {
    /// The era of its epoch.
    pub era: u32,
    /// The reply's `now` - DELTA. On the clock `sequence`, the part's own number replaces it.
    pub settled: Version,
    /// The `v` of the request, for a reply to a pull; `None` for a pushed part.
    pub asked: Option<Version>,
}

/// The result of applying a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartOutcome {
    /// The def is up to date with the reply.
    Whole,
    /// The load is unfinished: the next request has the cursor.
    Unfinished,
    /// The def is not subscribed to any more.
    Unknown,
    /// Nothing was applied: a push has brought the collection to a later number since.
    Outdated,
}

/// A row with the properties decoded that linking it needs, so that applying it cannot fail half way.
pub(crate) struct PreparedRow {
    row: Row,
    properties: Option<BTreeMap<String, Value>>,
}

/// A part that can be applied without failing.
pub(crate) struct PreparedPart {
    def: Def,
    rows: Vec<PreparedRow>,
    left: Vec<(Pk, Version)>,
    present: Option<Vec<Pk>>,
    floor: Option<Version>,
    /// For the clock `sequence` alone.
    n: Option<Version>,
    from: Option<Version>,
    next: Option<String>,
    total: Option<u64>,
}

impl PreparedPart {
    pub(crate) fn def(&self) -> &Def {
        &self.def
    }

    /// For the clock `sequence`, the number of the tree, and the one above which a push has every change.
    pub(crate) fn numbers(&self) -> (Option<Version>, Option<Version>) {
        (self.n, self.from)
    }

    /// The highest version in the part.
    pub(crate) fn highest(&self) -> Option<Version> {
        let rows = self.rows.iter().map(|prepared| prepared.row.v);
        rows.chain(self.left.iter().map(|(_, v)| *v)).max()
    }

    /// The first and the last change in the part, by version; `None` if it has no change.
    pub(crate) fn ends(&self) -> Option<[(Version, Pk); 2]> {
        let of_row = |prepared: Option<&'_ PreparedRow>| prepared.map(|p| (p.row.v, p.row.pk.clone()));
        let of_left = |left: Option<&'_ (Pk, Version)>| left.map(|(pk, v)| (*v, pk.clone()));
        let first = of_row(self.rows.first()).into_iter().chain(of_left(self.left.first())).min()?;
        let last = of_row(self.rows.last()).into_iter().chain(of_left(self.left.last())).max()?;
        Some([first, last])
    }

    /// The cursor for the next page.
    pub(crate) fn next(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// The documents that it contains, as they are now or as deletions.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Pk> {
        self.rows.iter().map(|prepared| &prepared.row.pk)
    }
}

impl Memory {
    /// Decodes the properties of each row that applying the part needs. Errors: `bad_value`, `too_deep`; `bad_reply`
    /// without the number that the clock `sequence` needs. Nothing has changed then.
    pub(crate) fn prepare(&self, part: Part) -> Result<PreparedPart> {
        let class = self.schema.class(part.def.class().as_str());
        let names: Vec<&Name> = match class {
            Ok(class) => class.collections().iter().flat_map(Collection::key).collect(),
            Err(_) => Vec::new(),
        };
        let is_sequence = class.is_ok_and(Class::is_sequence);
        if is_sequence && part.n.is_none() {
            let words = "parts[].n: it is missing, for the clock sequence (docs/protocol.md, Numbers)";
            return fail(Code::BadReply, words);
        }
        let rows: Result<Vec<PreparedRow>> = part
            .rows
            .into_iter()
            .map(|row| {
                let properties = match &row.data {
                    Some(data) if !row.deleted => Some(data.pick(&names)?),
                    _ => None,
                };
                Ok(PreparedRow { row, properties })
            })
            .collect();
        Ok(PreparedPart {
            def: part.def,
            rows: rows?,
            left: part.left,
            present: part.present,
            floor: part.floor,
            n: part.n.filter(|_| is_sequence),
            from: part.from,
            next: part.next,
            total: part.total,
        })
    }

    /// Applies a part of a subscribed def. Applying it again changes nothing (R4).
    pub(crate) fn apply(&mut self, part: PreparedPart, mut context: PartContext) -> PartOutcome {
        let def = part.def;
        let known = self.collections.get(&def).filter(|_| !is_local(self, &def));
        let Some(collection) = known else {
            return PartOutcome::Unknown;
        };
        if let Some(n) = part.n {
            // R21: a number is exact, and the message tells of all changes up to it.
            context.settled = n + 1;
            if Stamp::new(context.era, context.settled) < collection.set.v() {
                return PartOutcome::Outdated;
            }
        }
        if let Some(floor) = part.floor {
            drop_below(self, &def, Stamp::new(context.era, floor));
        }
        let received = part.rows.len() as u64;
        for PreparedRow { row, properties } in part.rows {
            let Some(key) = self.doc_key(def.class(), &row.pk) else { continue };
            let at = Stamp::new(context.era, row.v);
            match properties {
                None => self.apply_deletion(&def, &key, at),
                Some(properties) => self.apply_row(&def, &key, at, row, &properties, context),
            }
        }
        for (pk, v) in &part.left {
            self.unlink(&def, pk, Stamp::new(context.era, *v));
        }
        let Some(asked) = context.asked else {
            if part.n.is_some() {
                // An exact push has no gap, so it completes the tree like a reply.
                let collection = self.collections.get_mut(&def).expect("checked above");
                if collection.load.take().is_some() {
                    self.unreported.defs.insert(def.clone());
                }
                self.dirty.collections.insert(def.clone());
                settle_at(self, &def, Stamp::new(context.era, context.settled));
            }
            return PartOutcome::Whole;
        };
        let collection = self.collections.get_mut(&def).expect("checked above");
        let load = collection.load.take();
        if load.as_ref().is_some_and(|load| load.cursor.is_empty()) {
            // Its tree may be whole now, which the application must learn.
            self.unreported.defs.insert(def.clone());
        }
        let (settle, before) = match load.filter(|load| !load.cursor.is_empty()) {
            Some(load) => (load.settle, load.received),
            None => (context.settled, 0),
        };
        self.dirty.collections.insert(def.clone());
        if let Some(cursor) = part.next {
            let load = Load { cursor, since: asked, settle, received: before + received, total: part.total };
            collection.load = Some(load);
            return PartOutcome::Unfinished;
        }
        self.finish(&def, asked, settle, part.present, context);
        PartOutcome::Whole
    }

    /// Ends a pull: members that it does not account for leave, and the collection reaches its new `v` (R4,
    /// R6).
    fn finish(
        &mut self,
        def: &Def,
        asked: Version,
        settle: Version,
        present: Option<Vec<Pk>>,
        context: PartContext,
    ) {
        let era = context.era;
        if present.is_some() || asked == 0 {
            let present = present.map(order::set_of);
            // `present` is as of the last page's snapshot; without it, the load is as of its first page.
            let keep_from = Stamp::new(era, if present.is_some() { context.settled } else { settle });
            let gone = self.collections[def].set.unaccounted(present.as_ref(), keep_from);
            self.drop_links(def, gone);
        }
        settle_at(self, def, Stamp::new(era, settle));
    }

    /// Applies a row of a part: R1 decides about its data, R3 and R5 about its links.
    fn apply_row(
        &mut self,
        def: &Def,
        key: &DocKey,
        at: Stamp,
        row: Row,
        properties: &BTreeMap<String, Value>,
        context: PartContext,
    ) {
        let set = &self.collections[def].set;
        let is_member = set.member(&key.1).is_some();
        if context.asked.is_none() && !is_member && at < set.v() {
            return; // R5: pushed late, for a document that this def does not hold.
        }
        let links = set.mark(&key.1).is_none_or(|mark| mark <= at);
        let held = self.documents.get(key);
        if held.is_none() && !links {
            return;
        }
        // R1, and R14: data found damaged is replaced by the same version too.
        let newer = held.is_none_or(|d| at > d.at || (at == d.at && matches!(d.content, Content::Lost)));
        if let (true, Some(data)) = (newer, row.data) {
            self.set_document(key, at, row.max_life, Content::Resident(data));
        }
        if links {
            // During a whole load, only the reply to a pull confirms a link: a pushed row may be outdated by
            // now.
            let confirmed = context.asked.is_some() || self.collections[def].set.v().v != 0;
            self.link(def, key, at, confirmed);
        }
        if newer {
            self.derive_links(def, key, at, properties);
        }
    }

    /// Applies a row that is a deletion: the document leaves this def, and others by R3.
    fn apply_deletion(&mut self, def: &Def, key: &DocKey, at: Stamp) {
        if self.documents.get(key).is_none_or(|held| held.at <= at) {
            self.tombstones.bury(key, at);
        }
        self.unlink(def, &key.1, at);
        for other in self.holders(key).iter() {
            self.unlink_derived(other, &key.1, at);
        }
    }

    /// R3 for the other subscribed collections of the class. Newly applied data links and unlinks the
    /// document there at its version, unless their own reply has said otherwise.
    fn derive_links(&mut self, except: &Def, key: &DocKey, at: Stamp, properties: &BTreeMap<String, Value>) {
        let (member_of, readable) = memberships(self.class(key.0), &key.1, properties);
        let held = self.holders(key);
        for def in member_of.iter().filter(|def| *def != except) {
            self.link_derived(def, key, at);
        }
        for def in held.iter() {
            let is_readable =
                matches!(def.kind(), crate::model::DefKind::Collection(name, _) if readable.contains(name));
            if is_readable && def != except && !member_of.contains(def) {
                self.unlink_derived(def, &key.1, at);
            }
        }
    }

    fn link_derived(&mut self, def: &Def, key: &DocKey, at: Stamp) {
        let Some(collection) = self.collections.get(def) else { return };
        let set = &collection.set;
        let since = set.member(&key.1).map(|member| member.at).max(set.mark(&key.1));
        if at >= set.v() && since.is_none_or(|since| at > since) {
            // During a whole load, only the server's reply for that def confirms a link.
            let confirmed = set.v().v != 0;
            self.link(def, key, at, confirmed);
        }
    }

    fn unlink_derived(&mut self, def: &Def, pk: &Pk, at: Stamp) {
        let Some(collection) = self.collections.get(def) else { return };
        if at >= collection.set.v() && collection.set.member(pk).is_some_and(|member| at > member.at) {
            self.unlink(def, pk, at);
        }
    }

    /// Applies the answer to a request for one damaged document (R14): only its data, regardless of the defs
    /// that hold it. Returns false if the reply had no room for the document.
    pub(crate) fn apply_repair(&mut self, part: PreparedPart, era: u32) -> bool {
        let crate::model::DefKind::Document(pk) = part.def.kind() else { return true };
        let Some(key) = self.doc_key(part.def.class(), pk) else { return true };
        if part.rows.is_empty() && part.next.is_some() {
            return false;
        }
        let mut answered = false;
        for PreparedRow { row, properties } in part.rows {
            if row.pk != key.1 {
                continue;
            }
            let Some(document) = self.documents.get(&key) else { continue };
            let at = Stamp::new(era, row.v);
            match (properties, row.data) {
                (Some(properties), Some(data)) => {
                    answered = true;
                    if at > document.at || (at == document.at && matches!(document.content, Content::Lost)) {
                        self.set_document(&key, at, row.max_life, Content::Resident(data));
                        self.derive_links(&part.def, &key, at, &properties);
                    }
                }
                _ => self.apply_deletion(&part.def, &key, at),
            }
        }
        // The server has no such document any more: its data cannot be restored.
        let is_lost = self.documents.get(&key).is_some_and(|d| matches!(d.content, Content::Lost));
        if !answered && is_lost {
            for def in self.holders(&key).iter() {
                self.drop_links(def, vec![key.1.clone()]);
            }
        }
        true
    }
}

/// All changes of a collection up to that version are known.
pub(super) fn settle_at(memory: &mut Memory, def: &Def, v: Stamp) {
    let Some(collection) = memory.collections.get_mut(def) else { return };
    for pk in collection.set.settle(v) {
        memory.dirty.links.insert((def.clone(), pk));
    }
    if !std::mem::replace(&mut collection.ready, true) {
        memory.unreported.defs.insert(def.clone());
    }
}

/// The defs of a document with these properties, and the collections whose key could be read from them.
fn memberships(class: &Class, pk: &Pk, properties: &BTreeMap<String, Value>) -> (Vec<Def>, Vec<Name>) {
    let mut member_of = vec![Def::class_of(class.name()), Def::document(class.name(), pk)];
    let mut readable = Vec::new();
    for collection in class.collections() {
        if let Ok(Some(hashes)) = collection.memberships(properties) {
            readable.push(collection.name().clone());
            let defs =
                hashes.iter().map(|hash| Def::collection_hashed(class.name(), collection.name(), hash));
            member_of.extend(defs);
        }
    }
    (member_of, readable)
}
