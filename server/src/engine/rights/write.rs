//! Writes: one decision for each change of a built-in operation, on the document before and after it.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use escale::codec::{Data, Fault};
use escale::limits::VERSION_MAX;
use escale::model::schema::Class;
use escale::model::{Def, Pk, Value, Version};
use escale::{Code, Error, Result};

use super::gone::Gone;
use super::read::{MEMBERSHIPS_MAX, memberships};
use super::{DocumentChange, asker, end_of, is_over};
use crate::engine::checks::unreadable;
use crate::engine::operation::{Properties, Tx, key_map, working};
use crate::engine::pull::Caller;
use crate::engine::write::Writing;
use crate::provider::{Place, Shown};
use crate::rights::{Membership, Memberships, Right, Rights, Subject};

/// The caller's memberships, as a transaction has them.
struct Members<'w, 't> {
    writing: &'w mut Writing<'t>,
    account: &'w str,
}

impl Memberships for Members<'_, '_> {
    fn has(&mut self, rule: &Membership, group: &str) -> Result<bool> {
        let class = self.writing.schema().class(rule.class.as_str())?;
        // A text that can be no key names no group.
        let Ok(pk) = class.pk_of(&[group, self.account]) else { return Ok(false) };
        let now: Version = self.writing.time();
        let membership = self.writing.get(class.name().as_str(), pk.as_str())?;
        Ok(membership.is_some_and(|(_, map)| !is_over(&map, now) && rule.is_met_by(&map)))
    }

    /// A tombstone may tell no more of its group.
    fn has_hashed(&mut self, rule: &Membership, hash: &str) -> Result<bool> {
        let (writing, of) = (&self.writing, (self.writing.org, self.account));
        let held = memberships(writing.transaction(), writing.seal, of, rule, writing.now())?;
        Ok(held.iter().any(|(group, map)| group == hash && rule.is_met_by(map)))
    }
}

impl Writing<'_> {
    /// Refuses a new membership if its account has as many as a request reads. Errors: `too_large`.
    pub(in crate::engine) fn check_memberships(&mut self, class: &Class, shown: &Shown) -> Result<()> {
        let Some(collection) = self.rights.memberships_of(class.name().as_str()) else { return Ok(()) };
        let Some(account) = shown.links.get(collection.as_str()).and_then(|hashes| hashes.first()) else {
            return Ok(());
        };
        let def = Def::collection_hashed(class.name(), collection, account);
        if self.tx.count(self.org, &def, 0, VERSION_MAX + 1, 0)?.found < MEMBERSHIPS_MAX as u64 {
            return Ok(());
        }
        let what = format!(
            "an account has {MEMBERSHIPS_MAX} documents of class {}, the most possible",
            class.name()
        );
        Err(Error::new(Code::TooLarge, what))
    }
}

/// Whether the caller has a right to a document in that state.
fn holds(
    (rights, caller): (&Rights, &Caller),
    writing: &mut Writing<'_>,
    (class, right): (&Class, Right),
    document: &Properties,
) -> Result<bool> {
    let Some(rule) = rights.closed(class.name().as_str(), right) else { return Ok(true) };
    let mut members = Members { writing, account: &caller.account };
    rule.holds(asker(caller), Subject::Document(document), &mut members)
}

/// The same words for every right: which one is missing would tell whether there is a document.
fn forbidden(class: &Class) -> Fault {
    let what = format!("the rules of class {} do not let this account make that change", class.name());
    working(Error::new(Code::Forbidden, what))
}

impl Tx<'_> {
    /// Whether anything decides over changes of a class.
    pub(in crate::engine) fn decides(&self, class: &Class) -> bool {
        self.rights.class(class.name().as_str()).is_some() || self.hooks.has_write(class.name().as_str())
    }

    /// Refuses a change to which the caller has no right, or which a function of the application refuses. Errors:
    /// `forbidden`, and those of that function.
    pub(in crate::engine) fn check_change(
        &mut self,
        class: &Class,
        before: Option<&Properties>,
        after: Option<&Properties>,
    ) -> std::result::Result<(), Fault> {
        let now: Version = self.writing.now();
        let mut wanted: Vec<(Right, &Properties)> = match (before, after) {
            (None, None) => Vec::new(),
            (None, Some(after)) => vec![(Right::Create, after)],
            (Some(before), None) => vec![(Right::Delete, before)],
            (Some(before), Some(after)) => vec![(Right::Update, before), (Right::Update, after)],
        };
        if let (Some(before), Some(after)) = (before, after) {
            // To choose the end of a life is to delete, a minute from now as well as at once.
            if end_of(after).unwrap_or(u64::MAX) < end_of(before).unwrap_or(u64::MAX) {
                wanted.push((Right::Delete, before));
            }
            // Every device has dropped it.
            if is_over(before, now) && !is_over(after, now) {
                wanted.push((Right::Create, after));
            }
        }
        for (right, state) in wanted {
            let who = (self.rights, self.caller);
            if !holds(who, &mut self.writing, (class, right), state).map_err(working)? {
                return Err(forbidden(class));
            }
        }
        let (hooks, class) = (self.hooks, class.name().as_str());
        hooks.before_write(self, &DocumentChange { class, before, after })
    }

    /// Whether the caller may read a document in that state, as `Class@pk`.
    pub(in crate::engine) fn may_read(&mut self, class: &Class, document: &Properties) -> Result<bool> {
        holds((self.rights, self.caller), &mut self.writing, (class, Right::Read), document)
    }

    /// Whether a right of the caller would hold if there were a document: then it may know that there is none (R100).
    pub(in crate::engine) fn may_know(
        &mut self,
        (class, right): (&Class, Right),
        (pk, named): (&Pk, &Properties),
    ) -> Result<bool> {
        let Some(rule) = self.rights.closed(class.name().as_str(), right) else { return Ok(true) };
        // The caller may have named more, as the document that it would put.
        let key = class.key().iter().filter_map(|name| named.get_key_value(name.as_str()));
        let key = &key.map(|(name, value)| (name.clone(), value.clone())).collect();
        let (org, asker) = (self.writing.org, asker(self.caller));
        let at = Place { org, class: class.name().as_str(), pk: pk.as_str() };
        let stored = self.writing.read(class, at)?.map(|stored| stored.document);
        let ended = match &stored {
            Some(document) if !document.deleted => {
                let data = self.writing.seal.open(at, document.v, &document.data)?;
                Some(Data::from_bytes(&data).and_then(|data| data.to_map()).map_err(unreadable)?)
            }
            _ => None,
        };
        let mut members = Members { writing: &mut self.writing, account: &self.caller.account };
        match (&ended, &stored) {
            (Some(map), _) => rule.holds(asker, Subject::Document(map), &mut members),
            (None, Some(tombstone)) => {
                Gone::tombstone(class, at.pk, key, &tombstone.shown).is_shown(rule, asker, &mut members)
            }
            (None, None) => Gone::never(class, at.pk, Some(key)).is_shown(rule, asker, &mut members),
        }
    }

    /// Refuses a change of a document that is not there, unless the caller may know that. Errors: `forbidden`.
    pub(in crate::engine) fn check_absent(
        &mut self,
        (class, right): (&Class, Right),
        of: (&Pk, &Properties),
    ) -> std::result::Result<(), Fault> {
        for right in [Right::Read, right] {
            if self.may_know((class, right), of).map_err(working)? {
                return Ok(());
            }
        }
        Err(forbidden(class))
    }

    /// Whether the caller may read all documents of a class that count in that counter.
    pub(in crate::engine) fn may_read_counted(&mut self, of: &str) -> Result<bool> {
        let (rights, caller) = (self.rights, self.caller);
        for (class, quota) in rights.quotas() {
            let Some(rule) = rights.closed(class, Right::Read) else { return Ok(true) };
            let known = Properties::from([(quota.by.to_string(), Value::from(of))]);
            let mut members = Members { writing: &mut self.writing, account: &caller.account };
            if rule.holds(asker(caller), Subject::Shared(&known), &mut members)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the rules give the caller a right. Registered operations are trusted: no rule binds them, and they may ask
    /// here. `create` is decided on the key alone, the other rights on the stored document. If there is none, nobody may
    /// change or delete it, and `read` says whether the caller may know that.
    pub fn allows(&mut self, right: Right, class: &str, key: &[&str]) -> std::result::Result<bool, Fault> {
        let class = self.writing.schema().class(class).map_err(working)?;
        let (pk, map) = key_map(class, key).map_err(working)?;
        let state = match right {
            Right::Create => Some(map.clone()),
            _ => self.writing.get(class.name().as_str(), pk.as_str()).map_err(working)?.map(|(_, map)| map),
        };
        match state {
            Some(state) => {
                holds((self.rights, self.caller), &mut self.writing, (class, right), &state).map_err(working)
            }
            None => Ok(right == Right::Read && self.may_know((class, right), (&pk, &map)).map_err(working)?),
        }
    }

    /// Whether the caller administers the org.
    pub fn is_admin(&self) -> bool {
        self.caller.is_admin
    }
}
