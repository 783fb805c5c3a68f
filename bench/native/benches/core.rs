//! `cargo bench -p escale-benches --bench core`: the speed of the native core on a thousand documents of about 1 KB.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput};
use escale::codec::{Data, Format, Part, Row, SyncReply, decode, encode};
use escale::crypto::{AccountKey, SeededRandom, StoreKeys};
use escale::limits::REPLY_BYTES_MAX;
use escale::memory::{Memory, Stamp};
use escale::model::schema::Schema;
use escale::model::{Def, Epoch, Name, Pk, Value};
use escale::storage::decoders::{decode_page, encode_page};
use escale::storage::{Damage, PageRow};
use escale::store::Table;
use escale::sync::{Clock, Config, Effect, Event, Machine, Mode};

const ROWS: u64 = 1_000;
/// Rows of about 1 KB that fill a page.
const PAGE_ROWS: u64 = 64;
const NOW: u64 = 1_700_000_000_000;
const SCHEMA: &str =
    r#"{"Doc": {"key": ["id"], "collections": {"section": {"key": ["section"], "mutable": true}}}}"#;

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// A document of about 1 KB, with text that compresses like prose.
fn document(number: u64) -> BTreeMap<String, Value> {
    let words = [
        "river", "letter", "garden", "window", "market", "bridge", "forest", "history", "question", "harbour",
    ];
    let word = |at: u64| words[((number * 31 + at * 7 + (at * at) % 13) % 10) as usize];
    let text = |count: u64| (0..count).map(word).collect::<Vec<_>>().join(" ");
    BTreeMap::from([
        ("id".into(), Value::from(format!("d{number:07}").as_str())),
        ("section".into(), Value::from(format!("s{}", number % 10).as_str())),
        ("title".into(), Value::from(text(6).as_str())),
        ("n".into(), Value::from(number as i64)),
        ("open".into(), Value::from(number.is_multiple_of(2))),
        ("body".into(), Value::from(text(130).as_str())),
        ("release".into(), Value::from(1_i64)),
    ])
}

fn pk(number: u64) -> Pk {
    Pk::from_key(&[&format!("d{number:07}")]).expect("a key")
}

fn rows() -> Vec<Row> {
    let row = |number| {
        let data = Data::from_map(&document(number)).expect("a document");
        Row { pk: pk(number), v: NOW + number, deleted: false, max_life: None, data: Some(data) }
    };
    (0..ROWS).map(row).collect()
}

/// A reply with a whole class.
fn reply() -> SyncReply {
    let mut part = Part::empty(Def::class_of(&name("Doc")));
    part.rows = rows();
    part.present = Some((0..ROWS).map(pk).collect());
    SyncReply::of(Epoch::new(1, "bench").expect("an epoch"), NOW + ROWS, 10, vec![part])
}

fn clock() -> Clock {
    Clock { wall_ms: NOW, mono_ms: 1_000 }
}

/// A session without a device that has requested the class, and the number of that request.
fn asking() -> (Machine, u64) {
    let memory = Memory::new(Schema::from_json(SCHEMA).expect("a schema"));
    let config = Config {
        mode: Mode::Incognito,
        has_live: false,
        watches_silence: false,
        has_token: false,
        has_files: false,
        poll_every_ms: escale::limits::PULL_EVERY_MS,
    };
    let source = Box::new(SeededRandom::new(7));
    let mut machine = Machine::new(config, memory, None, Damage::default(), "bench".into(), source);
    let mut effects = machine.handle(Event::Started, clock());
    effects.extend(machine.handle(Event::Subscribe(Def::class_of(&name("Doc"))), clock()));
    let number = effects.iter().find_map(|effect| match effect {
        Effect::Send { number, .. } => Some(*number),
        _ => None,
    });
    (machine, number.expect("a request"))
}

fn apply(criterion: &mut Criterion) {
    let reply = reply();
    let mut group = criterion.benchmark_group("a part of 1,000 rows");
    group.throughput(Throughput::Elements(ROWS));
    group.bench_function("apply", |bencher| {
        bencher.iter_batched(
            || (asking(), reply.clone()),
            |((mut machine, number), reply)| {
                let effects = machine.handle(Event::Replied { number, reply: Ok(reply) }, clock());
                (machine, effects)
            },
            BatchSize::LargeInput,
        );
    });
    for (format, name) in [(Format::Msgpack, "msgpack"), (Format::Json, "JSON")] {
        let bytes = encode(format, &reply).expect("a reply");
        group.bench_function(format!("decode {name}"), |bencher| {
            bencher
                .iter(|| decode::<SyncReply>(format, black_box(&bytes), REPLY_BYTES_MAX).expect("a reply"));
        });
        group.bench_function(format!("encode {name}"), |bencher| {
            bencher.iter(|| encode(format, black_box(&reply)).expect("bytes"));
        });
    }
    group.bench_function("write as JSON text, for JavaScript", |bencher| {
        let rows = rows();
        let mut text = Vec::with_capacity(2 << 20);
        bencher.iter(|| {
            text.clear();
            for data in rows.iter().filter_map(|row| row.data.as_ref()) {
                data.write_json(&mut text).expect("text");
            }
            text.len()
        });
    });
    group.finish();
}

fn rest(criterion: &mut Criterion) {
    let mut random = SeededRandom::new(9);
    let keys = StoreKeys::derive(&AccountKey::make(&mut random).expect("a key"), &[3; 16]);
    let row = |row: Row| PageRow {
        class: name("Doc"),
        pk: row.pk,
        at: Stamp::new(0, row.v),
        data: row.data.expect("a document"),
    };
    let all: Vec<PageRow> = rows().into_iter().map(row).collect();
    for (count, name) in [(1, "a row"), (PAGE_ROWS as usize, "a page of 64 rows")] {
        let rows = &all[..count];
        let plain = encode_page(rows).expect("a page");
        let place = keys.record_key(Table::Pages, 1);
        let sealed = keys.seal(Table::Pages, place, &plain, &mut random).expect("sealed").into_bytes();
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function("pack and compress", |bencher| {
            bencher.iter(|| encode_page(black_box(rows)).expect("a page"));
        });
        group.bench_function("seal", |bencher| {
            bencher.iter(|| keys.seal(Table::Pages, place, black_box(&plain), &mut random).expect("sealed"));
        });
        group.bench_function("open", |bencher| {
            bencher.iter(|| keys.open(Table::Pages, place, black_box(&sealed)).expect("opened"));
        });
        group.bench_function("decompress and read", |bencher| {
            bencher.iter(|| decode_page(black_box(&plain)).expect("a page"));
        });
        group.finish();
    }
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    apply(&mut criterion);
    rest(&mut criterion);
    criterion.final_summary();
}
