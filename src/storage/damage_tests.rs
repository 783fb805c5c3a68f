//! Each kind of damage after random histories: the report of the opening, the state that is left, and the
//! session that goes on from there. It never uses a number again, and leaves no record of no use (R14).
#![allow(clippy::print_stdout)] // the seed of a history that fails

use std::collections::{BTreeMap, BTreeSet};

use super::delta::StateRecord;
use super::history_tests::Whole;
use super::mark::RolledBack;
use super::open::{SKIPPED, read};
use super::world_tests::{Journal, World, open, store, stored};
use super::{Damage, Expected, FoundPage, Verdict, reopen};
use crate::crypto::{DerivedKey, Header, SeededRandom, WrapKind};
use crate::memory::tests::seeds;
use crate::memory::{Content, DocKey, Stamp};
use crate::model::{Def, Pk};
use crate::store::conformance::block_on;
use crate::store::{MemoryDevice, RecordKey, Store, Table};

/// A history whose last batch has brought all of it to the device, with its mark.
fn history(seed: u64, steps: usize) -> World {
    println!("ESCALE_SEED={seed}");
    let mut world = World::new(seed);
    for _ in 0..steps {
        world.step();
    }
    while world.flush(true) {}
    world.check();
    world
}

/// Changes a record of a copy of the device; `None` removes it.
fn alter(device: &MemoryDevice, table: Table, key: RecordKey, bytes: Option<Vec<u8>>) {
    device.tamper(&store(), |records| {
        match bytes {
            Some(bytes) => records.insert((table, key), bytes),
            None => records.remove(&(table, key)),
        };
    });
}

fn bytes_of(device: &MemoryDevice, table: Table, key: RecordKey) -> Vec<u8> {
    let mut found = Vec::new();
    device.tamper(&store(), |records| found = records[&(table, key)].clone());
    found
}

/// The session goes on, and in the end the store is whole. None of its records has a number of old.
fn go_on(mut world: World) -> World {
    let restored: BTreeSet<RecordKey> = world.leader.layout.restored.iter().map(|(key, _)| *key).collect();
    let before = std::mem::take(&mut world.used);
    while world.flush(true) {}
    world.check();
    for _ in 0..12 {
        world.step_alone();
    }
    while world.flush(true) {}
    world.check();
    for (table, key) in world.used.difference(&restored.iter().map(|key| (Table::Journal, *key)).collect()) {
        assert!(!before.contains(&(*table, *key)), "{table:?}: a number is used again");
    }
    world
}

/// The numbers with which the session goes on.
fn next(world: &World) -> (u64, u64, u64) {
    let layout = &world.leader.layout;
    (layout.next_record, layout.pages.next, layout.journal.next_record)
}

fn skipped((records, pages, journal): (u64, u64, u64)) -> (u64, u64, u64) {
    (records + SKIPPED, pages + SKIPPED, journal + SKIPPED)
}

/// The links without their documents in these records, and the defs subscribed to.
fn recount(world: &World, device: &MemoryDevice) -> (u64, BTreeSet<Def>) {
    let keys = world.keys();
    let states = stored(device, Table::State).into_iter();
    let opened = states.filter_map(|key| read(&keys, key, &bytes_of(device, Table::State, key)).ok());
    let records: BTreeMap<u64, StateRecord> = opened.map(|record| (record.number, record)).collect();
    let mut documents: BTreeSet<DocKey> = BTreeSet::new();
    let mut links: BTreeMap<Def, BTreeSet<Pk>> = BTreeMap::new();
    let mut defs = BTreeSet::new();
    for record in records.into_values() {
        for (def, state) in record.delta.collections {
            if state.is_none() {
                defs.remove(&def);
                links.remove(&def);
            } else {
                defs.insert(def);
            }
        }
        for (class, states) in record.delta.documents {
            for (pk, state) in states {
                let key = world.leader.memory.doc_key(&class, &pk).unwrap();
                if state.is_some() {
                    documents.insert(key)
                } else {
                    documents.remove(&key)
                };
            }
        }
        for (def, states) in record.delta.links {
            for state in states.into_iter().filter(|_| defs.contains(&def)) {
                let of = links.entry(def.clone()).or_default();
                if state.member.is_some() {
                    of.insert(state.pk)
                } else {
                    of.remove(&state.pk)
                };
            }
        }
    }
    let missing = links.iter().flat_map(|(def, pks)| pks.iter().map(move |pk| (def, pk)));
    let missing = missing
        .filter(|(def, pk)| !documents.contains(&world.leader.memory.doc_key(def.class(), pk).unwrap()));
    (missing.count() as u64, defs)
}

#[test]
fn r14_a_state_record_that_is_gone_or_altered_is_reported_and_its_number_spent() {
    for seed in seeds(10) {
        let world = history(seed, 70);
        let layout = &world.leader.layout;
        for number in layout.base..layout.next_record {
            for is_gone in [true, false] {
                let device = world.device.snapshot();
                let key = world.keys().record_key(Table::State, number);
                let mut bytes = bytes_of(&device, Table::State, key);
                bytes[20] ^= 4;
                alter(&device, Table::State, key, (!is_gone).then_some(bytes));
                let (documents, defs) = recount(&world, &device);
                let after = world.on(device);
                let is_newest =
                    number + 1 == layout.next_record && number >= layout.base + u64::from(layout.chunks);
                let summary = layout.journal;
                let records =
                    layout.next_record - layout.base + layout.page_counts().0 as u64 + summary.records;
                let rolled_back =
                    is_newest.then_some(RolledBack { records, pending: summary.pending, lost: 0 });
                let damage = Damage { records: 1, documents, journal: 0, rolled_back };
                assert_eq!(after.leader.damage, damage, "{number}, gone: {is_gone}");
                assert_eq!(next(&after), skipped(next(&world)));
                let found: BTreeSet<Def> =
                    after.leader.memory.collections().map(|(def, _)| def.clone()).collect();
                assert_eq!(found, defs);
                let era = after.leader.memory.epoch().1;
                for (def, collection) in after.leader.memory.collections() {
                    assert_eq!((collection.set.v(), &collection.load), (Stamp::new(era, 0), &None), "{def}");
                    assert_eq!(collection.set.marks().count(), 0, "{def}");
                    assert!(collection.set.members().all(|(_, member)| !member.confirmed), "{def}");
                }
                assert_eq!(after.journal, world.journal);
                assert_eq!(after.leader.layout.session(), layout.session());
                go_on(after);
            }
        }
    }
}

/// A lost record of the journal comes from the copy in the backup database. Without the copy, the loss is
/// reported.
#[test]
fn r14_a_journal_record_comes_from_its_copy_or_is_reported() {
    for seed in seeds(12) {
        let world = history(seed, 60);
        let numbers: Vec<u64> = world.journal.keys().copied().collect();
        for lost in 1..numbers.len().min(3) {
            for (is_gone, has_copy) in [(true, true), (false, true), (true, false), (false, false)] {
                let device = world.device.snapshot();
                for number in &numbers[..lost] {
                    let key = world.leader.layout.journal_key(*number);
                    alter(&device, Table::Journal, key, (!is_gone).then(|| vec![1; 60]));
                    if !has_copy {
                        device.tamper_copies(&store(), |copies| drop(copies.remove(&key)));
                    }
                }
                let after = world.on(device);
                let journal = if has_copy { 0 } else { lost as u64 };
                assert_eq!(after.leader.damage, Damage { journal, ..Damage::default() });
                assert_eq!(after.leader.damage.any(), !has_copy);
                let kept: Journal = world.journal.clone().into_iter().skip(journal as usize).collect();
                assert_eq!(after.journal, kept);
                assert_eq!(
                    Whole::of(&after.leader.memory).collections().len(),
                    world.committed.collections().len()
                );
                go_on(after);
            }
        }
    }
}

/// A store put back to an earlier time, and one that is gone: the backup database says how far it had come.
#[test]
fn r14_a_store_put_back_or_gone_goes_on_from_its_mark() {
    for seed in seeds(20) {
        let mut world = history(seed, 40);
        let earlier = world.device.snapshot();
        let (pending_then, journal_then) = (world.leader.layout.journal, world.journal.clone());
        let before = world.leader.layout.next_record;
        for _ in 0..25 {
            world.step();
        }
        while world.flush(true) {}
        let summary = world.leader.layout.journal;
        let layout = &world.leader.layout;
        let records = layout.next_record - layout.base + layout.page_counts().0 as u64 + summary.records;
        for (is_gone, has_copies) in [(true, true), (true, false), (false, true), (false, false)] {
            if !is_gone && layout.next_record == before {
                continue;
            }
            let device = world.device.snapshot();
            if is_gone {
                device.vanish(&store());
            } else {
                device.put_back(&store(), &earlier);
            }
            if !has_copies {
                device.tamper_copies(&store(), |copies| {
                    copies.insert(RecordKey([9; 16]), vec![3; 50]);
                });
            }
            let after = world.on(device);
            let is_there = !is_gone
                && pending_then.pending >= summary.pending
                && journal_then.keys().last().map_or(0, |last| last + 1) >= summary.next_record;
            let lost = if has_copies || is_there { 0 } else { summary.pending };
            let rolled_back = Some(RolledBack { records, pending: summary.pending, lost });
            assert_eq!(after.leader.damage.rolled_back, rolled_back);
            assert_eq!(after.leader.damage.records > 0, !is_gone);
            let (record, page, journal) = skipped(next(&world));
            let first = if is_gone { u64::from(after.leader.layout.chunks) } else { 0 };
            assert_eq!(next(&after), (record + first, page, journal));
            if has_copies {
                assert_eq!(after.journal, world.journal);
                assert_eq!(after.leader.layout.session(), layout.session());
                assert_eq!(after.leader.memory.epoch(), world.leader.memory.epoch());
            } else if is_gone {
                assert!(after.journal.is_empty());
                assert_ne!(after.leader.layout.session(), layout.session(), "its numbers are lost");
            } else {
                assert_eq!(after.journal, journal_then);
            }
            if is_gone {
                assert_eq!(after.leader.memory.collections().count(), 0);
            }
            go_on(after);
        }
    }
}

/// Nothing is lost if the backup database is gone or late, or if records of an earlier checkpoint come back.
#[test]
fn r14_what_does_no_harm_is_mended_without_a_report() {
    for seed in seeds(20) {
        let mut world = history(seed, 30);
        let earlier = world.device.snapshot();
        for _ in 0..40 {
            world.step();
        }
        while world.flush(true) {}
        for case in 0..3 {
            let device = world.device.snapshot();
            match case {
                0 => device.vanish_backup(&store()),
                1 => device.put_back_backup(&store(), &earlier),
                _ => {
                    let (old, now) = (stored(&earlier, Table::State), stored(&device, Table::State));
                    for key in old.difference(&now) {
                        alter(&device, Table::State, *key, Some(bytes_of(&earlier, Table::State, *key)));
                    }
                }
            }
            let after = world.on(device);
            assert_eq!(after.leader.damage, Damage::default(), "case {case}");
            assert_eq!(after.committed, world.committed);
            assert_eq!(next(&after), next(&world));
            assert_eq!(after.journal, world.journal);
            let mut after = after;
            while after.flush(true) {}
            after.check();
        }
    }
}

/// A store that is opened again under a session is the same only if nothing is missing. A session writes its
/// own content into one that was wiped.
#[test]
fn r14_a_store_that_was_wiped_under_the_session_gets_all_of_it_again() {
    for seed in seeds(12) {
        let mut world = history(seed, 60);
        let expected = world.leader.layout.expected(world.journal.keys().copied());
        let newest = world.leader.layout.next_record - 1;
        assert_eq!(expected.state, Some(world.keys().record_key(Table::State, newest)));
        let judged = |device: MemoryDevice| {
            let store = open(&device, 3).store;
            let found = block_on(reopen(&store, &expected)).unwrap();
            (found.is_whole, world.leader.layout.judge(&found))
        };
        assert_eq!(judged(world.device.snapshot()), (true, Verdict::Same));
        let state = expected.state.map(|key| (Table::State, key));
        let journal = expected.journal.iter().map(|key| (Table::Journal, *key));
        for (table, key) in state.into_iter().chain(journal) {
            let device = world.device.snapshot();
            // The opening makes nothing of it: only the second handle looks.
            let store_now = open(&device, 3).store;
            alter(&device, table, key, None);
            let found = block_on(reopen(&store_now, &expected)).unwrap();
            assert_eq!((found.is_whole, world.leader.layout.judge(&found)), (false, Verdict::Again));
        }
        let store_now = open(&world.device.snapshot(), 3).store;
        let mut found = block_on(reopen(&store_now, &expected)).unwrap();
        let other =
            Header::make(WrapKind::Key, &DerivedKey::from_bytes([7; 32]), 0, &mut SeededRandom::new(1 << 40));
        for (header, verdict) in [
            (Some(other.unwrap().0.to_bytes()), Verdict::Foreign),
            (Some(vec![1; 9]), Verdict::Again),
            (None, Verdict::Again),
        ] {
            found.header = header;
            assert_eq!(world.leader.layout.judge(&found), verdict);
        }
        wipe(&mut world);
        check_wiped(&mut world);
        world.write_journal_again();
        // The operations' records are the old ones.
        world.used.retain(|(table, _)| *table != Table::Journal);
        go_on(world);
    }
}

/// All data is in memory when the store is wiped.
fn wipe(world: &mut World) {
    let (layout, memory) = (&mut world.leader.layout, &mut world.leader.memory);
    let keys: Vec<DocKey> = memory.documents().map(|(key, _)| key.clone()).collect();
    for key in keys {
        let document = memory.document(&key).unwrap();
        let (place, at) = (document.slot.unwrap(), document.at);
        let page = block_on(world.leader.store.get(Table::Pages, &[layout.page_key(place.page)])).unwrap();
        let rows = layout.open_page(place.page, &FoundPage::Sealed(page[0].clone().unwrap())).unwrap();
        memory.reload(&key, at, rows[place.slot as usize].data.clone());
    }
    assert!(memory.documents().all(|(_, document)| matches!(document.content, Content::Resident(_))));
    assert!(memory.unsettle().is_empty());
    layout.begin_again();
    let is_same = block_on(reopen(&world.leader.store, &Expected::default())).unwrap();
    assert_eq!(layout.judge(&is_same), Verdict::Again, "nothing shows that it is whole");
    assert_eq!(layout.expected(std::iter::empty()).state, None);
    // Some records are still there.
    world.device.tamper(&store(), |records| records.retain(|(table, _), _| *table != Table::Journal));
}

/// The first batch brings the state, and no record of the journal.
fn check_wiped(world: &mut World) {
    world.due = None;
    assert!(world.flush(true));
    let opened = open(&world.device.snapshot(), 5);
    assert_eq!((opened.damage, opened.journal.records), (Damage::default(), Vec::new()));
}

/// The journal was to come from its copy when the store was wiped. The session writes its own records.
#[test]
fn r14_a_store_that_was_wiped_gets_no_record_of_the_copy() {
    for seed in seeds(12) {
        let mut world = history(seed, 40);
        let earlier = world.device.snapshot();
        for _ in 0..25 {
            world.step();
        }
        while world.flush(true) {}
        let device = world.device.snapshot();
        device.put_back(&store(), &earlier);
        let mut after = world.on(device);
        wipe(&mut after);
        check_wiped(&mut after);
    }
}

/// Without its state records and its backup, a store has only its journal. A second time, the journal's numbers are
/// already beyond those that an opening skips.
#[test]
fn r10_a_journal_that_outlives_the_state_twice_keeps_its_records() {
    for seed in seeds(12) {
        let mut world = history(seed, 60);
        for time in 0..2 {
            let device = world.device.snapshot();
            device.vanish_backup(&store());
            device.tamper(&store(), |records| records.retain(|(table, _), _| *table != Table::State));
            let mut after = world.on(device);
            // Nothing tells which numbers of pages and of state records were used.
            after.used.clear();
            let first = world.journal.keys().next_back().map_or(0, |last| last + 1);
            assert_eq!(next(&after), (SKIPPED, SKIPPED, first + SKIPPED), "time {time}");
            assert_eq!(after.leader.damage, Damage { records: 1, ..Damage::default() });
            assert_eq!(after.leader.memory.epoch(), (None, 0));
            assert_eq!(after.leader.memory.collections().count(), 0);
            assert_eq!(after.journal, world.journal);
            while after.flush(true) {}
            for _ in 0..12 {
                after.step_alone();
            }
            while after.flush(true) {}
            after.check();
            world = after;
        }
    }
}

/// The backup's header opens the store, and its mark cannot be read: nothing tells how far the store had come.
#[test]
fn r14_a_store_that_is_gone_with_its_mark_begins_at_numbers_of_its_own() {
    for mark in [None, Some(vec![1; 60])] {
        let world = history(3, 60);
        let device = world.device.snapshot();
        device.vanish(&store());
        device.tamper_backup(&store(), |backup_header| backup_header.mark = mark);
        let after = world.on(device);
        let rolled_back = Some(RolledBack { records: 0, pending: 0, lost: 0 });
        assert_eq!(after.leader.damage, Damage { rolled_back, ..Damage::default() });
        assert_eq!(next(&after), (SKIPPED + u64::from(after.leader.layout.chunks), SKIPPED, SKIPPED));
        assert_eq!(after.leader.header.store_id(), world.leader.header.store_id());
        assert!(after.journal.is_empty());
    }
}

/// The copy of an earlier journal is no copy of this one, and nothing is read from a copy that nothing is lost of.
#[test]
fn r14_only_the_copy_of_the_same_journal_replaces_lost_records() {
    let mut some = 0;
    for seed in seeds(20) {
        let mut world = history(seed, 40);
        let (earlier, journal_then) = (world.device.snapshot(), world.leader.layout.journal);
        for _ in 0..40 {
            world.step();
        }
        while world.flush(true) {}
        let device = world.device.snapshot();
        device.put_back_backup(&store(), &earlier);
        if let Some(lost) =
            world.journal.keys().next().filter(|_| journal_then != world.leader.layout.journal)
        {
            some += 1;
            alter(&device, Table::Journal, world.leader.layout.journal_key(*lost), None);
            let after = world.on(device);
            assert_eq!(after.leader.damage, Damage { journal: 1, ..Damage::default() });
            assert_eq!(after.journal, world.journal.clone().into_iter().skip(1).collect());
            assert!(after.leader.layout.restored.is_empty() && after.leader.layout.is_backup_due);
        }
        let device = world.device.snapshot();
        let random = &mut SeededRandom::new(seed);
        device.tamper_copies(&store(), |copies| {
            for record in world.journal.values() {
                let key = world.leader.layout.journal_key(record.number);
                let sealed = world.keys().seal(Table::Journal, key, &record.encode().unwrap(), random);
                copies.insert(key, sealed.unwrap().into_bytes());
            }
        });
        assert!(world.on(device).leader.layout.restored.is_empty(), "nothing is lost");
    }
    assert!(some > 3, "{some} of these have another journal");
}

#[test]
fn a_backup_with_another_header_is_written_again() {
    let world = history(1, 20);
    for header in [None, Some(vec![1; 9])] {
        let device = world.device.snapshot();
        device.tamper_backup(&store(), |backup_header| backup_header.header = header);
        assert!(open(&device, 3).layout.is_backup_due);
    }
}
