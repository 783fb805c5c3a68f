//! The locks: one for each org, one for the site, and one for each value of an index across orgs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use escale::{Code, Error, Result};
use smol_str::SmolStr;

use super::tables::EntryKey;
use crate::lock::lock;

/// Who writes at present.
#[derive(Default)]
pub(super) struct Turns {
    taken: Mutex<Taken>,
    given_back: Condvar,
}

#[derive(Default)]
struct Taken {
    /// The orgs with a write in progress.
    orgs: BTreeSet<SmolStr>,
    /// Whether maintenance is in progress.
    is_maintained: bool,
    /// The values across orgs that a write has looked at or changed, with the org of that write.
    values: BTreeMap<EntryKey, SmolStr>,
}

impl Turns {
    /// Takes the lock of an org, and shares that of the site.
    pub(super) fn take_org(&self, org: &str, wait: Duration) -> Result<()> {
        let is_free = |taken: &Taken| !taken.is_maintained && !taken.orgs.contains(org);
        self.take(wait, is_free, |taken| {
            taken.orgs.insert(org.into());
        })
    }

    /// Takes the lock of the site alone, and with it those of all orgs.
    pub(super) fn take_all(&self, wait: Duration) -> Result<()> {
        let is_free = |taken: &Taken| !taken.is_maintained && taken.orgs.is_empty();
        self.take(wait, is_free, |taken| taken.is_maintained = true)
    }

    /// Takes a value across orgs for the write of an org, until that write ends. It does not wait: two
    /// writes that wait for each other would never end. Errors: `contention`.
    pub(super) fn take_value(&self, value: EntryKey, org: &str) -> Result<()> {
        let mut taken = lock(&self.taken);
        let holder = taken.values.entry(value).or_insert_with(|| org.into());
        if holder == org {
            Ok(())
        } else {
            Err(contended("a write of another org holds a value across orgs"))
        }
    }

    pub(super) fn give_back_org(&self, org: &str) {
        let mut taken = lock(&self.taken);
        taken.orgs.remove(org);
        taken.values.retain(|_, holder| holder != org);
        self.given_back.notify_all();
    }

    pub(super) fn give_back_all(&self) {
        lock(&self.taken).is_maintained = false;
        self.given_back.notify_all();
    }

    fn take(
        &self,
        wait: Duration,
        is_free: impl Fn(&Taken) -> bool,
        take: impl FnOnce(&mut Taken),
    ) -> Result<()> {
        let (mut taken, _) = self
            .given_back
            .wait_timeout_while(lock(&self.taken), wait, |taken| !is_free(taken))
            .unwrap_or_else(PoisonError::into_inner);
        if !is_free(&taken) {
            return Err(contended("another write holds the database"));
        }
        take(&mut taken);
        Ok(())
    }
}

fn contended(what: &str) -> Error {
    Error::new(Code::Contention, what)
}
