//! The schedules as an instance knows them. The follower of the feed says which orgs have changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::engine::records::org::OrgRecord;
use crate::lock::lock;

/// Orgs in memory. Above that all are read again.
pub(in crate::engine) const ORGS_MAX: usize = 10_000;

/// The records that an instance has read.
#[derive(Default)]
pub struct KnownSchedules {
    pub(in crate::engine) orgs: Mutex<HashMap<String, Arc<OrgRecord>>>,
    /// How often records have changed: one that was read before such a change may be outdated.
    pub(in crate::engine) changes: AtomicU64,
}

impl KnownSchedules {
    pub(in crate::engine) fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<OrgRecord>>> {
        lock(&self.orgs)
    }

    /// The record of an org has changed.
    pub(in crate::engine) fn forget(&self, org: &str) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.lock().remove(org);
    }
}
