//! The limits of attempts (R74). They are of one instance, in memory, and bounded.
//!
//! They count by login and address first, so a stranger elsewhere cannot keep an owner out. Requests with a valid token
//! are not limited: a session that renews its token carries the old one.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// Failures of one login from one address that are free.
const FREE: u32 = 5;

/// How long failures count, and the longest wait.
const WINDOW_MS: u64 = 15 * MINUTE_MS;

/// Failures of one login in an hour, from all addresses.
const LOGIN_MAX: u32 = 100;

/// Accounts made from one address in an hour.
const SIGN_UPS_MAX: u32 = 10;

/// Entries in memory. Beyond them, those that end first go first.
const ENTRIES_MAX: usize = 50_000;

/// The attempt comes too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// Seconds until the next one may come.
    pub seconds: u64,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    count: u32,
    /// When its count ends.
    until: u64,
    /// Before this time nothing is taken.
    closed_until: u64,
}

/// The failed attempts that an instance remembers.
#[derive(Default)]
pub struct Failures {
    entries: Mutex<HashMap<u64, Entry>>,
    /// Strangers choose logins: they must not choose keys of the table.
    hasher: RandomState,
}

impl Failures {
    /// Counts an attempt on a login from an address, as if it had failed, if it may be looked at now.
    pub fn begin(&self, (org, login): (&str, &str), from: IpAddr, now_ms: u64) -> Result<(), Late> {
        let (pair, all) = self.keys((org, login), from);
        let mut entries = self.lock();
        let until = |key| entries.get(&key).copied().unwrap_or_default().closed_until;
        late(until(pair).max(until(all)), now_ms)?;
        make_room(&mut entries, now_ms);
        let entry = counted(&mut entries, pair, now_ms, WINDOW_MS);
        if entry.count >= FREE {
            // 15 s, then twice as long each time.
            let wait = (15_000_u64 << (entry.count - FREE).min(6)).min(WINDOW_MS);
            entry.closed_until = now_ms + wait;
            entry.until = entry.until.max(now_ms + wait + WINDOW_MS);
        }
        close_if_full(counted(&mut entries, all, now_ms, HOUR_MS));
        Ok(())
    }

    /// Takes an attempt back that showed nothing of the secret.
    pub fn undo(&self, of: (&str, &str), from: IpAddr) {
        let (pair, all) = self.keys(of, from);
        let mut entries = self.lock();
        for (key, full) in [(pair, FREE), (all, LOGIN_MAX)] {
            if let Some(entry) = entries.get_mut(&key) {
                entry.count = entry.count.saturating_sub(1);
                if entry.count < full {
                    entry.closed_until = 0;
                }
            }
        }
    }

    /// Forgets the failures of a login from an address: its owner has come in.
    pub fn succeeded(&self, of: (&str, &str), from: IpAddr) {
        self.undo(of, from);
        let (pair, _) = self.keys(of, from);
        self.lock().remove(&pair);
    }

    /// Counts a failure of the bearer of a token.
    pub fn failed_by(&self, (org, token): (&str, &str), now_ms: u64) {
        let key = self.key(&(org, token));
        let mut entries = self.lock();
        make_room(&mut entries, now_ms);
        close_if_full(counted(&mut entries, key, now_ms, HOUR_MS));
    }

    /// Whether a token has had its hundred failures of an hour: it no longer spares its bearer the limits.
    pub fn is_spent(&self, (org, token): (&str, &str), now_ms: u64) -> bool {
        let entry = self.lock().get(&self.key(&(org, token))).copied().unwrap_or_default();
        late(entry.closed_until, now_ms).is_err()
    }

    /// Counts an account that is made from an address.
    pub fn sign_up(&self, from: IpAddr, now_ms: u64) -> Result<(), Late> {
        let key = self.key(&("sign-up", network(from)));
        let mut entries = self.lock();
        make_room(&mut entries, now_ms);
        let entry = counted(&mut entries, key, now_ms, HOUR_MS);
        if entry.count > SIGN_UPS_MAX {
            entry.closed_until = entry.until;
        }
        late(entry.closed_until, now_ms)
    }

    fn keys(&self, (org, login): (&str, &str), from: IpAddr) -> (u64, u64) {
        (self.key(&(org, login, network(from))), self.key(&(org, login)))
    }

    fn key(&self, of: &impl std::hash::Hash) -> u64 {
        self.hasher.hash_one(of)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The caller as limits see it: of IPv6, the network, whose addresses belong to one.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => {
            let [a, b, c, d, ..] = six.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
    }
}

fn close_if_full(entry: &mut Entry) {
    if entry.count >= LOGIN_MAX {
        entry.closed_until = entry.until;
    }
}

fn late(closed_until: u64, now_ms: u64) -> Result<(), Late> {
    match closed_until.saturating_sub(now_ms) {
        0 => Ok(()),
        ms => Err(Late { seconds: ms.div_ceil(1_000) }),
    }
}

fn counted(entries: &mut HashMap<u64, Entry>, key: u64, now_ms: u64, window: u64) -> &mut Entry {
    let entry = entries.entry(key).or_default();
    if entry.until <= now_ms {
        *entry = Entry { count: 0, until: now_ms + window, closed_until: 0 };
    }
    entry.count = entry.count.saturating_add(1);
    entry
}

fn make_room(entries: &mut HashMap<u64, Entry>, now_ms: u64) {
    if entries.len() < ENTRIES_MAX {
        return;
    }
    entries.retain(|_, entry| entry.until > now_ms);
    if entries.len() >= ENTRIES_MAX {
        let mut ends: Vec<u64> = entries.values().map(|entry| entry.until).collect();
        let middle = ends.len() / 2;
        let (_, median, _) = ends.select_nth_unstable(middle);
        let median = *median;
        // Those that keep somebody waiting stay as long as there is room: strangers must not flush them.
        entries.retain(|_, entry| entry.until > median || entry.closed_until > now_ms);
        if entries.len() >= ENTRIES_MAX {
            entries.retain(|_, entry| entry.until > median);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const ADA: (&str, &str) = ("o", "ada");

    #[test]
    fn five_failures_are_free_and_each_further_one_doubles_the_wait() {
        let (failures, mut now) = (Failures::default(), 0);
        for _ in 0..4 {
            assert_eq!(failures.begin(ADA, HERE, now), Ok(()));
        }
        for wait in [15, 30, 60, 120, 240, 480, 900, 900] {
            assert_eq!(failures.begin(ADA, HERE, now), Ok(()));
            assert_eq!(failures.begin(ADA, HERE, now), Err(Late { seconds: wait }));
            assert_eq!(failures.begin(ADA, THERE, now), Ok(()), "another address is not kept out");
            failures.succeeded(ADA, THERE);
            now += wait * 1_000;
        }
        failures.succeeded(ADA, HERE);
        for _ in 0..5 {
            assert_eq!(failures.begin(ADA, HERE, now), Ok(()));
            failures.undo(ADA, HERE);
        }
        assert_eq!(failures.begin(ADA, HERE, now), Ok(()), "attempts that were taken back do not count");
    }

    #[test]
    fn a_hundred_failures_of_a_login_end_its_hour_from_all_addresses() {
        let failures = Failures::default();
        for n in 0..100_u8 {
            assert_eq!(failures.begin(ADA, IpAddr::from([10, 1, 0, n]), 0), Ok(()));
        }
        assert_eq!(failures.begin(ADA, THERE, 0), Err(Late { seconds: 3_600 }));
        assert_eq!(failures.begin(("o", "bob"), THERE, 0), Ok(()));
        assert_eq!(failures.begin(ADA, THERE, HOUR_MS), Ok(()));
    }

    #[test]
    fn an_address_makes_ten_accounts_an_hour() {
        let failures = Failures::default();
        for _ in 0..SIGN_UPS_MAX {
            assert_eq!(failures.sign_up(HERE, 0), Ok(()));
        }
        assert!(failures.sign_up(HERE, 0).is_err());
        assert_eq!(failures.sign_up(THERE, 0), Ok(()));
        assert_eq!(failures.sign_up(HERE, HOUR_MS), Ok(()));
    }

    #[test]
    fn the_addresses_of_a_network_count_together() {
        let failures = Failures::default();
        for n in 0..u16::try_from(SIGN_UPS_MAX).unwrap() {
            assert_eq!(failures.sign_up(IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, n]), 0), Ok(()));
        }
        assert!(failures.sign_up(IpAddr::from([0x2001, 0xdb8, 0, 1, 9, 9, 9, 9]), 0).is_err());
        assert_eq!(failures.sign_up(IpAddr::from([0x2001, 0xdb8, 0, 2, 0, 0, 0, 0]), 0), Ok(()));
    }

    #[test]
    fn memory_is_bounded() {
        let failures = Failures::default();
        for n in 0..(3 * ENTRIES_MAX as u64) {
            assert_eq!(failures.begin(("o", &n.to_string()), HERE, n), Ok(()));
            assert!(failures.lock().len() <= ENTRIES_MAX + 2);
        }
    }
}
