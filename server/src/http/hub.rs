//! The subscriptions of all sockets: brings hints from the feed to the sockets, at the pace that the instance can bear
//! (R42).
//!
//! For each socket, one version per def is queued, the highest. So a slow reader costs no more memory than
//! its subscriptions, regardless of how much changes.

mod pace;
mod pushing;
mod singles;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use escale::codec::Format;
use escale::model::{Def, Version, sha_s};
use smol_str::SmolStr;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use self::pace::{Lane, Pace};
use self::pushing::Frame;
use self::singles::Singles;
use super::stopped::stopped;
use crate::engine::Follower;
use crate::lock::lock;

/// All sockets of a server, by org and def.
pub(super) struct Hub {
    inner: Mutex<Inner>,
    began: Instant,
    /// Somebody waits for a turn.
    waits: Notify,
}

struct Inner {
    last: u64,
    orgs: HashMap<String, Org>,
    pace: Pace,
}

#[derive(Default)]
struct Org {
    listeners: HashMap<Def, HashSet<u64>>,
    seats: HashMap<u64, Arc<Waiting>>,
    /// The seats of each account, by its `shaS`.
    accounts: HashMap<SmolStr, HashSet<u64>>,
    singles: Singles,
}

#[derive(Default)]
struct Waiting {
    held: Mutex<Held>,
    notify: Notify,
}

/// The messages that a socket waits for.
#[derive(Default)]
struct Held {
    /// The session, and the form of its last message.
    follower: Follower,
    format: Format,
    pushes: Vec<Frame>,
    hints: BTreeMap<Def, Version>,
    /// Whether the first subscriptions are not confirmed yet.
    is_new: bool,
    /// Whether it may have them now.
    has_turn: bool,
    /// The `shaS` of the account; empty without accounts.
    account: SmolStr,
    /// The defs to which the account may have lost the right (R86).
    doubt: Option<Doubt>,
}

/// The defs of a socket to which its rights must be decided again.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    All,
    /// A write of one document must not cost a decision over each other def of each of its listeners.
    Defs(HashSet<Def>),
}

/// A socket's place in the hub; it leaves when dropped.
pub(super) struct Seat {
    hub: Arc<Hub>,
    org: String,
    number: u64,
    defs: HashSet<Def>,
    waiting: Arc<Waiting>,
}

/// The messages of a socket's turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The rights to these defs must be looked at again, before anything more is sent.
    Rights(Doubt),
    /// Its first subscriptions may be confirmed. The session then pulls all of them.
    Live,
    /// Pushes, in their order.
    Pushes(Vec<Frame>),
    /// These defs changed at these versions.
    Hints(Vec<(Def, Version)>),
}

impl Hub {
    /// A hub that makes sessions pull so many times a second. `seed` chooses the order among those who wait.
    pub(super) fn new(pulls: u64, seed: u64) -> Self {
        let inner = Inner { last: 0, orgs: HashMap::new(), pace: Pace::new(pulls, seed) };
        Hub { inner: Mutex::new(inner), began: Instant::now(), waits: Notify::new() }
    }

    /// A place in an org, without subscriptions yet.
    pub(super) fn join(self: &Arc<Self>, org: &str) -> Seat {
        let mut inner = lock(&self.inner);
        inner.last += 1;
        let number = inner.last;
        let waiting = Arc::new(Waiting::default());
        lock(&waiting.held).is_new = true;
        inner.orgs.entry(org.to_owned()).or_default().seats.insert(number, Arc::clone(&waiting));
        Seat { hub: Arc::clone(self), org: org.to_owned(), number, defs: HashSet::new(), waiting }
    }

    /// Whether any socket is in that org.
    pub(super) fn has_listeners(&self, org: &str) -> bool {
        lock(&self.inner).orgs.contains_key(org)
    }

    /// A def of an org changed at that version.
    pub(super) fn hint(&self, org: &str, def: &Def, v: Version) {
        let mut inner = lock(&self.inner);
        let Inner { orgs, pace, .. } = &mut *inner;
        let Some(found) = orgs.get(org) else { return };
        found.hint(def, v, |numbers| pace.add(org, &Lane::Def(def.clone()), numbers));
        self.give(&mut inner);
    }

    /// An item is in the def of its parent's items. It is remembered if somebody listens to the item alone.
    pub(super) fn note_item(&self, org: &str, item: &Def, items: &Def) {
        let mut inner = lock(&self.inner);
        let Some(org) = inner.orgs.get_mut(org) else { return };
        if org.listeners.contains_key(item) {
            org.singles.note(item, items);
        }
    }

    /// The items of a parent that somebody listens to alone.
    pub(super) fn single_items(&self, org: &str, items: &Def) -> Vec<Def> {
        lock(&self.inner).orgs.get(org).map(|org| org.singles.of(items)).unwrap_or_default()
    }

    /// The orgs with sockets.
    pub(super) fn orgs(&self) -> Vec<String> {
        lock(&self.inner).orgs.keys().cloned().collect()
    }

    /// Anything may have changed in an org up to that version: its sessions pull everything.
    pub(super) fn hint_all(&self, org: &str, v: Version) {
        let mut inner = lock(&self.inner);
        let Inner { orgs, pace, .. } = &mut *inner;
        let Some(found) = orgs.get(org) else { return };
        for def in found.listeners.keys() {
            found.hint(def, v, |numbers| pace.add(org, &Lane::Def(def.clone()), numbers));
        }
        self.give(&mut inner);
    }

    /// A membership of the account with this hash changed: its sockets look at their rights again, before they send a hint
    /// that comes after this call (R99).
    pub(super) fn doubt(&self, org: &str, account: &str) {
        let inner = lock(&self.inner);
        let Some(org) = inner.orgs.get(org) else { return };
        org.doubt(org.accounts.get(account), None);
    }

    /// Any right may have changed in an org.
    pub(super) fn doubt_all(&self, org: &str) {
        let inner = lock(&self.inner);
        inner.orgs.get(org).into_iter().flat_map(|org| org.seats.values()).for_each(|seat| seat.doubt(None));
    }

    /// A document changed on which rights to that def rest.
    pub(super) fn doubt_def(&self, org: &str, def: &Def) {
        let inner = lock(&self.inner);
        let Some(org) = inner.orgs.get(org) else { return };
        org.doubt(org.listeners.get(def), Some(def));
    }

    /// How many wait for a turn, once for each def.
    pub(super) fn waiting(&self) -> usize {
        lock(&self.inner).pace.waiting()
    }

    /// Gives the turns that are due, until the server stops.
    pub(super) async fn run(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        loop {
            let next_ms = {
                let mut inner = lock(&self.inner);
                self.give(&mut inner);
                inner.pace.next_ms()
            };
            let due = async {
                match next_ms {
                    Some(ms) => tokio::time::sleep_until(self.began + Duration::from_millis(ms)).await,
                    None => self.waits.notified().await,
                }
            };
            tokio::select! {
                () = due => {}
                () = stopped(&mut stop) => return,
            }
        }
    }

    fn give(&self, inner: &mut Inner) {
        self.give_at(inner, u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
    }

    fn give_at(&self, inner: &mut Inner, now_ms: u64) {
        let Inner { orgs, pace, .. } = inner;
        pace.give(now_ms, |org, number, lane| {
            orgs.get(org)
                .and_then(|org| org.seats.get(&number))
                .is_some_and(|waiting| waiting.take_turn(lane))
        });
        if pace.waiting() > 0 {
            self.waits.notify_one();
        }
    }
}

impl Waiting {
    /// Makes the socket look at its rights again: to that def, or to all.
    fn doubt(&self, def: Option<&Def>) {
        let mut held = lock(&self.held);
        let is_first = held.doubt.is_none();
        match (held.doubt.get_or_insert_with(|| Doubt::Defs(HashSet::new())), def) {
            (Doubt::Defs(defs), Some(def)) => drop(defs.insert(def.clone())),
            (doubt, None) => *doubt = Doubt::All,
            (Doubt::All, Some(_)) => {}
        }
        drop(held);
        if is_first {
            self.notify.notify_one();
        }
    }

    /// Holds a hint. Returns whether it is the first one of its def.
    fn hint(&self, def: &Def, v: Version) -> bool {
        let mut held = lock(&self.held);
        // The session pulls all its defs after the confirmation.
        if held.is_new {
            return false;
        }
        let known = held.hints.insert(def.clone(), v);
        if let Some(known) = known.filter(|known| *known > v) {
            held.hints.insert(def.clone(), known);
        }
        known.is_none()
    }

    /// Takes a turn, if there is still something to send. All hints that it holds go with it.
    fn take_turn(&self, lane: &Lane) -> bool {
        let mut held = lock(&self.held);
        let is_wanted = match lane {
            Lane::Live => held.is_new,
            Lane::Def(def) => held.hints.contains_key(def),
        };
        // It has a turn already, and has not taken it.
        let is_taken = is_wanted && !held.has_turn;
        held.has_turn |= is_taken;
        drop(held);
        if is_taken {
            self.notify.notify_one();
        }
        is_taken
    }
}

impl Seat {
    /// The session of the socket, and the form of its messages.
    pub(super) fn is_of(&self, follower: Follower, format: Format) {
        let mut inner = lock(&self.hub.inner);
        let mut held = lock(&self.waiting.held);
        if (&held.follower, held.format) != (&follower, format) {
            held.pushes.clear();
        }
        let account =
            SmolStr::from(if follower.account.is_empty() { String::new() } else { sha_s(&follower.account) });
        let before = std::mem::replace(&mut held.account, account.clone());
        (held.follower, held.format) = (follower, format);
        if let Some(org) = inner.orgs.get_mut(&self.org) {
            org.forget_account(&before, self.number);
            org.accounts.entry(account).or_default().insert(self.number);
        }
    }

    /// Replaces the subscriptions by these defs. The first time, the confirmation waits for its turn.
    pub(super) fn listen(&mut self, defs: HashSet<Def>) {
        let mut inner = lock(&self.hub.inner);
        let Inner { orgs, pace, .. } = &mut *inner;
        if let Some(org) = orgs.get_mut(&self.org) {
            org.forget(self.number, self.defs.difference(&defs));
            for def in &defs {
                org.listeners.entry(def.clone()).or_default().insert(self.number);
            }
        }
        let mut held = lock(&self.waiting.held);
        held.hints.retain(|def, _| defs.contains(def));
        held.pushes.retain(|frame| defs.contains(&frame.def));
        let is_new = held.is_new;
        drop(held);
        if is_new {
            pace.add(&self.org, &Lane::Live, std::iter::once(self.number));
            self.hub.give(&mut inner);
        }
        drop(inner);
        self.defs = defs;
    }

    /// The defs that it listens to.
    pub(super) fn defs(&self) -> &HashSet<Def> {
        &self.defs
    }

    /// Whether the first subscriptions are not confirmed yet.
    pub(super) fn is_new(&self) -> bool {
        lock(&self.waiting.held).is_new
    }

    /// Waits for a turn, and takes it. Cancelling the call loses nothing.
    pub(super) async fn turn(&self) -> Turn {
        loop {
            if let Some(turn) = self.waiting.turn() {
                return turn;
            }
            self.waiting.notify.notified().await;
        }
    }
}

impl Waiting {
    fn turn(&self) -> Option<Turn> {
        let mut held = lock(&self.held);
        if let Some(doubt) = held.doubt.take() {
            return Some(Turn::Rights(doubt));
        }
        if !held.pushes.is_empty() {
            return Some(Turn::Pushes(std::mem::take(&mut held.pushes)));
        }
        if !std::mem::take(&mut held.has_turn) {
            return None;
        }
        if std::mem::take(&mut held.is_new) {
            return Some(Turn::Live);
        }
        let hints = std::mem::take(&mut held.hints);
        // The subscriptions may have changed since the turn was given.
        (!hints.is_empty()).then(|| Turn::Hints(hints.into_iter().collect()))
    }
}

impl Org {
    /// Holds a hint for each listener of a def. `wait` gets those that have none of this def yet.
    fn hint(&self, def: &Def, v: Version, wait: impl FnOnce(&mut dyn Iterator<Item = u64>)) {
        let Some(numbers) = self.listeners.get(def) else { return };
        let mut new = numbers
            .iter()
            .copied()
            .filter(|number| self.seats.get(number).is_some_and(|waiting| waiting.hint(def, v)));
        wait(&mut new);
    }

    /// Makes these seats look at their rights again: to that def, or to all.
    fn doubt(&self, numbers: Option<&HashSet<u64>>, def: Option<&Def>) {
        let seats = numbers.into_iter().flatten().filter_map(|number| self.seats.get(number));
        seats.for_each(|seat| seat.doubt(def));
    }

    fn forget_account(&mut self, account: &SmolStr, number: u64) {
        if let Some(numbers) = self.accounts.get_mut(account) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.accounts.remove(account);
            }
        }
    }

    fn forget<'d>(&mut self, number: u64, defs: impl Iterator<Item = &'d Def>) {
        for def in defs {
            if let Some(numbers) = self.listeners.get_mut(def) {
                numbers.remove(&number);
                if numbers.is_empty() {
                    self.listeners.remove(def);
                    self.singles.forget(def);
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
            org.forget_account(&lock(&self.waiting.held).account, self.number);
            org.seats.remove(&self.number);
            if org.seats.is_empty() {
                inner.orgs.remove(&self.org);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
