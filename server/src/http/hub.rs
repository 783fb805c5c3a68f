//! The subscriptions of all sockets: brings hints from the feed to the sockets.
//!
//! For each socket, one version per def is queued, the highest. So a slow reader costs no more memory than
//! its subscriptions, regardless of how much changes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use escale::model::{Def, Version};
use tokio::sync::Notify;

/// All sockets of a server, by org and def.
#[derive(Default)]
pub(super) struct Hub {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    last: u64,
    orgs: HashMap<String, Org>,
}

#[derive(Default)]
struct Org {
    listeners: HashMap<Def, HashSet<u64>>,
    seats: HashMap<u64, Arc<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    hints: Mutex<BTreeMap<Def, Version>>,
    notify: Notify,
}

/// A socket's place in the hub; it leaves when dropped.
pub(super) struct Seat {
    hub: Arc<Hub>,
    org: String,
    number: u64,
    defs: HashSet<Def>,
    waiting: Arc<Waiting>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// A place in an org, without subscriptions yet.
    pub(super) fn join(self: &Arc<Self>, org: &str) -> Seat {
        let mut inner = lock(&self.inner);
        inner.last += 1;
        let number = inner.last;
        let waiting = Arc::new(Waiting::default());
        inner.orgs.entry(org.to_owned()).or_default().seats.insert(number, Arc::clone(&waiting));
        Seat { hub: Arc::clone(self), org: org.to_owned(), number, defs: HashSet::new(), waiting }
    }

    /// Whether any socket is in that org.
    pub(super) fn has_listeners(&self, org: &str) -> bool {
        lock(&self.inner).orgs.contains_key(org)
    }

    /// A def of an org changed at that version.
    pub(super) fn hint(&self, org: &str, def: &Def, v: Version) {
        let inner = lock(&self.inner);
        let Some(org) = inner.orgs.get(org) else { return };
        for number in org.listeners.get(def).into_iter().flatten() {
            if let Some(waiting) = org.seats.get(number) {
                waiting.hint(def, v);
            }
        }
    }

    /// The orgs with sockets.
    pub(super) fn orgs(&self) -> Vec<String> {
        lock(&self.inner).orgs.keys().cloned().collect()
    }

    /// Anything may have changed in an org up to that version: its sessions pull everything.
    pub(super) fn hint_all(&self, org: &str, v: Version) {
        let inner = lock(&self.inner);
        let Some(org) = inner.orgs.get(org) else { return };
        for (def, numbers) in &org.listeners {
            for waiting in numbers.iter().filter_map(|number| org.seats.get(number)) {
                waiting.hint(def, v);
            }
        }
    }
}

impl Waiting {
    fn hint(&self, def: &Def, v: Version) {
        let mut hints = lock(&self.hints);
        let held = hints.entry(def.clone()).or_insert(v);
        *held = v.max(*held);
        self.notify.notify_one();
    }
}

impl Seat {
    /// Replaces the subscriptions by these defs.
    pub(super) fn listen(&mut self, defs: HashSet<Def>) {
        let mut inner = lock(&self.hub.inner);
        if let Some(org) = inner.orgs.get_mut(&self.org) {
            org.forget(self.number, self.defs.difference(&defs));
            for def in &defs {
                org.listeners.entry(def.clone()).or_default().insert(self.number);
            }
        }
        drop(inner);
        lock(&self.waiting.hints).retain(|def, _| defs.contains(def));
        self.defs = defs;
    }

    /// Waits until there are hints, and takes them.
    pub(super) async fn hints(&self) -> Vec<(Def, Version)> {
        loop {
            let hints = std::mem::take(&mut *lock(&self.waiting.hints));
            if !hints.is_empty() {
                return hints.into_iter().collect();
            }
            self.waiting.notify.notified().await;
        }
    }
}

impl Org {
    fn forget<'d>(&mut self, number: u64, defs: impl Iterator<Item = &'d Def>) {
        for def in defs {
            if let Some(numbers) = self.listeners.get_mut(def) {
                numbers.remove(&number);
                if numbers.is_empty() {
                    self.listeners.remove(def);
                }
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inner = lock(&self.hub.inner);
        if let Some(org) = inner.orgs.get_mut(&self.org) {
            org.forget(self.number, self.defs.iter());
            org.seats.remove(&self.number);
            if org.seats.is_empty() {
                inner.orgs.remove(&self.org);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn orgs_are_kept_apart_and_hints_are_merged() {
        let hub = Arc::new(Hub::default());
        let def: Def = "A".parse().unwrap();
        let mut here = hub.join("o");
        let mut there = hub.join("p");
        here.listen([def.clone()].into());
        there.listen([def.clone()].into());
        hub.hint("o", &def, 7);
        hub.hint("o", &def, 5);
        hub.hint("o", &"B".parse().unwrap(), 9);
        assert_eq!(std::mem::take(&mut *lock(&here.waiting.hints)), BTreeMap::from([(def.clone(), 7)]));
        assert!(lock(&there.waiting.hints).is_empty());
        hub.hint("o", &def, 8);
        here.listen(HashSet::new());
        assert!(lock(&here.waiting.hints).is_empty(), "what is no longer listened to is forgotten");
        hub.hint("o", &def, 9);
        assert!(lock(&here.waiting.hints).is_empty());
        drop((here, there));
        assert!(lock(&hub.inner).orgs.is_empty());
    }
}
