//! The journal on the device: history, the sweeper, damage, incognito.

use std::collections::{BTreeMap, BTreeSet};

use escale::Code;
use escale::crypto::SeededRandom;
use escale::journal::{ActionType, Policy, Retention, iso8601};
use escale::store::Table;
use escale::sync::{Effect, Event, Mode};

use super::driver::{Driver, server};

#[test]
fn the_history_tells_the_past_states() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Ask);
    driver.subscribe(&mut server);
    for n in 1..4 {
        driver.patch(0, &[("n", n)]);
        driver.settle(&mut server);
    }
    driver.feed(Event::Network(false));
    driver.patch(0, &[("n", 4)]);
    let mut driver = driver.reopen(Mode::Avion, Policy::Ask);
    let states: Vec<(i64, bool)> = driver
        .history(0)
        .into_iter()
        .filter(|(_, action)| action.kind == ActionType::Persist)
        .map(|(_, action)| {
            let map = action.data.expect("a state").to_map().expect("a map");
            (map["n"].as_f64().expect("a number") as i64, action.commit.is_some())
        })
        .collect();
    assert_eq!(states, [(1, true), (2, true), (3, true), (4, false)]);
    assert!(driver.history(1).is_empty());
}

/// No sequence of sweeps loses an action that the server has not accepted, or an actor's last state.
#[test]
fn sweeps_lose_nothing_that_counts() {
    for seed in 0..40 {
        let mut random = SeededRandom::new(seed);
        let mut server = server(4);
        let mut driver = Driver::new(0, Mode::Synced, Policy::Ask);
        driver.subscribe(&mut server);
        let mut last: BTreeMap<usize, i64> = BTreeMap::new();
        let mut all: BTreeSet<i64> = BTreeSet::new();
        for n in 0..120 {
            driver.now += 1 + random.next_u64() % 60_000;
            let number = random.next_u64() as usize % 4;
            match random.next_u64() % 8 {
                0 => driver.feed(Event::Network(false)),
                1 => {
                    driver.feed(Event::Network(true));
                    driver.settle(&mut server);
                }
                2 | 3 => {
                    let count = 1 + (random.next_u64() % 4) as u32;
                    let before = iso8601(driver.now - random.next_u64() % 3_000_000);
                    let retention = match random.next_u64() % 3 {
                        0 => Retention::Count(count),
                        1 => Retention::Before(before),
                        _ => Retention::Days { max: count, before },
                    };
                    let told = driver.sweep(retention.clone(), false).expect("a rule");
                    let removed = driver.sweep(retention, true).expect("a rule");
                    assert_eq!(told, removed, "seed {seed}: a dry run tells what the real one removes");
                    assert!(removed.iter().all(|row| all.insert(*row)), "seed {seed}: each row once");
                }
                4 if random.next_u64().is_multiple_of(4) => driver = driver.reopen(Mode::Synced, Policy::Ask),
                _ => {
                    driver.patch(number, &[("n", n)]);
                    last.insert(number, n);
                }
            }
            let pending: BTreeSet<i64> = driver
                .machine
                .operations()
                .iter()
                .flat_map(|(op, _)| op.actions.iter().map(|action| action.rowid))
                .collect();
            assert!(pending.is_disjoint(&all), "seed {seed}: what is pending was swept");
        }
        for (number, n) in &last {
            let history = driver.history(*number);
            let mut states = history.iter().filter(|(_, action)| action.kind == ActionType::Persist);
            let state = states.next_back().and_then(|(_, action)| action.data.clone()).expect("a state");
            assert_eq!(
                state.to_map().expect("a map")["n"],
                (*n).into(),
                "seed {seed}: the last state of {number}"
            );
            assert!(
                history.iter().all(|(_, action)| !all.contains(&action.rowid)),
                "seed {seed}: swept, and there"
            );
        }
        let kept = driver.reopen(Mode::Avion, Policy::Ask);
        assert!(
            !kept.machine.status().error.is_some_and(|error| error.code() == Code::LocalDataLost),
            "seed {seed}"
        );
    }
}

#[test]
fn a_damaged_record_is_told_and_the_others_go_on() {
    for how in 0..2 {
        let mut server = server(3);
        let mut driver = Driver::new(0, Mode::Synced, Policy::Ask);
        driver.subscribe(&mut server);
        driver.feed(Event::Network(false));
        for number in 0..3 {
            driver.add(number, 1);
        }
        let name = driver.store_name();
        driver.device.tamper(&name, |records| {
            let victim = *records.keys().find(|(table, _)| *table == Table::Journal).expect("a record");
            match how {
                0 => records.get_mut(&victim).expect("a record")[40] ^= 1,
                _ => drop(records.remove(&victim)),
            }
        });
        let mut driver = driver.reopen(Mode::Synced, Policy::Ask);
        let status = driver.machine.status();
        assert_eq!(status.error.map(|error| error.code()), Some(Code::LocalDataLost));
        assert_eq!(status.pending, 2);
        driver.settle(&mut server);
        assert_eq!(server.db.operations.executed.len(), 2);
        // It was told once: what is at rest is whole again.
        let driver = driver.reopen(Mode::Synced, Policy::Ask);
        assert!(driver.machine.status().error.is_none(), "{:?}", driver.machine.status());
    }
}

#[test]
fn in_incognito_an_operation_is_saved_in_memory_at_once() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Incognito, Policy::Ask);
    driver.subscribe(&mut server);
    let id = driver.add(0, 1);
    assert!(matches!(&driver.told[..], [Effect::Saved { id: saved }] if *saved == id), "{:?}", driver.told);
    driver.settle(&mut server);
    assert_eq!(driver.seen(0, "n"), Some(1));
    assert_eq!(driver.history(0).len(), 2);
    driver.add(0, 1);
    driver.settle(&mut server);
    driver.told.clear();
    assert_eq!(driver.sweep(Retention::Count(1), true).expect("a rule").len(), 3);
    assert_eq!(driver.history(0).len(), 1);
}
