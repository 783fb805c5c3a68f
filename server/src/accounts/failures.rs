//! The limits of attempts (R74). They are of one instance, in memory, and bounded.
//!
//! They count by login and network first, so a stranger elsewhere cannot keep an owner out. Requests with a valid token
//! are not limited: a session that renews its token carries the old one.
//!
//! Strangers cannot make it forget a count before its time. An attempt counts once its form and its challenge are right, and
//! a network has a limit of its own. A table without room takes no new entry: an attempt that needs one has to wait.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Mutex;

use super::network::Network;
use crate::lock::lock;

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// How long failures of a login from a network count, and the longest wait.
const WINDOW_MS: u64 = 15 * MINUTE_MS;

/// Failures of one login from one network that are free.
const FREE: u32 = 5;

/// Failures of one login in an hour from everywhere; of the bearer of one token, too.
const LOGIN_MAX: u32 = 100;

/// Failures from one network in an hour, and from one site, of all logins.
const NETWORK_MAX: u32 = 300;
const SITE_MAX: u32 = 4 * NETWORK_MAX;

/// Accounts made from one network in an hour, and from one site.
const SIGN_UPS_MAX: u32 = 10;
const SIGN_UPS_OF_SITE_MAX: u32 = 4 * SIGN_UPS_MAX;

/// Other requests of strangers from one network in a minute.
const ASKED_MAX: u32 = 300;

/// Entries of a table in memory. To fill it takes as many failures as some hundred networks may have.
const ENTRIES_MAX: usize = 200_000;

/// Cells of [`Asked`].
const CELLS: u64 = 1 << 14;

/// How often a full table is searched for entries that have ended: a search takes milliseconds.
const SWEEP_MS: u64 = 1_000;

/// The attempt comes too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// Seconds until the next one may come.
    pub seconds: u64,
}

/// The attempts that an entry bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// A login from a network: some failures are free, each further one doubles the wait.
    Pair,
    /// So many in an hour.
    Hour(u32),
}

#[derive(Clone, Copy, Default)]
struct Entry {
    count: u32,
    /// When its count ends.
    until: u64,
    /// Before this time nothing is taken.
    closed_until: u64,
}

/// Entries of which none is dropped before its time, unless its count is taken back.
struct Table {
    entries: HashMap<u64, Entry>,
    entries_max: usize,
    swept_ms: Option<u64>,
    /// No entry ended earlier, at the last sweep.
    first_end: u64,
}

/// The requests of each network in the current minute. Networks that fall on one cell share it, so there is nothing that
/// strangers could fill.
#[derive(Default)]
struct Asked {
    minute: u64,
    cells: Vec<u32>,
}

/// The failed attempts that an instance remembers.
#[derive(Default)]
pub struct Failures {
    strangers: Mutex<Table>,
    /// Entries of tokens, which strangers do not have: a flood of strangers leaves their room free.
    owners: Mutex<Table>,
    asked: Mutex<Asked>,
    /// Strangers choose logins: they must not choose keys of the table.
    hasher: RandomState,
}

/// An attempt that counts as a failure, unless it is taken back.
#[must_use]
pub struct Attempt<'f> {
    table: &'f Mutex<Table>,
    counted: Vec<(u64, Bound)>,
}

impl Failures {
    /// Counts an attempt on a login from a network, as if it had failed, if it may be looked at now: many at once must not
    /// all pass.
    pub fn begin(&self, (org, login): (&str, &str), from: Network, now_ms: u64) -> Result<Attempt<'_>, Late> {
        let mut keys = vec![
            (self.key(&("pair", org, login, from)), Bound::Pair),
            (self.key(&("login", org, login)), Bound::Hour(LOGIN_MAX)),
            (self.key(&("network", from)), Bound::Hour(NETWORK_MAX)),
        ];
        keys.extend(from.site().map(|site| (self.key(&("site", site)), Bound::Hour(SITE_MAX))));
        take(&self.strangers, keys, now_ms)
    }

    /// The same for the bearer of a token of that login. A token that has had its hundred failures of an hour spares its
    /// bearer the limits no more.
    pub fn begin_by(&self, (org, token): (&str, &str), now_ms: u64) -> Result<Attempt<'_>, Late> {
        let keys = vec![(self.key(&("token", org, token)), Bound::Hour(LOGIN_MAX))];
        take(&self.owners, keys, now_ms)
    }

    /// Counts an account that is made from a network.
    pub fn sign_up(&self, from: Network, now_ms: u64) -> Result<(), Late> {
        let mut keys = vec![(self.key(&("sign-up", from)), Bound::Hour(SIGN_UPS_MAX))];
        let of_site = Bound::Hour(SIGN_UPS_OF_SITE_MAX);
        keys.extend(from.site().map(|site| (self.key(&("sign-up", site)), of_site)));
        take(&self.strangers, keys, now_ms).map(drop)
    }

    /// Counts a request of a stranger that guesses no passphrase.
    pub fn asked(&self, from: Network, now_ms: u64) -> Result<(), Late> {
        let mut asked = lock(&self.asked);
        let minute = now_ms / MINUTE_MS;
        if asked.minute != minute || asked.cells.is_empty() {
            *asked = Asked { minute, cells: vec![0; CELLS as usize] };
        }
        let cell = self.key(&("asked", from)) % CELLS;
        let Some(count) = asked.cells.get_mut(cell as usize) else { return Ok(()) };
        *count = count.saturating_add(1);
        if *count <= ASKED_MAX { Ok(()) } else { late((minute + 1) * MINUTE_MS, now_ms) }
    }

    fn key(&self, of: &impl Hash) -> u64 {
        self.hasher.hash_one(of)
    }
}

impl Attempt<'_> {
    /// Takes it back: it showed nothing of the secret.
    pub fn undo(self) {
        let mut table = lock(self.table);
        self.counted.iter().for_each(|&(key, bound)| table.take_back(key, bound));
    }

    /// Takes it back, and forgets the failures of the login from this network: its owner has come in.
    pub fn succeeded(self) {
        let mut table = lock(self.table);
        for &(key, bound) in &self.counted {
            match bound {
                Bound::Pair => drop(table.entries.remove(&key)),
                Bound::Hour(_) => table.take_back(key, bound),
            }
        }
    }
}

fn late(closed_until: u64, now_ms: u64) -> Result<(), Late> {
    match closed_until.saturating_sub(now_ms) {
        0 => Ok(()),
        ms => Err(Late { seconds: ms.div_ceil(1_000) }),
    }
}

fn take(table: &Mutex<Table>, keys: Vec<(u64, Bound)>, now_ms: u64) -> Result<Attempt<'_>, Late> {
    lock(table).take(&keys, now_ms)?;
    Ok(Attempt { table, counted: keys })
}

impl Bound {
    /// How long a first count lasts.
    fn window_ms(self) -> u64 {
        match self {
            Bound::Pair => WINDOW_MS,
            Bound::Hour(_) => HOUR_MS,
        }
    }

    /// The count at which an entry closes.
    fn full(self) -> u32 {
        match self {
            Bound::Pair => FREE,
            Bound::Hour(most) => most,
        }
    }
}

impl Default for Table {
    fn default() -> Self {
        Table { entries: HashMap::new(), entries_max: ENTRIES_MAX, swept_ms: None, first_end: 0 }
    }
}

impl Table {
    /// Counts one in each of these entries, or in none.
    fn take(&mut self, keys: &[(u64, Bound)], now_ms: u64) -> Result<(), Late> {
        let closed = keys.iter().filter_map(|(key, _)| self.entries.get(key)).map(|entry| entry.closed_until);
        late(closed.max().unwrap_or(0), now_ms)?;
        self.make_room(keys, now_ms)?;
        for (key, bound) in keys {
            self.count(*key, *bound, now_ms);
        }
        Ok(())
    }

    fn count(&mut self, key: u64, bound: Bound, now_ms: u64) {
        let entry = self.entries.entry(key).or_default();
        if entry.until <= now_ms {
            *entry = Entry { count: 0, until: now_ms + bound.window_ms(), closed_until: 0 };
        }
        entry.count = entry.count.saturating_add(1);
        if entry.count < bound.full() {
            return;
        }
        match bound {
            Bound::Pair => {
                // 15 s, then twice as long each time.
                let wait = (15_000_u64 << (entry.count - FREE).min(6)).min(WINDOW_MS);
                entry.closed_until = now_ms + wait;
                entry.until = entry.until.max(now_ms + wait + WINDOW_MS);
            }
            Bound::Hour(_) => entry.closed_until = entry.until,
        }
    }

    fn take_back(&mut self, key: u64, bound: Bound) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.count = entry.count.saturating_sub(1);
        if entry.count < bound.full() {
            entry.closed_until = 0;
        }
        if entry.count == 0 {
            self.entries.remove(&key);
        }
    }

    /// Makes room for those of these entries that are not there. Only entries that have ended go.
    fn make_room(&mut self, keys: &[(u64, Bound)], now_ms: u64) -> Result<(), Late> {
        let new = keys.iter().filter(|(key, _)| !self.entries.contains_key(key)).count();
        if new == 0 || self.entries.len() + new <= self.entries_max {
            return Ok(());
        }
        // The clock may have been set back.
        let is_fresh = |swept: u64| (swept..swept.saturating_add(SWEEP_MS)).contains(&now_ms);
        if !self.swept_ms.is_some_and(is_fresh) {
            self.swept_ms = Some(now_ms);
            self.entries.retain(|_, entry| entry.until > now_ms);
            self.first_end = self.entries.values().map(|entry| entry.until).min().unwrap_or(now_ms);
        }
        if self.entries.len() + new <= self.entries_max {
            return Ok(());
        }
        Err(Late { seconds: self.first_end.saturating_sub(now_ms).div_ceil(1_000).max(1) })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
