//! Restrictions (R89): an administrator bars an account, or the whole org, from writing, from reading, or from entering, on
//! dates of his choice. Nothing that a session holds is touched.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use escale::Result;
use escale::codec::Fault;
use escale::model::schema::Class;

use crate::engine::caller::{Caller, NO_WRITES, Restriction};
use crate::engine::instance::context::Instance;
use crate::engine::instance::refusals::{blocked, check_enters};
use crate::engine::instance::schedules::ORGS_MAX;
use crate::engine::records::org::{ORG, OrgRecord};
use crate::engine::records::system::SystemRecord;
use crate::engine::tx::outcome::working;
use crate::engine::tx::system_records::read_system_record;
use crate::engine::tx::write_tx::WriteTx;

/// The restrictions of an instance's orgs.
#[derive(Clone, Copy)]
pub struct Restrictions<'e>(&'e Instance);

impl<'e> Restrictions<'e> {
    /// Those of an instance.
    pub fn of(instance: &'e Instance) -> Self {
        Restrictions(instance)
    }

    /// The restriction of a caller; none if this takes a look into the database.
    pub fn known(self, org: &str, caller: &Caller) -> Option<Restriction> {
        let record = self.0.known_schedules.lock().get(org).cloned();
        record.map(|record| record.restriction(caller, self.0.clock.now_ms()))
    }

    /// The restriction of a caller. Errors: those of the database.
    pub fn read(self, org: &str, caller: &Caller) -> Result<Restriction> {
        if let Some(known) = self.known(org, caller) {
            return Ok(known);
        }
        let known = &self.0.known_schedules;
        let changes = known.changes.load(Ordering::SeqCst);
        let record: Arc<OrgRecord> = Arc::new(read_system_record(self.0, org, ORG)?.unwrap_or_default());
        let mut orgs = known.lock();
        if known.changes.load(Ordering::SeqCst) == changes {
            if orgs.len() >= ORGS_MAX {
                orgs.clear();
            }
            orgs.insert(org.to_owned(), Arc::clone(&record));
        }
        Ok(record.restriction(caller, self.0.clock.now_ms()))
    }

    /// The caller with its restriction. Errors: those of the database.
    pub fn restricted(self, org: &str, caller: Caller) -> Result<Caller> {
        Ok(Caller { restriction: self.read(org, &caller)?, ..caller })
    }

    /// The record of an org has changed; without one, any may have.
    pub fn invalidate(self, org: Option<&str>) {
        let known = &self.0.known_schedules;
        if let Some(org) = org {
            return known.forget(org);
        }
        known.changes.fetch_add(1, Ordering::SeqCst);
        known.lock().clear();
    }

    /// Whether a row of the feed says that a record has changed.
    pub fn is_relevant(class: &str) -> bool {
        class == OrgRecord::CLASS
    }
}

impl WriteTx<'_> {
    /// Refuses an account that may not enter, as the transaction has its schedules. Errors: `account_closed`.
    pub(crate) fn check_enters(&self, caller: Caller) -> Result<()> {
        let restriction = OrgRecord::read(self)?.restriction(&caller, self.time);
        check_enters(self.instance, self.org, &Caller { restriction, ..caller })
    }

    /// Refuses a write to a class, or one of no class, if the caller is restricted. Errors: `blocked`.
    #[allow(clippy::result_large_err)] // as of all operations
    pub(in crate::engine) fn check_level(&self, class: Option<&Class>) -> std::result::Result<(), Fault> {
        let rights = &self.instance.rights;
        let is_exempt = class.is_some_and(|class| rights.is_exempt(class.name().as_str(), self.level));
        if self.level < NO_WRITES || is_exempt { Ok(()) } else { Err(working(blocked(self.level))) }
    }
}
