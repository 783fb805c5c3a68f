//! Reads: one decision for each def, without looking at its rows.

use std::collections::HashMap;

use escale::codec::Data;
use escale::limits::VERSION_MAX;
use escale::model::schema::{Class, Collection};
use escale::model::{Def, DefKind, Name, Pk, Value, Version, sha_s};
use escale::{Code, Error, Result};

use crate::engine::caller::{Caller, NO_READS};
use crate::engine::instance::context::Instance;
use crate::engine::instance::refusals::{HookContext, Verdict, blocked, level_of};
use crate::engine::records::opened::{Opened, read_document};
use crate::engine::records::record::Properties;
use crate::engine::rights::asker::{asker, expiry_minute, is_over};
use crate::engine::rights::gone::Gone;
use crate::engine::tx::trees::{floor_of, item_classes, tree_of};
use crate::provider::{ChangeState, DocumentReads, Place};
use crate::rights::{Membership, Parent, Related, Right, Subject};
use crate::seal::Seal;

/// Memberships of one account in one class that a request reads. A write gives no account more.
pub(in crate::engine) const MEMBERSHIPS_MAX: usize = 1_000;

/// The decisions for one caller in one snapshot.
pub(in crate::engine) struct Reads<'a> {
    instance: &'a Instance,
    documents: &'a dyn DocumentReads,
    org: &'a str,
    caller: &'a Caller,
    /// By class: the `shaS` of the group, and the membership. Read when the first rule asks.
    held: HashMap<Name, Vec<(String, Properties)>>,
    now: Version,
    /// The level at which the caller is restricted (R89).
    level: u8,
    /// When the first of the memberships ends on which a right rests.
    until: Option<Version>,
}

/// Whether a caller may subscribe to a def.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readable {
    /// It may.
    Yes,
    /// The rules do not let it (R86).
    Withdrawn,
    /// It is restricted for now (R89).
    Blocked,
}

/// The decisions on some defs, in one snapshot.
#[derive(Debug)]
pub struct Decision {
    /// One for each def, in their order.
    pub readable: Vec<Readable>,
    /// The version that the org has there.
    pub v: Version,
    /// The moment at which the first of these rights ends by itself; none if time ends none of them (R99).
    pub until: Option<Version>,
}

/// Questions about who may read, for replies, pushes and sockets.
#[derive(Clone, Copy)]
pub struct Access<'e>(&'e Instance);

impl<'e> Access<'e> {
    /// The questions to an instance.
    pub fn of(instance: &'e Instance) -> Self {
        Access(instance)
    }

    /// Whether a read may be refused at all.
    pub fn is_decided(self) -> bool {
        !self.0.rights.are_empty() || self.0.read_hooks.decide_reads()
    }

    /// Whether a read of this caller may be refused.
    pub fn is_decided_for_caller(self, org: &str, caller: &Caller) -> bool {
        self.is_decided() || level_of(self.0, org, caller) >= NO_READS
    }

    /// Whether a read of a class may be refused.
    pub(in crate::engine) fn is_decided_for(self, class: &Class) -> bool {
        self.is_decided_by_document(class.name().as_str()) || self.0.read_hooks.decide_reads()
    }

    /// Whether a change of a document may end somebody's right to its own def.
    pub fn is_decided_by_document(self, class: &str) -> bool {
        self.0.rights.closed(class, Right::Read).is_some()
    }

    /// For a class of memberships, the collection that lists those of an account.
    pub fn memberships_of(self, class: &str) -> Option<&'e Name> {
        self.0.rights.memberships_of(class)
    }

    /// The defs of items whose decision looks at a parent of this class (R97, R99). A rule of the items themselves looks at
    /// the parent's key alone, so its decision changes with the parent's creation. The rule `parent` looks at all of it.
    pub fn items_decided_by(self, class: &str, pk: &str) -> Vec<Def> {
        let decided = |items: &&Class| {
            let names = items.items().map_or(&[][..], Collection::key);
            let name = items.name().as_str();
            self.0.rights.read_asks_parent(name) || names.len() > 1 && self.is_decided_by_document(name)
        };
        let mut defs = Vec::new();
        for items in item_classes(&self.0.schema, class).filter(decided) {
            let Some(collection) = items.items() else { continue };
            defs.push(Def::collection_hashed(items.name(), collection.name(), pk));
            // A singleton has the pk of its parent, and is followed by it.
            defs.extend(Pk::parse(pk).ok().map(|pk| Def::document(items.name(), &pk)));
        }
        defs
    }

    /// Whether a change of the parent may end somebody's right to one of these items, too.
    pub fn asks_parent(self, items: &Def) -> bool {
        self.0.rights.read_asks_parent(items.class().as_str())
    }

    /// Whether the caller may subscribe to each of these defs, as of one snapshot. Errors: those of the database.
    pub fn readable(self, org: &str, caller: &Caller, defs: &[Def]) -> Result<Decision> {
        let snapshot = self.0.provider.read()?;
        let v = snapshot.head(org)?.map_or(0, |head| head.highest);
        // As a reply tells it, so that both decide alike.
        let now = self.0.time_by(snapshot.server()?.as_ref()).unwrap_or_else(|_| self.0.clock.now_ms());
        let mut reads = Reads::of(self.0, snapshot.as_ref(), (org, caller), now);
        let decided = defs.iter().map(|def| match reads.check(def) {
            Ok(()) => Ok(Readable::Yes),
            Err(error) => match error.code() {
                Code::Withdrawn => Ok(Readable::Withdrawn),
                Code::Blocked => Ok(Readable::Blocked),
                // The document cannot be read. The pull says so.
                Code::StorageFailed | Code::BadValue => Ok(Readable::Yes),
                _ => Err(error),
            },
        });
        let readable = decided.collect::<Result<_>>()?;
        Ok(Decision { readable, v, until: reads.until })
    }
}

impl<'a> Reads<'a> {
    /// No decision yet.
    pub(in crate::engine) fn of(
        instance: &'a Instance,
        documents: &'a dyn DocumentReads,
        (org, caller): (&'a str, &'a Caller),
        now: Version,
    ) -> Self {
        let level = level_of(instance, org, caller);
        Reads { instance, documents, org, caller, held: HashMap::new(), now, level, until: None }
    }

    /// Refuses a def that the caller may not read. Errors: `blocked`, `withdrawn`, and those of the database.
    pub(in crate::engine) fn check(&mut self, def: &Def) -> Result<()> {
        let withdrawn = |what: String| Err(Error::new(Code::Withdrawn, what));
        let class = self.instance.schema.class(def.class().as_str())?;
        if self.level >= NO_READS && !self.instance.rights.is_exempt(class.name().as_str(), self.level) {
            return Err(blocked(self.level));
        }
        if !self.is_allowed(class, def)? {
            return withdrawn(format!(
                "the rules of class {} do not let this account read that",
                class.name()
            ));
        }
        let (org, caller) = (self.org, self.caller);
        if self.instance.read_hooks.verdict(&HookContext { org, caller }, def) == Verdict::Refused {
            return withdrawn(format!(
                "the server does not let this account read that of class {}",
                class.name()
            ));
        }
        Ok(())
    }

    fn is_allowed(&mut self, class: &Class, def: &Def) -> Result<bool> {
        let instance = self.instance;
        let Some(rule) = instance.rights.closed(class.name().as_str(), Right::Read) else { return Ok(true) };
        let asker = asker(self.caller);
        match def.kind() {
            DefKind::Class => rule.holds(asker, Subject::Class, self),
            DefKind::Document(pk) => {
                let at = Place { org: self.org, class: class.name().as_str(), pk: pk.as_str() };
                let stored = read_document(self.documents, &instance.seal, at)?;
                let map = stored.as_ref().map(Opened::properties).transpose()?;
                match (&stored, &map) {
                    (Some(Opened { document, .. }), Some(key)) if document.deleted => {
                        Gone::tombstone(class, at.pk, key, &document.shown).is_shown(rule, asker, self)
                    }
                    // Also past its life, or ended with its parent: those who might read it hear of that.
                    (Some(_), Some(map)) => rule.holds(asker, Subject::Document(map), self),
                    _ => Gone::never(class, at.pk, None).is_shown(rule, asker, self),
                }
            }
            DefKind::Collection(name, hash) => {
                let collection = class.collection(name)?;
                match collection.key() {
                    [property] => {
                        let is_of_list = collection.is_list();
                        rule.holds(asker, Subject::Hash { property, hash, is_of_list }, self)
                    }
                    key => match tree_of(&instance.schema, def) {
                        Some(_) => match self.parent_key(class, key, hash)? {
                            // Without a parent there are no items: those who may know of the parent hear that.
                            None => self.may_know_parent(class, hash),
                            Some(shared) => rule.holds(asker, Subject::Shared(&shared), self),
                        },
                        None => rule.holds(asker, Subject::Class, self),
                    },
                }
            }
        }
    }

    /// The properties of a living document.
    fn document(&self, class: &Class, at: Place) -> Result<Option<Properties>> {
        let Some(stored) = read_document(self.documents, &self.instance.seal, at)? else { return Ok(None) };
        if stored.document.deleted || floor_of(self.documents, class, (at.org, &stored))?.is_some() {
            return Ok(None);
        }
        stored.properties().map(Some)
    }

    /// The properties that all items of a parent share: its key, under their own names. None if it was never there.
    fn parent_key(&self, class: &Class, names: &[Name], pk: &str) -> Result<Option<Properties>> {
        let Some(parent) = class.parent() else { return Ok(None) };
        let of = self.instance.schema.class(parent.as_str())?;
        let at = Place { org: self.org, class: parent.as_str(), pk };
        // A tombstone has the key, too.
        let Some(stored) = read_document(self.documents, &self.instance.seal, at)? else { return Ok(None) };
        let mut map = stored.properties()?;
        let key = names.iter().zip(of.key());
        let shared =
            key.filter_map(|(name, own)| Some((name.to_string(), map.remove(own.as_str())?))).collect();
        Ok(Some(shared))
    }

    /// Whether the caller may hear that the parent of a class of items is not there.
    fn may_know_parent(&mut self, class: &Class, pk: &str) -> Result<bool> {
        let (Some(parent), Ok(pk)) = (class.parent(), Pk::parse(pk)) else { return Ok(false) };
        let of = self.instance.schema.class(parent.as_str())?;
        self.is_allowed(of, &Def::document(parent, &pk))
    }

    /// Notes that a right rests on a membership.
    fn rests_on(&mut self, membership: &Properties) {
        let ends = expiry_minute(membership).map(|minute| minute.saturating_mul(60_000));
        self.until = self.until.into_iter().chain(ends).min();
    }
}

/// The living memberships of an account in a class, each with the `shaS` of its group.
pub(in crate::engine) fn memberships(
    documents: &dyn DocumentReads,
    seal: &Seal,
    (org, account): (&str, &str),
    rule: &Membership,
    now: Version,
) -> Result<Vec<(String, Properties)>> {
    let def = Def::collection(&rule.class, &rule.collection, &[account])?;
    let mut found = Vec::new();
    documents.changes(org, &def, (0, ""), VERSION_MAX + 1, &mut |change| {
        if change.state == ChangeState::Alive {
            let map = Data::from_bytes(&seal.open_change((org, &def), &change)?)?.to_map()?;
            let group = map.get(rule.group.as_str()).and_then(Value::as_str).map(sha_s);
            found.extend(group.filter(|_| !is_over(&map, now)).map(|group| (group, map)));
        }
        Ok(found.len() < MEMBERSHIPS_MAX)
    })?;
    Ok(found)
}

impl Related for Reads<'_> {
    fn has(&mut self, rule: &Membership, group: &str) -> Result<bool> {
        let class = self.instance.schema.class(rule.class.as_str())?;
        // A text that can be no key names no group.
        let Ok(pk) = class.pk_of(&[group, &self.caller.account]) else { return Ok(false) };
        let at = Place { org: self.org, class: class.name().as_str(), pk: pk.as_str() };
        let found = self.document(class, at)?.filter(|map| !is_over(map, self.now) && rule.is_met_by(map));
        if let Some(membership) = &found {
            self.rests_on(membership);
        }
        Ok(found.is_some())
    }

    fn has_hashed(&mut self, rule: &Membership, hash: &str) -> Result<bool> {
        if !self.held.contains_key(&rule.class) {
            let of = (self.org, &*self.caller.account);
            let held = memberships(self.documents, &self.instance.seal, of, rule, self.now)?;
            self.held.insert(rule.class.clone(), held);
        }
        let mut held = self.held[&rule.class].iter();
        let found =
            held.find(|(group, map)| group == hash && rule.is_met_by(map)).map(|(_, map)| map.clone());
        if let Some(membership) = &found {
            self.rests_on(membership);
        }
        Ok(found.is_some())
    }

    /// As the def of the parent is decided.
    fn allows_parent(&mut self, parent: &Parent, items: Subject) -> Result<bool> {
        let schema = &self.instance.schema;
        let Some((pk, _)) = parent.of(schema, items)? else { return Ok(false) };
        self.is_allowed(schema.class(parent.class.as_str())?, &Def::document(&parent.class, &pk))
    }
}
