//! The limits of attempts, on a clock that the tests set.

use std::net::IpAddr;

use super::*;

const ADA: (&str, &str) = ("o", "ada");

fn here() -> Network {
    from([10, 0, 0, 1])
}

fn there() -> Network {
    from([10, 0, 0, 2])
}

fn from(address: impl Into<IpAddr>) -> Network {
    Network::of(address.into())
}

/// Failures whose tables have so much room.
fn with_room(entries_max: usize) -> Failures {
    let failures = Failures::default();
    lock(&failures.strangers).entries_max = entries_max;
    lock(&failures.owners).entries_max = entries_max;
    failures
}

fn entries(failures: &Failures) -> usize {
    lock(&failures.strangers).entries.len()
}

fn seconds<T>(result: Result<T, Late>) -> u64 {
    result.err().unwrap().seconds
}

#[test]
fn five_failures_are_free_and_each_further_one_doubles_the_wait() {
    let (failures, mut now) = (Failures::default(), 0);
    for _ in 0..4 {
        drop(failures.begin(ADA, here(), now).unwrap());
    }
    for wait in [15, 30, 60, 120, 240, 480, 900, 900] {
        drop(failures.begin(ADA, here(), now).unwrap());
        assert_eq!(seconds(failures.begin(ADA, here(), now)), wait);
        failures.begin(ADA, there(), now).expect("another address is not kept out").succeeded();
        now += wait * 1_000;
    }
    failures.begin(ADA, here(), now).unwrap().succeeded();
    for _ in 0..5 {
        failures.begin(ADA, here(), now).unwrap().undo();
    }
    failures.begin(ADA, here(), now).expect("attempts that were taken back do not count").undo();
}

#[test]
fn a_hundred_failures_of_a_login_end_its_hour_from_all_addresses() {
    let failures = Failures::default();
    for n in 0..100_u8 {
        drop(failures.begin(ADA, from([10, 1, 0, n]), 0).unwrap());
    }
    assert_eq!(seconds(failures.begin(ADA, there(), 0)), 3_600);
    drop(failures.begin(("o", "bob"), there(), 0).unwrap());
    drop(failures.begin(ADA, there(), HOUR_MS).unwrap());
}

#[test]
fn a_network_fails_three_hundred_times_an_hour_whatever_the_logins() {
    let failures = Failures::default();
    for n in 0..NETWORK_MAX {
        drop(failures.begin(("o", &n.to_string()), here(), 0).unwrap());
    }
    assert_eq!(seconds(failures.begin(("o", "next"), here(), 0)), 3_600);
    drop(failures.begin(("o", "next"), there(), 0).unwrap());
    drop(failures.begin(("o", "next"), here(), HOUR_MS).unwrap());
}

#[test]
fn an_address_makes_ten_accounts_an_hour() {
    let failures = Failures::default();
    for _ in 0..SIGN_UPS_MAX {
        failures.sign_up(here(), 0).unwrap();
    }
    assert!(failures.sign_up(here(), 0).is_err());
    failures.sign_up(there(), 0).unwrap();
    failures.sign_up(here(), HOUR_MS).unwrap();
}

#[test]
fn the_addresses_of_a_network_count_together_and_so_do_the_networks_of_a_site() {
    let failures = Failures::default();
    for n in 0..u16::try_from(SIGN_UPS_MAX).unwrap() {
        failures.sign_up(from([0x2001, 0xdb8, 0, 1, 0, 0, 0, n]), 0).unwrap();
    }
    assert!(failures.sign_up(from([0x2001, 0xdb8, 0, 1, 9, 9, 9, 9]), 0).is_err());
    for n in 0..u16::try_from(SIGN_UPS_OF_SITE_MAX - SIGN_UPS_MAX).unwrap() {
        failures.sign_up(from([0x2001, 0xdb8, 0, 2 + n, 0, 0, 0, 0]), 0).unwrap();
    }
    assert!(failures.sign_up(from([0x2001, 0xdb8, 0, 0xfff, 0, 0, 0, 0]), 0).is_err());
    failures.sign_up(from([0x2001, 0xdb8, 1, 1, 0, 0, 0, 0]), 0).unwrap();
    for n in 0..u16::try_from(SITE_MAX).unwrap() {
        drop(failures.begin(("o", &n.to_string()), from([0x2001, 0xdb8, 2, n, 0, 0, 0, 0]), 0).unwrap());
    }
    assert!(failures.begin(ADA, from([0x2001, 0xdb8, 2, 0xfff, 0, 0, 0, 0]), 0).is_err());
}

/// A flood of attempts on made-up logins once cleared the counts of a login that was being guessed.
#[test]
fn a_flood_of_attempts_flushes_no_count_and_memory_is_bounded() {
    let failures = with_room(1_000);
    for _ in 0..FREE {
        drop(failures.begin(ADA, here(), 0).unwrap());
    }
    for _ in 0..SIGN_UPS_MAX {
        failures.sign_up(here(), 0).unwrap();
    }
    let mut refused = 0;
    for n in 0..20_000_u32 {
        let [_, b, c, d] = n.to_be_bytes();
        let now = u64::from(n) / 100;
        refused += u32::from(failures.begin(("o", &n.to_string()), from([11, b, c, d]), now).is_err());
        assert!(entries(&failures) <= 1_000);
        assert!(failures.begin(ADA, here(), now).is_err(), "after {n} of the flood");
        assert!(failures.sign_up(here(), now).is_err(), "after {n} of the flood");
    }
    assert!(refused > 19_000, "{refused} refused, as the table has no room");
    // Entries that have ended make room by themselves.
    drop(failures.begin(("o", "eve"), there(), 2 * HOUR_MS).unwrap());
    assert!(entries(&failures) <= 4);
}

#[test]
fn what_is_taken_back_leaves_no_entry() {
    let failures = Failures::default();
    for n in 0..1_000_u32 {
        let six = from([0x2001, 0xdb8, 0, 1, 0, 0, 0, 0]);
        failures.begin(("o", &n.to_string()), six, 0).unwrap().undo();
        failures.begin(("o", &n.to_string()), here(), 0).unwrap().succeeded();
        failures.begin_by(("o", &n.to_string()), 0).unwrap().succeeded();
    }
    assert_eq!(entries(&failures) + lock(&failures.owners).entries.len(), 0);
}

/// The bearer of a token is counted before its proof is looked at: a thousand at once are not all looked at.
#[test]
fn a_token_has_a_hundred_failures_an_hour_also_at_once_and_in_a_flood_of_strangers() {
    let failures = with_room(300);
    for n in 0..1_000_u32 {
        let [_, b, c, d] = n.to_be_bytes();
        drop(failures.begin(("o", &n.to_string()), from([11, b, c, d]), 0));
    }
    assert!(failures.begin(ADA, here(), 0).is_err(), "the strangers' table is full");
    let under_way: Vec<_> = (0..LOGIN_MAX).map(|_| failures.begin_by(("o", "token"), 0).unwrap()).collect();
    assert_eq!(seconds(failures.begin_by(("o", "token"), 0)), 3_600);
    drop(failures.begin_by(("o", "other"), 0).unwrap());
    under_way.into_iter().next().unwrap().succeeded();
    drop(failures.begin_by(("o", "token"), 0).unwrap());
}

#[test]
fn a_network_asks_three_hundred_times_a_minute() {
    let failures = Failures::default();
    for _ in 0..ASKED_MAX {
        failures.asked(here(), 30_000).unwrap();
    }
    assert_eq!(seconds(failures.asked(here(), 30_000)), 30);
    failures.asked(here(), MINUTE_MS).unwrap();
    // Another network shares the cell once in 16,384 cases: of many, most do not.
    for _ in 1..ASKED_MAX {
        failures.asked(here(), MINUTE_MS).unwrap();
    }
    assert!(failures.asked(here(), MINUTE_MS).is_err());
    let others = (0..100_u8).filter(|n| failures.asked(from([12, 0, 0, *n]), MINUTE_MS).is_ok());
    assert!(others.count() >= 95);
    assert_eq!(lock(&failures.asked).cells.len() as u64, CELLS);
}
