//! Writes: one decision for each change of a built-in operation, on the document before and after it.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use escale::codec::Fault;
use escale::model::schema::Class;
use escale::model::{Pk, Value, Version};
use escale::{Code, Error, Result};

use crate::engine::records::record::Properties;
use crate::engine::rights::asker::{asker, expiry_minute, is_over};
use crate::engine::rights::gone::Gone;
use crate::engine::rights::read::memberships;
use crate::engine::tx::checks::unreadable;
use crate::engine::tx::hooks::DocumentChange;
use crate::engine::tx::operation::OperationTx;
use crate::engine::tx::outcome::{key_map, working};
use crate::engine::tx::write_tx::WriteTx;
use crate::provider::Place;
use crate::rights::{Membership, Parent, Related, Right, Subject};

/// The caller's memberships and the parents of items, as the write has them.
impl Related for WriteTx<'_> {
    fn has(&mut self, rule: &Membership, group: &str) -> Result<bool> {
        let class = self.schema().class(rule.class.as_str())?;
        // A text that can be no key names no group.
        let Ok(pk) = class.pk_of(&[group, &self.caller.account]) else { return Ok(false) };
        let now: Version = self.time;
        let membership = self.get(class.name().as_str(), pk.as_str())?;
        Ok(membership.is_some_and(|(_, map)| !is_over(&map, now) && rule.is_met_by(&map)))
    }

    /// A tombstone may tell no more of its group.
    fn has_hashed(&mut self, rule: &Membership, hash: &str) -> Result<bool> {
        let of = (self.org, self.caller.account.as_str());
        let held = memberships(self.tx.snapshot(), &self.instance.seal, of, rule, self.time)?;
        Ok(held.iter().any(|(group, map)| group == hash && rule.is_met_by(map)))
    }

    /// If the parent is not there: whether the caller may know that. The write of the item then says so.
    fn allows_parent(&mut self, parent: &Parent, items: Subject) -> Result<bool> {
        let Some((pk, key)) = parent.of(self.schema(), items)? else { return Ok(false) };
        let class = self.schema().class(parent.class.as_str())?;
        match self.get(class.name().as_str(), pk.as_str())? {
            Some((_, map)) => self.has_right((class, parent.right), &map),
            None => Ok(self.may_know((class, Right::Read), (&pk, &key))?
                || self.may_know((class, parent.right), (&pk, &key))?),
        }
    }
}

/// The same words for every right: which one is missing would tell whether there is a document.
fn forbidden(class: &Class) -> Fault {
    let what = format!("the rules of class {} do not let this account make that change", class.name());
    working(Error::new(Code::Forbidden, what))
}

impl WriteTx<'_> {
    /// Whether the caller has a right to a document in that state.
    pub(in crate::engine) fn has_right(
        &mut self,
        (class, right): (&Class, Right),
        document: &Properties,
    ) -> Result<bool> {
        let Some(rule) = self.instance.rights.closed(class.name().as_str(), right) else { return Ok(true) };
        rule.holds(asker(self.caller), Subject::Document(document), self)
    }

    /// Whether a right of the caller would hold if there were a document: then it may know that there is none (R100).
    pub(in crate::engine) fn may_know(
        &mut self,
        (class, right): (&Class, Right),
        (pk, named): (&Pk, &Properties),
    ) -> Result<bool> {
        let Some(rule) = self.instance.rights.closed(class.name().as_str(), right) else { return Ok(true) };
        // The caller may have named more, as the document that it would put.
        let key = class.key().iter().filter_map(|name| named.get_key_value(name.as_str()));
        let key = &key.map(|(name, value)| (name.clone(), value.clone())).collect();
        let (org, asker) = (self.org, asker(self.caller));
        let at = Place { org, class: class.name().as_str(), pk: pk.as_str() };
        let stored = self.read(class, at)?.map(|stored| stored.opened);
        let ended = match &stored {
            Some(opened) if !opened.document.deleted => Some(opened.properties().map_err(unreadable)?),
            _ => None,
        };
        match (&ended, &stored) {
            (Some(map), _) => rule.holds(asker, Subject::Document(map), self),
            (None, Some(tombstone)) => {
                Gone::tombstone(class, at.pk, key, &tombstone.document.shown).is_shown(rule, asker, self)
            }
            (None, None) => Gone::never(class, at.pk, Some(key)).is_shown(rule, asker, self),
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
        let rights = &self.instance.rights;
        for (class, quota) in rights.quotas() {
            let Some(rule) = rights.closed(class, Right::Read) else { return Ok(true) };
            let known = Properties::from([(quota.by.to_string(), Value::from(of))]);
            if rule.holds(asker(self.caller), Subject::Shared(&known), self)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl OperationTx<'_> {
    /// Whether anything decides over changes of a class.
    pub(in crate::engine) fn decides(&self, class: &Class) -> bool {
        let (rights, class) = (&self.write.instance.rights, class.name().as_str());
        rights.class(class).is_some() || self.hooks.has_write(class)
    }

    /// Refuses a change to which the caller has no right, or which a function of the application refuses. Errors:
    /// `forbidden`, and those of that function.
    pub(in crate::engine) fn check_change(
        &mut self,
        class: &Class,
        before: Option<&Properties>,
        after: Option<&Properties>,
    ) -> std::result::Result<(), Fault> {
        let now: Version = self.now();
        let mut wanted: Vec<(Right, &Properties)> = match (before, after) {
            (None, None) => Vec::new(),
            (None, Some(after)) => vec![(Right::Create, after)],
            (Some(before), None) => vec![(Right::Delete, before)],
            (Some(before), Some(after)) => vec![(Right::Update, before), (Right::Update, after)],
        };
        if let (Some(before), Some(after)) = (before, after) {
            // To choose the end of a life is to delete, a minute from now as well as at once.
            if expiry_minute(after).unwrap_or(u64::MAX) < expiry_minute(before).unwrap_or(u64::MAX) {
                wanted.push((Right::Delete, before));
            }
            // Every device has dropped it.
            if is_over(before, now) && !is_over(after, now) {
                wanted.push((Right::Create, after));
            }
        }
        for (right, state) in wanted {
            if !self.write.has_right((class, right), state).map_err(working)? {
                return Err(forbidden(class));
            }
        }
        let (hooks, class) = (self.hooks, class.name().as_str());
        hooks.before_write(self, &DocumentChange { class, before, after })
    }

    /// Whether the rules give the caller a right. Registered operations are trusted: no rule binds them, and they may ask
    /// here. `create` is decided on the key alone, the other rights on the stored document. If there is none, nobody may
    /// change or delete it, and `read` says whether the caller may know that.
    pub fn allows(&mut self, right: Right, class: &str, key: &[&str]) -> std::result::Result<bool, Fault> {
        let class = self.class(class)?;
        let (pk, map) = key_map(class, key).map_err(working)?;
        let state = match right {
            Right::Create => Some(map.clone()),
            _ => self.write.get(class.name().as_str(), pk.as_str()).map_err(working)?.map(|(_, map)| map),
        };
        let write = &mut self.write;
        match state {
            Some(state) => write.has_right((class, right), &state).map_err(working),
            None => Ok(right == Right::Read && write.may_know((class, right), (&pk, &map)).map_err(working)?),
        }
    }
}
