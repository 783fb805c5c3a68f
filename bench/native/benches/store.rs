//! `cargo bench -p escale-benches --bench store`: opens a store with 100,000 documents, and follows a leader with 10,000.

use std::collections::BTreeMap;

use criterion::{BatchSize, Criterion, Throughput};
use escale::codec::{Data, Part, Row, SyncReply};
use escale::crypto::{DerivedKey, SeededRandom, WrapKind};
use escale::model::schema::Schema;
use escale::model::{Def, Epoch, Name, Pk, Value};
use escale::storage::{Account, AccountOptions, open_account};
use escale::store::conformance::block_on;
use escale::store::{MemoryDevice, MemoryStore, RecordKey, Store, Table};
use escale::sync::{Clock, Config, Effect, Event, Machine, Mode, TabEffect, TabEvent};

const NOW: u64 = 1_700_000_000_000;
const SCHEMA: &str =
    r#"{"Doc": {"key": ["id"], "collections": {"section": {"key": ["section"], "mutable": true}}}}"#;

/// Documents of the store that is opened, and of the one that is followed.
const OPENED: u64 = 100_000;
const FOLLOWED: u64 = 10_000;

fn class() -> Def {
    Def::class_of(&Name::new("Doc").expect("a name"))
}

fn row(number: u64, v: u64) -> Row {
    let id = format!("d{number:07}");
    let data = BTreeMap::from([
        ("id".into(), Value::from(id.as_str())),
        ("section".into(), Value::from(format!("s{}", number % 10).as_str())),
        ("n".into(), Value::from(v as i64)),
    ]);
    let data = Some(Data::from_map(&data).expect("a document"));
    Row { pk: Pk::from_key(&[&id]).expect("a key"), v, deleted: false, max_life: None, data }
}

fn open(device: &MemoryDevice) -> Account<MemoryStore> {
    let options = AccountOptions { org: "o", account: "a", by: WrapKind::Key, rounds: 0, create: true };
    let derive = async |_| Ok(DerivedKey::from_bytes([9; 32]));
    let schema = Schema::from_json(SCHEMA).expect("a schema");
    block_on(open_account(device, &options, schema, derive, &mut SeededRandom::new(3))).expect("a store")
}

fn session(device: &MemoryDevice) -> (Machine, MemoryStore) {
    let Account { memory, layout, damage, store, .. } = open(device);
    assert!(!damage.any());
    let config = Config {
        mode: Mode::Synced,
        has_live: false,
        watches_silence: false,
        has_token: false,
        has_files: false,
        poll_every_ms: escale::limits::PULL_EVERY_MS,
    };
    let random = Box::new(SeededRandom::new(7));
    (Machine::new(config, memory, Some(layout), damage, String::new(), random), store)
}

/// A session that leads and writes to the device.
struct Leader {
    machine: Machine,
    store: MemoryStore,
    asked: Option<u64>,
    now: u64,
}

impl Leader {
    fn new(device: &MemoryDevice) -> Self {
        let (machine, store) = session(device);
        let mut leader = Leader { machine, store, asked: None, now: 1_000 };
        leader.feed(Event::Started);
        leader.feed(Event::Subscribe(class()));
        leader
    }

    /// Handles an event, and all that follows from it on the device.
    fn feed(&mut self, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let clock = Clock { wall_ms: NOW + self.now, mono_ms: self.now };
            for effect in self.machine.handle(event, clock) {
                match effect {
                    Effect::Send { number, .. } => self.asked = Some(number),
                    Effect::Commit(batch) => {
                        events.push(Event::Committed(block_on(self.store.commit(batch))));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Receives `count` documents, all at a new version.
    fn receive(&mut self, count: u64) {
        while self.asked.is_none() {
            self.now += 60_000;
            self.feed(Event::Woke);
        }
        let v = NOW + self.now;
        let rows = (0..count).map(|number| row(number, v)).collect();
        let reply = SyncReply::of(
            Epoch::new(1, "bench").expect("an epoch"),
            v + 20,
            10,
            vec![Part { rows, ..Part::empty(class()) }],
        );
        let number = self.asked.take().expect("a request");
        self.feed(Event::Replied { number, reply: Ok(reply) });
        while !self.machine.memory().is_clean() {
            self.now += 1_000;
            self.feed(Event::Woke);
        }
    }
}

/// A device with that many documents.
fn device(count: u64) -> (MemoryDevice, Leader) {
    let device = MemoryDevice::shared();
    let mut leader = Leader::new(&device);
    leader.receive(count);
    assert_eq!(leader.machine.memory().documents().count() as u64, count);
    (device, leader)
}

fn opening(criterion: &mut Criterion) {
    let (device, _leader) = device(OPENED);
    let mut group = criterion.benchmark_group("a store of 100,000 documents");
    group.sample_size(20).throughput(Throughput::Elements(OPENED));
    group.bench_function("open", |bencher| bencher.iter_with_large_drop(|| open(&device)));
    group.finish();
}

fn clock() -> Clock {
    Clock { wall_ms: NOW, mono_ms: 1_000 }
}

/// A follower that has begun to look at the log: the number of that look, and its keys.
fn looking(device: &MemoryDevice) -> (Machine, u64, Vec<RecordKey>) {
    let (machine, _) = session(device);
    let mut machine = machine.following();
    machine.handle(Event::Started, clock());
    let effects = machine.handle(Event::Tab(TabEvent::Poll), clock());
    let look = effects.into_iter().find_map(|effect| match effect {
        Effect::Tab(TabEffect::Poll { number, keys }) => Some((number, keys)),
        _ => None,
    });
    let (number, keys) = look.expect("a look");
    (machine, number, keys)
}

/// A follower that has asked for the whole state, and the number of that reading.
fn reading(device: &MemoryDevice) -> (Machine, u64) {
    let (mut machine, number, _) = looking(device);
    let effects = machine.handle(Event::Tab(TabEvent::Polled { number, found: Ok(Vec::new()) }), clock());
    let number = effects.into_iter().find_map(|effect| match effect {
        Effect::Tab(TabEffect::Read(number)) => Some(number),
        _ => None,
    });
    (machine, number.expect("a reading"))
}

fn following(criterion: &mut Criterion) {
    let (device, mut leader) = device(FOLLOWED);
    let mut group = criterion.benchmark_group("a follower with 10,000 documents");
    group.sample_size(30);
    for count in [1, 10, 1_000] {
        let before = device.snapshot();
        leader.receive(count);
        let store = &leader.store;
        group.bench_function(format!("replays a record of {count}"), |bencher| {
            let replay = |(mut machine, number, keys): (Machine, u64, Vec<RecordKey>)| {
                let found = block_on(store.get(Table::State, &keys));
                let effects = machine.handle(Event::Tab(TabEvent::Polled { number, found }), clock());
                assert!(effects.iter().any(|effect| matches!(effect, Effect::Changed { .. })));
                machine
            };
            bencher.iter_batched(|| looking(&before), replay, BatchSize::PerIteration);
        });
        group.bench_function(format!("reads the whole state after {count}"), |bencher| {
            let read = |(mut machine, number): (Machine, u64)| {
                let opened = block_on(machine.reader().expect("a reader").read(store)).map(Box::new);
                machine.handle(Event::Tab(TabEvent::Read { number, opened }), clock());
                machine
            };
            bencher.iter_batched(|| reading(&before), read, BatchSize::PerIteration);
        });
        group.bench_function(format!("takes over the state after {count}"), |bencher| {
            let begin = || {
                let (machine, number) = reading(&before);
                let opened = block_on(machine.reader().expect("a reader").read(store)).map(Box::new);
                (machine, number, opened)
            };
            let adopt = |(mut machine, number, opened): (Machine, u64, _)| {
                machine.handle(Event::Tab(TabEvent::Read { number, opened }), clock());
                machine
            };
            bencher.iter_batched(begin, adopt, BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    opening(&mut criterion);
    following(&mut criterion);
    criterion.final_summary();
}
