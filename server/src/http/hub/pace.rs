//! The pace of hints and confirmations (R42). Each of them makes a session pull, and thousands of pulls at once would
//! keep everybody else waiting.
//!
//! It decides who goes next, and when. It knows no sockets, and takes the time from its caller. Those who wait go at a
//! steady rate. Orgs take turns, and so do the lanes of an org: one def that thousands follow delays nobody who follows
//! another one. Within a lane the order is random, so that the same sessions do not come first each time.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::Hash;

use escale::model::Def;

/// Millionths of a turn: turns come in whole milliseconds, and a rate may be any number of them a second.
const TURN: u64 = 1_000_000;

/// Those who wait for the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lane {
    /// For the confirmation of a socket's first subscriptions.
    Live,
    /// For a hint of this def.
    Def(Def),
}

/// A queue of queues. Only those who wait are in it.
pub(super) struct Pace {
    /// Turns of a second.
    rate: u64,
    /// Turns that may be taken now, in millionths, as of `at_ms`.
    saved: u64,
    at_ms: u64,
    waiting: usize,
    orgs: Turns<String, Turns<Lane, Draw>>,
    random: u64,
}

/// Values that take turns by their keys.
struct Turns<K, V> {
    order: VecDeque<K>,
    by_key: HashMap<K, V>,
}

/// Seats in a random order. Those who come later wait until all before them have had a turn, so nobody waits for ever.
#[derive(Default)]
struct Draw {
    present: Vec<u64>,
    later: Vec<u64>,
    all: HashSet<u64>,
}

impl Pace {
    /// A pace of so many turns a second. `seed` chooses the order.
    pub(super) fn new(rate: u64, seed: u64) -> Self {
        let rate = rate.max(1);
        let saved = saved_max(rate);
        Pace { rate, saved, at_ms: 0, waiting: 0, orgs: Turns::default(), random: seed }
    }

    /// Those seats wait for a turn in that lane. Each waits once, however often it is added.
    pub(super) fn add(&mut self, org: &str, lane: &Lane, seats: impl Iterator<Item = u64>) {
        let mut seats = seats.peekable();
        if seats.peek().is_none() {
            return;
        }
        let draw = self.orgs.of(org).of(lane);
        for seat in seats {
            if draw.all.insert(seat) {
                draw.later.push(seat);
                self.waiting += 1;
            }
        }
    }

    /// Gives turns until none is left at `now_ms`, or nobody waits. `takes` says whether the seat still wants its turn.
    pub(super) fn give(&mut self, now_ms: u64, mut takes: impl FnMut(&str, u64, &Lane) -> bool) {
        self.save(now_ms);
        while self.saved >= TURN {
            let Some((org, lane, seat)) = self.next() else { return };
            if takes(&org, seat, &lane) {
                self.saved -= TURN;
            }
        }
    }

    /// When the next turn may be given, if somebody waits.
    pub(super) fn next_ms(&self) -> Option<u64> {
        let missing = TURN.saturating_sub(self.saved);
        (self.waiting > 0).then(|| self.at_ms + missing.div_ceil(self.rate * (TURN / 1_000)))
    }

    /// How many turns may be given at once.
    pub(super) fn at_once(&self) -> usize {
        usize::try_from(saved_max(self.rate) / TURN).unwrap_or(usize::MAX)
    }

    /// How many wait, once for each lane.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    fn save(&mut self, now_ms: u64) {
        let passed = now_ms.saturating_sub(self.at_ms);
        let gained = passed.saturating_mul(self.rate * (TURN / 1_000));
        self.saved = self.saved.saturating_add(gained).min(saved_max(self.rate));
        self.at_ms = self.at_ms.max(now_ms);
    }

    fn next(&mut self) -> Option<(String, Lane, u64)> {
        let (org, mut lanes) = self.orgs.take()?;
        let (lane, mut draw) = lanes.take()?;
        let seat = draw.take(&mut self.random)?;
        self.waiting -= 1;
        if !draw.all.is_empty() {
            lanes.put_back(lane.clone(), draw);
        }
        if !lanes.order.is_empty() {
            self.orgs.put_back(org.clone(), lanes);
        }
        Some((org, lane, seat))
    }
}

/// A quarter of a second's turns may be taken at once: a few listeners are hinted without a delay.
fn saved_max(rate: u64) -> u64 {
    (rate * TURN / 4).max(TURN)
}

impl<K, V> Default for Turns<K, V> {
    fn default() -> Self {
        Turns { order: VecDeque::new(), by_key: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash, V: Default> Turns<K, V> {
    /// The value of a key. A new one has its turn after all others.
    fn of<Q: ToOwned<Owned = K> + Eq + Hash + ?Sized>(&mut self, key: &Q) -> &mut V
    where
        K: std::borrow::Borrow<Q>,
    {
        if !self.by_key.contains_key(key) {
            self.order.push_back(key.to_owned());
        }
        self.by_key.entry(key.to_owned()).or_default()
    }

    fn take(&mut self) -> Option<(K, V)> {
        let key = self.order.pop_front()?;
        let value = self.by_key.remove(&key)?;
        Some((key, value))
    }

    fn put_back(&mut self, key: K, value: V) {
        self.order.push_back(key.clone());
        self.by_key.insert(key, value);
    }
}

impl Draw {
    fn take(&mut self, random: &mut u64) -> Option<u64> {
        if self.present.is_empty() {
            std::mem::swap(&mut self.present, &mut self.later);
        }
        if self.present.is_empty() {
            return None;
        }
        let seat = self.present.swap_remove((mixed(random) % self.present.len() as u64) as usize);
        self.all.remove(&seat);
        Some(seat)
    }
}

/// SplitMix64: an order that nobody need be unable to guess.
fn mixed(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
