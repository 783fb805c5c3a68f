//! The journal on the device: history, damage, incognito.

use std::collections::BTreeMap;

use escale::Code;
use escale::journal::{Action, ActionType, Policy, Retention};
use escale::store::Table;
use escale::sync::{Effect, Event, Mode, StorageState};

use super::driver::{Driver, server};
use escale_testkit::backend::Backend;

#[test]
fn the_history_tells_the_past_states() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    for n in 1..4 {
        driver.patch(0, &[("n", n)]);
        driver.settle(&mut server);
    }
    driver.feed(Event::Network(false));
    driver.patch(0, &[("n", 4)]);
    let mut driver = driver.reopen(Mode::Avion, Policy::Overwrite);
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

/// A long journal is not read for one document: only the records that tell of it are.
#[test]
fn the_history_reads_the_records_of_its_document_alone() {
    let mut server = server(4);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    for number in [0, 1, 2, 1] {
        driver.patch(number, &[("n", 1)]);
        driver.settle(&mut server);
    }
    let mut driver = driver.reopen(Mode::Avion, Policy::Overwrite);
    for (number, records) in [(0, 1), (1, 2), (2, 1), (3, 0)] {
        let before = driver.hooks.records_read;
        driver.history(number);
        assert_eq!(driver.hooks.records_read - before, records, "document {number}");
    }
}

/// Accepted operations were missing from the history until their records had been rewritten: while the batch
/// was in progress, and on a full device, where they still counted as waiting.
#[test]
fn the_history_tells_what_was_accepted_and_is_not_written_yet() {
    let states = |driver: &mut Driver| -> Vec<(i64, bool)> {
        let persisted = |(_, action): &(String, Action)| action.kind == ActionType::Persist;
        let state = |action: Action| {
            let n = action.data.expect("a state").to_map().expect("a map")["n"].as_f64().expect("a number");
            (n as i64, action.commit.is_some())
        };
        driver.history(0).into_iter().filter(persisted).map(|(_, action)| state(action)).collect()
    };
    for is_full in [false, true] {
        let mut server = server(1);
        let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
        driver.subscribe(&mut server);
        for n in 1..4 {
            driver.patch(0, &[("n", n)]);
            if is_full {
                driver.hooks.is_full = true;
            } else {
                driver.hooks.holds_commits_back = true;
            }
            driver.settle(&mut server);
            let told: Vec<(i64, bool)> = (1..=n).map(|n| (n, true)).collect();
            assert_eq!(states(&mut driver), told, "accepted");
            driver.hooks.is_full = false;
            driver.hooks.holds_commits_back = false;
            while !driver.held.is_empty() {
                driver.make_held();
            }
            driver.wait(60_000);
            assert_eq!(states(&mut driver), told, "written");
        }
    }
}

#[test]
fn a_damaged_record_is_told_and_the_others_go_on() {
    for how in 0..2 {
        let mut server = server(3);
        let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
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
        // The copy in the backup database would restore it.
        driver.device.tamper_copies(&name, BTreeMap::clear);
        let mut driver = driver.reopen(Mode::Synced, Policy::Overwrite);
        let status = driver.machine.status();
        assert_eq!(status.error.map(|error| error.code()), Some(Code::LocalDataLost));
        assert_eq!((status.pending, status.storage), (2, StorageState::Lost));
        driver.settle(&mut server);
        assert_eq!(server.db.operations.executed.len(), 2);
        // It was reported once: the stored records are whole again.
        let driver = driver.reopen(Mode::Synced, Policy::Overwrite);
        assert!(driver.machine.status().error.is_none(), "{:?}", driver.machine.status());
    }
}

#[test]
fn in_incognito_an_operation_is_saved_in_memory_at_once() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Incognito, Policy::Overwrite);
    driver.subscribe(&mut server);
    let id = driver.add(0, 1);
    assert!(
        matches!(&driver.hooks.told[..], [Effect::Saved { id: saved }] if *saved == id),
        "{:?}",
        driver.hooks.told
    );
    driver.settle(&mut server);
    assert_eq!(driver.seen(0, "n"), Some(1));
    assert_eq!(driver.history(0).len(), 2);
    driver.add(0, 1);
    driver.settle(&mut server);
    driver.hooks.told.clear();
    assert_eq!(driver.sweep(Retention::Count(1), true).expect("a rule").len(), 3);
    assert_eq!(driver.history(0).len(), 1);
}

/// A session that was open for long grew with everything that it had ever written, even if a sweep had
/// removed it. Entries that the device no longer holds must be forgotten, as after an opening.
#[test]
fn a_sweep_forgets_what_it_removes() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    server.back_up();
    let ids: Vec<String> = (1..6)
        .map(|n| {
            let id = driver.patch(0, &[("n", n)]);
            driver.settle(&mut server);
            id
        })
        .collect();
    assert_eq!(driver.sweep(Retention::Count(1), true).expect("a rule").len(), 9);
    assert!(server.restore(driver.now));
    driver.wait(600_000);
    driver.settle(&mut server);
    let answered = driver.sent.take().is_none();
    assert!(
        answered && driver.machine.lost_by_server() == &ids[4..],
        "{:?}",
        driver.machine.lost_by_server()
    );
}
