//! `cargo bench -p escale-benches --bench sync`: the server's work for one collection of 100 documents among 100,000.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::Criterion;
use escale::codec::{Sub, SyncReply, SyncRequest};
use escale::model::schema::Schema;
use escale::model::{Def, Name, Value};
use escale_server::clock::ManualClock;
use escale_server::engine::{Caller, Engine, Opening};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

const DOCUMENTS: usize = 100_000;
const SHELVES: usize = 1_000;
const NOON: u64 = 1_800_000_000_000;
const SCHEMA: &str =
    r#"{"Note": {"key": ["id"], "collections": {"shelf": {"key": ["shelf"], "mutable": true}}}}"#;

fn note(number: usize, text: &str) -> BTreeMap<String, Value> {
    let of = |name: &str, value: &str| (name.to_owned(), Value::from(value));
    BTreeMap::from([
        of("id", &format!("n{number:06}")),
        of("shelf", &format!("s{:04}", number % SHELVES)),
        of("text", text),
    ])
}

/// An engine that holds them, each of about half a kilobyte.
fn filled(folder: &std::path::Path, clock: &std::sync::Arc<ManualClock>) -> Engine {
    let opening = Opening {
        schema: Schema::from_json(SCHEMA).expect("a schema"),
        settings: Settings::default(),
        seal: Seal::clear(),
        clock: clock.clone(),
    };
    let engine = Engine::open(folder, opening).expect("an engine");
    let text = "a line that says nothing new ".repeat(16);
    for from in (0..DOCUMENTS).step_by(500) {
        clock.advance(1);
        engine
            .write("o", |w| {
                (from..from + 500).try_for_each(|number| w.put("Note", note(number, &text)).map(drop))
            })
            .expect("written");
    }
    engine
}

fn sync(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::at(NOON);
    let engine = filled(folder.path(), &clock);
    let caller = Caller { may_write: true, ..Caller::default() };
    let shelf = Def::collection(
        &Name::new("Note").expect("a name"),
        &Name::new("shelf").expect("a name"),
        &["s0042"],
    )
    .expect("a def");
    let ask = |v: u64| -> SyncReply {
        let sub = Sub { def: shelf.clone(), v, cursor: None };
        let request = SyncRequest { subs: vec![sub], ..SyncRequest::of("s") };
        engine.sync("o", &caller, &request).expect("a reply")
    };
    clock.advance(60_000);
    let whole = ask(0);
    assert_eq!(whole.parts[0].rows.len(), DOCUMENTS / SHELVES);
    let settled = whole.now - whole.delta;
    assert_eq!(ask(settled).parts[0].rows.len(), 0);
    let mut group = criterion.benchmark_group("sync of a collection of 100 among 100,000");
    group.bench_function("whole", |bencher| bencher.iter(|| ask(black_box(0))));
    group.bench_function("nothing new", |bencher| bencher.iter(|| ask(black_box(settled))));
    let mut number = 42;
    group.bench_function("one document new, written first", |bencher| {
        bencher.iter(|| {
            clock.advance(1);
            number = (number + SHELVES) % DOCUMENTS;
            let text = clock_text(&engine);
            engine.write("o", |w| w.put("Note", note(number, &text))).expect("written");
            ask(black_box(settled))
        });
    });
    group.finish();
}

/// A text that differs each time.
fn clock_text(engine: &Engine) -> String {
    format!("written at {}", engine.clock_ms())
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    sync(&mut criterion);
    criterion.final_summary();
}
