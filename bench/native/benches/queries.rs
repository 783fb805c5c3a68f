//! `cargo bench -p escale-benches --bench queries`: the native core's share of an ordered live query, after one document has changed. The
//! documents are in memory, and nothing crosses into JavaScript.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use escale::codec::{Data, Part, Row, ServerFrame, ServerParts, SyncReply};
use escale::crypto::SeededRandom;
use escale::memory::Memory;
use escale::memory::query::Query;
use escale::model::schema::Schema;
use escale::model::{Def, Epoch, Name, Pk, Value};
use escale::storage::Damage;
use escale::sync::{Clock, Config, Effect, Event, Machine, Mode};

const NOW: u64 = 1_700_000_000_000;
const SCHEMA: &str = r#"{"Doc": {"key": ["id"], "indexes": {"n": "integer"}}}"#;
/// Ordered by `n`, the first 50.
const QUERY: &str = r#"[[], null, ["n", false], 50, null]"#;
const LIMIT: usize = 50;

fn class() -> Name {
    Name::new("Doc").expect("a name")
}

fn row(number: u64, n: i64, v: u64) -> Row {
    let id = format!("d{number:07}");
    let map = BTreeMap::from([
        ("id".to_owned(), Value::from(id.as_str())),
        ("n".to_owned(), Value::from(n)),
        ("body".to_owned(), Value::from("river letter garden window market bridge ".repeat(24).as_str())),
    ]);
    let data = Data::from_map(&map).expect("a document");
    Row { pk: Pk::from_key(&[&id]).expect("a key"), v, deleted: false, max_life: None, data: Some(data) }
}

/// A session in memory with that many documents, which hears of changes.
struct Session {
    machine: Machine,
    socket: u64,
    count: u64,
    now: u64,
    lowest: i64,
    ticket: u64,
}

impl Session {
    fn new(count: u64) -> Self {
        let schema = Schema::from_json(SCHEMA).expect("a schema");
        let config = Config {
            mode: Mode::Incognito,
            has_live: true,
            watches_silence: false,
            has_token: false,
            has_files: false,
            poll_every_ms: escale::limits::PULL_EVERY_MS,
        };
        let source = Box::new(SeededRandom::new(7));
        let machine =
            Machine::new(config, Memory::new(schema), None, Damage::default(), "bench".into(), source);
        let mut session = Session { machine, socket: 0, count, now: NOW + count, lowest: 0, ticket: 0 };
        let def = Def::class_of(&class());
        let mut effects = session.handle(Event::Started);
        effects.extend(session.handle(Event::Subscribe(def.clone())));
        let mut number = None;
        for effect in effects {
            match effect {
                Effect::Send { number: sent, .. } => number = Some(sent),
                Effect::OpenSocket(opened) => session.socket = opened,
                _ => {}
            }
        }
        let mut part = Part::empty(def);
        part.rows = (0..count).map(|at| row(at, (at * 7_919 % count) as i64, NOW + at)).collect();
        part.present = Some(part.rows.iter().map(|row| row.pk.clone()).collect());
        let reply = SyncReply::of(epoch(), session.now, 10, vec![part]);
        session.handle(Event::Replied { number: number.expect("a request"), reply: Ok(reply) });
        let socket = session.socket;
        session.handle(Event::SocketOpened { socket });
        session.handle(Event::Watch { class: class(), begins: true });
        assert_eq!(session.query().len(), LIMIT);
        session
    }

    fn handle(&mut self, event: Event) -> Vec<Effect> {
        self.machine.handle(event, Clock { wall_ms: NOW, mono_ms: 1_000 })
    }

    /// A push that gives one document the lowest value of all.
    fn next_push(&mut self) -> Event {
        self.lowest -= 1;
        self.now += 1;
        let number = self.now * 31 % self.count;
        let mut part = Part::empty(Def::class_of(&class()));
        part.rows = vec![row(number, self.lowest, self.now)];
        let parts = ServerParts { epoch: epoch(), now: self.now, delta: 10, seq: 0, parts: vec![part] };
        Event::Frame { socket: self.socket, frame: Ok(ServerFrame::Parts(parts)) }
    }

    fn query(&mut self) -> Vec<u32> {
        self.ticket += 2;
        let class = class();
        let declared = self.machine.memory().schema().class("Doc").expect("the class");
        let query = Query::from_json(declared, QUERY).expect("a query");
        let effects = self.handle(Event::Query { ticket: self.ticket, class, query });
        effects
            .into_iter()
            .find_map(|effect| match effect {
                Effect::Matched { ids, .. } => ids.ok(),
                _ => None,
            })
            .expect("an answer without a device")
    }
}

fn epoch() -> Epoch {
    Epoch::new(1, "bench").expect("an epoch")
}

fn live(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("an ordered live query of 50, after one change");
    for count in [10_000, 100_000] {
        let mut session = Session::new(count);
        let before = session.query();
        let push = session.next_push();
        session.handle(push);
        assert_ne!(session.query(), before, "the change is the first of the answer");
        group.bench_function(BenchmarkId::new("documents", count), |bencher| {
            bencher.iter_custom(|times| {
                let mut took = std::time::Duration::ZERO;
                for _ in 0..times {
                    let push = session.next_push();
                    let start = std::time::Instant::now();
                    session.handle(push);
                    black_box(session.query());
                    took += start.elapsed();
                }
                took
            });
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    live(&mut criterion);
    criterion.final_summary();
}
