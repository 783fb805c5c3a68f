//! The schedules as an instance knows them. The follower of the feed says which orgs have changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use escale::Result;

use super::Restriction;
use super::record::{ORG, ORGS, OrgRecord};
use crate::engine::rights::read_kept;
use crate::engine::{Caller, Engine};

/// Orgs in memory. Above that all are read again.
const ORGS_MAX: usize = 10_000;

/// The records that an instance has read.
#[derive(Default)]
pub struct KnownSchedules {
    orgs: Mutex<HashMap<String, Arc<OrgRecord>>>,
    /// How often records have changed: one that was read before such a change may be outdated.
    changes: AtomicU64,
}

/// The restrictions of an engine's orgs.
#[derive(Clone, Copy)]
pub struct Restrictions<'e>(&'e Engine);

impl KnownSchedules {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<OrgRecord>>> {
        self.orgs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The record of an org has changed.
    pub(in crate::engine) fn forget(&self, org: &str) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.lock().remove(org);
    }
}

impl<'e> Restrictions<'e> {
    /// Those of an engine.
    pub fn of(engine: &'e Engine) -> Self {
        Restrictions(engine)
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
        let record = Arc::new(OrgRecord::of_map(read_kept(self.0, org, ORGS, ORG)?.as_ref())?);
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
    pub fn look_again(self, org: Option<&str>) {
        let known = &self.0.known_schedules;
        if let Some(org) = org {
            return known.forget(org);
        }
        known.changes.fetch_add(1, Ordering::SeqCst);
        known.lock().clear();
    }

    /// Whether a row of the feed says that a record has changed.
    pub fn is_concerned_by(class: &str) -> bool {
        class == ORGS
    }
}
