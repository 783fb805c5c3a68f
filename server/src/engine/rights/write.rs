//! Writes: one decision for each change of a built-in operation, on the document before and after it.
// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use escale::codec::Fault;
use escale::limits::VERSION_MAX;
use escale::model::schema::Class;
use escale::model::{Def, Value, Version};
use escale::{Code, Error, Result};

use super::read::MEMBERSHIPS_MAX;
use super::{DocumentChange, asker, is_over};
use crate::engine::operation::{Properties, Tx, key_map, working};
use crate::engine::pull::Caller;
use crate::engine::write::Writing;
use crate::provider::Shown;
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

    /// A change is of one document, whose group is known.
    fn has_hashed(&mut self, _: &Membership, _: &str) -> Result<bool> {
        Ok(false)
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
        let right = match (before, after) {
            (None, Some(_)) => Right::Create,
            (_, None) => Right::Delete,
            (Some(_), Some(_)) => Right::Update,
        };
        for state in before.into_iter().chain(after) {
            let who = (self.rights, self.caller);
            if !holds(who, &mut self.writing, (class, right), state).map_err(working)? {
                let what = format!(
                    "the rules of class {} do not let this account {} that",
                    class.name(),
                    right.as_str()
                );
                return Err(working(Error::new(Code::Forbidden, what)));
            }
        }
        let (hooks, class) = (self.hooks, class.name().as_str());
        hooks.before_write(self, &DocumentChange { class, before, after })
    }

    /// Whether the caller may read a document in that state, as `Class@pk`.
    pub(in crate::engine) fn may_read(&mut self, class: &Class, document: &Properties) -> Result<bool> {
        holds((self.rights, self.caller), &mut self.writing, (class, Right::Read), document)
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
    /// here. `create` is decided on the key alone, the other rights on the stored document. If there is none, everybody
    /// may read that, and nobody may change or delete it.
    pub fn allows(&mut self, right: Right, class: &str, key: &[&str]) -> std::result::Result<bool, Fault> {
        let class = self.writing.schema().class(class).map_err(working)?;
        let (pk, map) = key_map(class, key).map_err(working)?;
        let state = match right {
            Right::Create => Some(map),
            _ => self.writing.get(class.name().as_str(), pk.as_str()).map_err(working)?.map(|(_, map)| map),
        };
        match state {
            Some(state) => {
                holds((self.rights, self.caller), &mut self.writing, (class, right), &state).map_err(working)
            }
            None => Ok(right == Right::Read),
        }
    }

    /// Whether the caller administers the org.
    pub fn is_admin(&self) -> bool {
        self.caller.is_admin
    }
}
