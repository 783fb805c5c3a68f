//! R14: every alteration, cut, deletion, swap or replay of a record is detected, reported, and repaired from
//! the server.

use std::collections::{BTreeMap, BTreeSet};

use escale::crypto::StoreKeys;
use escale::storage::Limits;
use escale::store::{MemoryDevice, RecordKey, Table};
use escale::sync::{Event, Mode, StorageState};

use escale_testkit::plan::Kind;
use escale_testkit::{Action, Plan, World};

type Records = BTreeMap<(Table, RecordKey), Vec<u8>>;

const PLAN: Plan = Plan {
    name: "damage",
    clients: 1,
    incognito: false,
    instances: 1,
    actions: 0,
    watches_flicker: false,
    tenants: &[],
    weights: &[(Kind::Wait, 1)],
};

/// A client that is subscribed to a class and two of its collections, closed: a checkpoint, a log, a few
/// pages.
fn small() -> World {
    let mut world = World::new(&PLAN, 3);
    world.clients[0].setup.limits = Limits::default();
    world.crash(0);
    world.open(0);
    for def in [0, 2, 5] {
        world.act(Action::Subscribe { client: 0, def });
    }
    for doc in 0..3 {
        world.act(Action::Write { doc, section: 0, tags: 1, life: 0 });
        world.run_for(2_000);
    }
    world.act(Action::Delete { doc: 0 });
    world.run_for(10_000);
    world
}

fn records(device: &MemoryDevice, name: &str) -> Records {
    let mut found = Records::new();
    device.tamper(name, |records| found = records.clone());
    found
}

/// The keys of the client's store, from its own header.
fn keys(world: &World) -> StoreKeys {
    let client = &world.clients[0];
    let account = client.open_device(&client.device.snapshot(), 1).expect("opened");
    StoreKeys::derive(&account.key, account.header.store_id())
}

/// The names of the existing state records, by number.
fn state_records(world: &World) -> Vec<RecordKey> {
    let there = records(&world.clients[0].device, &world.clients[0].store_name());
    let keys = keys(world);
    let names = (0..10_000).map(|number| keys.record_key(Table::State, number));
    names.filter(|name| there.contains_key(&(Table::State, *name))).collect()
}

/// Opens the client on a copy of `base` with that change, in avion, and reads everything.
fn open_changed(world: &mut World, base: &MemoryDevice, change: impl FnOnce(&mut Records)) {
    world.crash(0);
    let device = base.snapshot();
    device.tamper(&world.clients[0].store_name(), change);
    world.clients[0].device = device;
    world.clients[0].was_damaged = true;
    world.clients[0].mode = Mode::Avion;
    world.open(0);
    world.read_everything(0);
    world.run_for(200);
}

fn is_reported(world: &World) -> bool {
    let machine = world.clients[0].machine.as_ref().expect("open");
    machine.status().storage == StorageState::Lost
}

/// Goes back online. Everything is there again, and no record is left over on the device.
fn heal(world: &mut World) {
    // Two lost records may hold the only traces of a subscription: the application subscribes again.
    for def in [0, 2, 5] {
        world.act(Action::Subscribe { client: 0, def });
    }
    world.clients[0].mode = Mode::Synced;
    world.feed(0, Event::SetMode(Mode::Synced));
    world.run_for(3_000);
    world.read_everything(0);
    world.run_for(3_000);
    world.settle(0);
    world.compare_documents(0);
    world.compare_rest(0);
}

fn subscriptions(world: &World) -> usize {
    world.clients[0].machine.as_ref().expect("open").memory().collections().count()
}

/// Changes every record in one way: the damage is reported, then repaired.
fn each(
    world: &mut World,
    change: impl Fn(&mut Vec<u8>, usize) -> bool,
    places: impl Fn(usize) -> Vec<usize>,
) {
    let base = world.clients[0].device.snapshot();
    let name = world.clients[0].store_name();
    for (key, bytes) in records(&base, &name) {
        for place in places(bytes.len()) {
            let mut changed = bytes.clone();
            if !change(&mut changed, place) {
                continue;
            }
            open_changed(world, &base, |records| drop(records.insert(key, changed)));
            assert!(is_reported(world), "{key:?} at {place} of {}", bytes.len());
            assert_eq!(subscriptions(world), 3, "one lost record loses no subscription");
            heal(world);
        }
    }
}

#[test]
fn r14_each_record_altered_at_each_byte() {
    let mut world = small();
    let flip = |bytes: &mut Vec<u8>, place: usize| {
        bytes[place] ^= 1 << (place % 8);
        true
    };
    each(&mut world, flip, |len| (0..len).collect());
}

#[test]
fn r14_each_record_cut_short_or_longer() {
    let mut world = small();
    let cut = |bytes: &mut Vec<u8>, place: usize| {
        if place == bytes.len() {
            bytes.push(0);
        } else {
            bytes.truncate(place);
        }
        true
    };
    each(&mut world, cut, |len| vec![0, 1, 11, 12, 27, 28, 29, len / 2, len - 1, len]);
}

#[test]
fn r14_each_record_deleted() {
    let mut world = small();
    let base = world.clients[0].device.snapshot();
    for key in records(&base, &world.clients[0].store_name()).into_keys() {
        open_changed(&mut world, &base, |records| drop(records.remove(&key)));
        // The loss of the last record of the log is reported by the high-water mark in the backup database.
        assert!(is_reported(&world), "{key:?}");
        heal(&mut world);
    }
}

#[test]
fn r14_each_record_swapped_with_each_other() {
    let mut world = small();
    let base = world.clients[0].device.snapshot();
    let there: Vec<_> = records(&base, &world.clients[0].store_name()).into_iter().collect();
    assert!(there.iter().map(|((table, _), _)| table).collect::<BTreeSet<_>>().len() > 1, "two tables");
    for (n, (a, left)) in there.iter().enumerate() {
        for (b, right) in &there[n + 1..] {
            open_changed(&mut world, &base, |records| {
                records.insert(*a, right.clone());
                records.insert(*b, left.clone());
            });
            assert!(is_reported(&world), "{a:?} and {b:?}");
            heal(&mut world);
        }
    }
}

#[test]
fn r14_a_whole_table_emptied() {
    for table in [Table::State, Table::Pages] {
        let mut world = small();
        let base = world.clients[0].device.snapshot();
        open_changed(&mut world, &base, |records| records.retain(|(of, _), _| *of != table));
        if table == Table::Pages {
            assert!(is_reported(&world));
            heal(&mut world);
            continue;
        }
        // The subscriptions are lost with the directory: the application subscribes again, and the damage is
        // reported.
        assert!(world.clients[0].damage.any());
        heal(&mut world);
    }
}

#[test]
fn r14_older_records_put_back_count_for_nothing() {
    let mut world = small();
    let old = records(&world.clients[0].device, &world.clients[0].store_name());
    world.clients[0].setup.limits.log_bytes_min = 100;
    world.crash(0);
    world.open(0);
    for doc in 0..6 {
        world.act(Action::Write { doc, section: doc % 3, tags: 6, life: 0 });
        world.run_for(3_000);
    }
    world.settle(0);
    let base = world.clients[0].device.snapshot();
    let now = records(&base, &world.clients[0].store_name());
    let gone: Vec<_> = old.into_iter().filter(|(key, _)| !now.contains_key(key)).collect();
    assert!(gone.iter().any(|((table, _), _)| *table == Table::State), "a checkpoint came between");
    open_changed(&mut world, &base, |records| records.extend(gone.clone()));
    let machine = world.clients[0].machine.as_ref().expect("open");
    assert!(machine.memory().document(&doc_key(&world, 0)).is_some(), "the later state holds");
    world.run_for(1_000);
    let after = records(&world.clients[0].device, &world.clients[0].store_name());
    for (key, _) in gone.iter().filter(|((table, _), _)| *table == Table::State) {
        assert!(!after.contains_key(key), "and what was put back is deleted");
    }
}

fn doc_key(world: &World, number: usize) -> escale::memory::DocKey {
    let (class, pk) = escale_testkit::schema::key(number);
    let machine = world.clients[0].machine.as_ref().expect("open");
    machine.memory().doc_key(&class, &pk).expect("a class")
}

/// A record is damaged, and the session repairs it. Then the old record is put back: its number must not be
/// in use.
#[test]
fn r14_a_record_put_back_after_its_damage_was_healed() {
    let mut world = small();
    let base = world.clients[0].device.snapshot();
    let name = world.clients[0].store_name();
    for victim in state_records(&world) {
        let key = (Table::State, victim);
        let kept = records(&base, &name)[&key].clone();
        open_changed(&mut world, &base, |records| records.get_mut(&key).expect("there")[20] ^= 1);
        heal(&mut world);
        world.act(Action::Delete { doc: 2 });
        world.act(Action::Write { doc: 2, section: 1, tags: 0, life: 0 });
        world.run_for(3_000);
        world.settle(0);
        let healed = world.clients[0].device.snapshot();
        assert!(!records(&healed, &name).contains_key(&key), "a number is never used again");
        open_changed(&mut world, &healed, |records| drop(records.insert(key, kept)));
        heal(&mut world);
    }
}

/// Both copies of the head are lost: the surviving records are of an epoch that only the head would have
/// named.
#[test]
fn r14_r8_the_era_outlives_the_head() {
    let mut world = small();
    world.act(Action::BackUp);
    world.act(Action::Write { doc: 1, section: 0, tags: 1, life: 0 });
    world.act(Action::Write { doc: 5, section: 0, tags: 1, life: 0 });
    world.run_for(1_000);
    world.act(Action::Renew);
    world.run_for(400_000);
    world.settle(0);
    let names = state_records(&world);
    // The new epoch's documents and links are in the log; its head is in only one record of it.
    let base = world.clients[0].device.snapshot();
    for lost in 0..names.len() {
        for second in lost..names.len() {
            open_changed(&mut world, &base, |records| {
                records.remove(&(Table::State, names[lost]));
                records.remove(&(Table::State, names[second]));
            });
            world.clients[0].mode = Mode::Synced;
            world.feed(0, Event::SetMode(Mode::Synced));
            world.run_for(3_000);
            world.read_everything(0);
            world.run_for(3_000);
            world.settle(0);
            world.compare_documents(0);
        }
    }
    // The server is restored from its copy: older versions of the same documents, in a third epoch.
    world.act(Action::Restore);
    for name in names {
        open_changed(&mut world, &base, |records| drop(records.remove(&(Table::State, name))));
        world.clients[0].mode = Mode::Synced;
        world.feed(0, Event::SetMode(Mode::Synced));
        world.run_for(5_000);
        world.settle(0);
        world.compare_documents(0);
    }
}
