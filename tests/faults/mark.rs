//! The high-water mark and the copy of the journal in the backup database. A store that is behind says so,
//! takes its operations from the copy, and pulls everything from scratch. Without the copy it reports how
//! many operations may be lost.

use std::collections::BTreeMap;

use escale::store::{BackupHeader, MemoryDevice, Table};
use escale::sync::StorageState;
use escale::{Code, Error};

use crate::check::check;
use crate::client::Client;
use crate::device::Plan;
use crate::scenarios::{Scenario, Step, whole};

/// A session with two operations that wait, and an older copy of its device without them.
fn with_two_waiting() -> (Client, Scenario, MemoryDevice) {
    let scenario = Scenario { beginning: 1, deed: 0 };
    let mut client = scenario.client(Plan::NONE);
    for step in scenario.steps() {
        client.take(step);
    }
    let copy = client.device.inner.snapshot();
    for step in [Step::Offline(true), Step::Add(1), Step::Patch(2), Step::Settle] {
        client.take(step);
    }
    assert_eq!(client.issued.values().filter(|saved| **saved).count(), 2);
    (client, scenario, copy)
}

/// Checks that the status reports two pending operations, `lost` of which may be lost.
fn told(client: &Client, lost: u64) -> Error {
    let status = client.machine().status();
    assert_eq!(status.damaged.operations, lost, "how many may be lost");
    assert!(lost == 0 || status.storage == StorageState::Lost);
    let error = status.error.expect("a loss is told");
    assert_eq!(error.code(), Code::LocalDataLost);
    assert!(error.detail().contains("2 operations were pending"), "{error}");
    error
}

/// Removes the copy of the journal, as if it had never been written.
fn without_copies(client: &Client) {
    client.device.inner.tamper_copies(&Client::store_name(), BTreeMap::clear);
}

#[test]
fn a_store_that_is_gone_takes_its_operations_from_the_copy() {
    let (mut client, scenario, _) = with_two_waiting();
    let session = client.machine().session().to_owned();
    let (epoch, _) = client.machine().memory().epoch();
    let epoch = epoch.expect("the server has told it").clone();
    client.die();
    client.device.inner.put_back(&Client::store_name(), &MemoryDevice::new());
    client.open();
    told(&client, 0);
    assert_eq!(client.machine().memory().epoch().0, Some(&epoch), "what waits is of that epoch (R8)");
    assert_eq!(client.machine().status().pending, 2, "both wait");
    assert_eq!(client.machine().session(), session, "the server knows it by this name");
    assert_eq!(client.machine().memory().collections().count(), 0, "the server tells the rest again");
    client.take(Step::Subscribe(0));
    check(&mut client, scenario, false, "gone");
}

#[test]
fn a_store_that_is_gone_with_its_database_begins_again_in_avion_too() {
    let (mut client, scenario, _) = with_two_waiting();
    client.die();
    client.device.inner.vanish(&Client::store_name());
    client.makes_none = true;
    client.open();
    told(&client, 0);
    assert_eq!(client.machine().status().pending, 2, "both wait");
    client.take(Step::Subscribe(0));
    check(&mut client, scenario, false, "vanished");
}

/// The copy is written with relaxed durability. Operations reported as saved are durable in the store alone.
#[test]
fn r10_what_is_saved_outlives_a_loss_of_power_that_takes_the_copy_too() {
    let (mut client, scenario, _) = with_two_waiting();
    client.die();
    client.device.inner.lose_power(&Client::store_name(), 8);
    client.open();
    let status = client.machine().status();
    assert_eq!((status.pending, status.damaged.operations), (2, 0), "both wait");
    check(&mut client, scenario, false, "without power");
}

/// A browser that finds its database damaged makes an empty one. The next time, the other database may be
/// damaged.
#[test]
fn a_store_that_goes_again_and_again_loses_nothing() {
    let (mut client, scenario, _) = with_two_waiting();
    for time in 0..6 {
        client.die();
        if time % 2 == 0 {
            client.device.inner.put_back(&Client::store_name(), &MemoryDevice::new());
        } else {
            without_copies(&client);
            client.device.inner.tamper_backup(&Client::store_name(), |backup_header| {
                *backup_header = BackupHeader::default()
            });
        }
        client.open();
        client.take(Step::Settle);
        assert_eq!(client.machine().status().pending, 2 + time, "time {time}");
        client.take(Step::Add(1));
    }
    client.take(Step::Subscribe(0));
    check(&mut client, scenario, false, "again and again");
}

#[test]
fn without_the_copy_a_store_that_is_gone_tells_how_many_operations_were_pending() {
    let (mut client, scenario, _) = with_two_waiting();
    client.die();
    client.device.inner.put_back(&Client::store_name(), &MemoryDevice::new());
    without_copies(&client);
    client.open();
    told(&client, 2);
    assert_eq!(client.machine().memory().collections().count(), 0, "nothing is left");
    client.take(Step::Subscribe(0));
    check(&mut client, scenario, true, "gone");
}

#[test]
fn a_copy_with_a_damaged_record_is_not_believed() {
    let (mut client, scenario, _) = with_two_waiting();
    client.die();
    client.device.inner.put_back(&Client::store_name(), &MemoryDevice::new());
    client.device.inner.tamper_copies(&Client::store_name(), |journal| {
        journal.values_mut().next().expect("a record")[30] ^= 1;
    });
    client.open();
    told(&client, 2);
    client.take(Step::Subscribe(0));
    check(&mut client, scenario, true, "a damaged copy");
}

#[test]
fn a_journal_record_that_is_damaged_is_taken_from_the_copy() {
    for is_gone in [false, true] {
        let (mut client, scenario, _) = with_two_waiting();
        client.die();
        client.device.inner.tamper(&Client::store_name(), |records| {
            let key = *records.keys().find(|(table, _)| *table == Table::Journal).expect("a record");
            if is_gone {
                records.remove(&key);
            } else {
                records.get_mut(&key).expect("found")[30] ^= 1;
            }
        });
        client.open();
        assert!(!client.damage.any(), "{:?}", client.damage);
        check(&mut client, scenario, false, "a damaged record");
    }
}

/// Rows of the server do not update the mark. The copy still has the whole journal.
#[test]
fn a_late_mark_has_the_journal_that_the_store_lost() {
    let scenario = Scenario { beginning: 1, deed: 0 };
    let mut client = scenario.client(Plan::NONE);
    for step in scenario.steps().into_iter().chain([Step::Patch(2), Step::Settle]) {
        client.take(step);
    }
    let name = Client::store_name();
    let before = client.device.inner.snapshot();
    for step in [Step::ServerPut(0, 7), Step::Settle] {
        client.take(step);
    }
    client.die();
    client.device.inner.put_back_backup(&name, &before);
    let mut damaged = 0;
    client.device.inner.tamper(&name, |records| {
        let journal = records.iter_mut().filter(|((table, _), _)| *table == Table::Journal);
        damaged = journal.map(|(_, record)| record[30] ^= 1).count();
    });
    assert!(damaged > 0, "what was accepted has its record");
    client.open();
    assert!(!client.damage.any(), "{:?}", client.damage);
    check(&mut client, scenario, false, "a damaged record");
}

#[test]
fn an_older_copy_put_back_is_told_and_everything_is_pulled_anew() {
    let (mut client, scenario, copy) = with_two_waiting();
    client.die();
    client.device.inner.put_back(&Client::store_name(), &copy);
    client.open();
    told(&client, 0);
    assert_eq!(client.machine().list(&whole()).expect("subscribed").2, 0, "asked for whole");
    assert!(
        !client.machine().list(&whole()).expect("subscribed").0.is_empty(),
        "what is there stays visible"
    );
    check(&mut client, scenario, false, "put back");
}

#[test]
fn a_dropped_tail_is_told() {
    let scenario = Scenario { beginning: 1, deed: 0 };
    let mut client = scenario.client(Plan::NONE);
    for step in scenario.steps().into_iter().chain([Step::Offline(true), Step::Add(1)]) {
        client.take(step);
    }
    let copy = client.device.inner.snapshot();
    client.take(Step::Patch(2));
    client.die();
    // Without the last batch only: one of the two operations is still there.
    client.device.inner.put_back(&Client::store_name(), &copy);
    client.open();
    told(&client, 0);
    assert_eq!(client.machine().status().pending, 2);
    check(&mut client, scenario, false, "a dropped tail");
}

#[test]
fn the_whole_device_put_back_mark_and_all_goes_unnoticed() {
    let (mut client, scenario, copy) = with_two_waiting();
    client.die();
    client.device.inner = copy;
    client.open();
    assert!(!client.damage.any(), "docs/security.md says so");
    client.issued.clear();
    check(&mut client, scenario, false, "all put back");
}

#[test]
fn a_mark_that_is_behind_altered_or_gone_raises_no_alarm() {
    for how in 0..3 {
        let (mut client, scenario, copy) = with_two_waiting();
        client.die();
        let name = Client::store_name();
        let mut older = None;
        copy.tamper_backup(&name, |backup_header| older = backup_header.mark.clone());
        client.device.inner.tamper_backup(&name, |backup_header| match how {
            0 => backup_header.mark = older,
            1 => backup_header.mark.as_mut().expect("a mark")[20] ^= 1,
            _ => *backup_header = BackupHeader::default(),
        });
        client.open();
        assert!(!client.damage.any(), "{how}: {:?}", client.damage);
        check(&mut client, scenario, false, "a mark");
        let mut mended = None;
        client.device.inner.tamper_backup(&name, |backup_header| mended = Some(backup_header.clone()));
        assert!(
            mended
                .is_some_and(|backup_header| backup_header.header.is_some() && backup_header.mark.is_some()),
            "made anew"
        );
    }
}

#[test]
fn a_store_that_is_gone_opens_with_its_own_secret_only() {
    let (mut client, _, _) = with_two_waiting();
    client.take(Step::ChangeSecret);
    client.die();
    client.device.inner.put_back(&Client::store_name(), &MemoryDevice::new());
    // The secret before the change: it is refused, and the client falls back on the current one.
    client.other_secret = Some(client.secret);
    client.secret -= 1;
    client.open();
    assert_eq!(client.other_secret, None, "the earlier secret was refused");
    told(&client, 0);
}

/// A store that has lost its whole state, and has no mark, is damaged and not new. Everything is pulled again, and no old
/// record is left over.
#[test]
fn a_state_that_is_gone_is_damage_with_no_mark_to_tell_it() {
    let (mut client, _, _) = with_two_waiting();
    client.die();
    client.device.inner.tamper(&Client::store_name(), |records| {
        records.retain(|(table, _), _| *table != Table::State);
    });
    client.device.inner.vanish_backup(&Client::store_name());
    client.open();
    assert!(client.damage.records > 0, "{:?}", client.damage);
    client.take(Step::Offline(false));
    client.take(Step::Subscribe(0));
    client.settle();
    assert_eq!(client.machine().list(&whole()).expect("subscribed").0.len(), 6);
    let mut pages = 0;
    client.device.inner.tamper(&Client::store_name(), |records| {
        pages = records.keys().filter(|(table, _)| *table == Table::Pages).count();
    });
    assert_eq!(pages, client.machine().layout().expect("a device").page_counts().0);
}
