//! The bytes of a store, written once and checked in. A later version of the product must open them, and the
//! format cannot change unnoticed (docs/format.md).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use escale::codec::Data;
use escale::crypto::{DerivedKey, Header, SeededRandom, StoreKeys, WrapKind, kdf_salt, store_name};
use escale::journal::JournalRecord;
use escale::model::schema::Schema;
use escale::model::{Pk, Value};
use escale::storage::decoders::{StateRecord, decode_page};
use escale::storage::{AccountOptions, FoundPage, open_account};
use escale::store::conformance::block_on;
use escale::store::{MemoryDevice, RecordKey, Store, Table};
use escale::sync::{Clock, Event, Write};
use escale_testkit::client::{Client, Opening, Quiet};

const ORG: &str = "demo";
const ACCOUNT: &str = "ada";
const X: [u8; 32] = [0x42; 32];
const SCHEMA: &str =
    r#"{"Package":{"key":["name"],"collections":{"section":{"key":["section"],"mutable":true}}}}"#;
const SECTION: &str = "Package/section@xh_YvT52_nfgO4EKRC2C8g";

/// The format of stores.
const FORMAT: u16 = 1;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/format-{FORMAT}"))
}

/// Files by name: `header.bin`, and a file for each record, named by its table and its key in hexadecimal.
type Files = BTreeMap<String, Vec<u8>>;

fn file_name(table: Table, key: RecordKey) -> String {
    let hex: String = key.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{}-{hex}.bin", table.name())
}

fn record_of(name: &str) -> Option<(Table, RecordKey)> {
    let (table, hex) = name.strip_suffix(".bin")?.split_once('-')?;
    let table = Table::ALL.into_iter().find(|of| of.name() == table)?;
    let mut key = [0; 16];
    for (place, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(place * 2..place * 2 + 2)?, 16).ok()?;
    }
    Some((table, RecordKey(key)))
}

fn checked_in() -> Files {
    let entries = std::fs::read_dir(folder()).expect("a folder of tests/fixtures");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("a file");
        (entry.file_name().into_string().expect("a name"), std::fs::read(entry.path()).expect("bytes"))
    };
    entries.map(read).filter(|(name, _)| name.ends_with(".bin")).collect()
}

fn options(create: bool) -> AccountOptions<'static> {
    AccountOptions { org: ORG, account: ACCOUNT, by: WrapKind::Passphrase, rounds: 600_000, create }
}

fn schema() -> Schema {
    Schema::from_json(SCHEMA).expect("a schema")
}

fn data(name: &str, edition: i64) -> BTreeMap<String, Value> {
    let long = "all work and no play makes Jack a dull boy. ".repeat(20);
    BTreeMap::from([
        ("name".to_owned(), name.into()),
        ("section".to_owned(), "games".into()),
        ("size".to_owned(), Value::from(edition)),
        ("text".to_owned(), Value::String(long)),
        ("raw".to_owned(), Value::Bytes(vec![0, 1, 254, 255])),
    ])
}

/// A reply of the protocol in JSON, so that this test depends on nothing but the names of the protocol.
fn reply(now: u64, parts: &str) -> escale::codec::SyncReply {
    let text = format!(r#"{{"p":1,"epoch":[1600000000000,"e"],"now":{now},"delta":2000,"parts":[{parts}]}}"#);
    escale::codec::decode(escale::codec::Format::Json, text.as_bytes(), 1 << 20).expect("a reply")
}

fn row(name: &str, v: u64, edition: i64, life: &str) -> String {
    let pk = Pk::from_key(&[name]).expect("a pk");
    let data = Data::from_map(&data(name, edition)).expect("data");
    let data = String::from_utf8(escale::codec::encode(escale::codec::Format::Json, &data).expect("JSON"));
    format!(r#"{{"pk":"{pk}","v":{v}{life},"data":{}}}"#, data.expect("text"))
}

/// The history of the fixtures: two subscriptions, a load, a change, a departure, a load that is not
/// finished.
fn replies() -> Vec<(u64, String)> {
    let rows = [
        row("0ad", 1000, 1, ""),
        row("bastet", 1000, 1, ""),
        row("chess", 1001, 1, r#","maxLife":29000000"#),
    ];
    let left = Pk::from_key(&["bastet"]).expect("a pk");
    vec![
        (5_000, format!(r#"{{"def":"Package","rows":[{}],"next":"cursor-1","total":9}}"#, rows.join(","))),
        (6_000, format!(r#"{{"def":"{SECTION}","rows":[{}]}}"#, rows[..2].join(","))),
        (
            9_000,
            format!(
                r#"{{"def":"{SECTION}","rows":[{}],"left":[["{left}",8500]]}}"#,
                row("0ad", 8_400, 2, "")
            ),
        ),
    ]
}

/// Plays the history on a new store whose random bytes all come from a seed.
fn write() -> Files {
    let device = MemoryDevice::new();
    let (by, rounds) = (WrapKind::Passphrase, 600_000);
    let opening = Opening { x: X, by, rounds, ..Opening::of(ORG, ACCOUNT, schema()) };
    let clock = Clock { wall_ms: 1_000, mono_ms: 1_000 };
    let mut client = Client::of(opening.open(&device).expect("made"), clock, Quiet);
    let step = |client: &mut Client, event| {
        client.pass(300_000);
        client.feed(event);
    };
    step(&mut client, Event::Started);
    step(&mut client, Event::Subscribe("Package".parse().expect("a def")));
    step(&mut client, Event::Subscribe(SECTION.parse().expect("a def")));
    for (now, parts) in replies() {
        // If no request is in flight, five minutes pass, and everything is pulled.
        if client.sent.is_none() {
            step(&mut client, Event::Woke);
        }
        let (number, _) = client.sent.take().expect("a request in flight");
        step(&mut client, Event::Replied { number, reply: Ok(reply(now, &parts)) });
    }
    let data = Value::from([("name", "doom"), ("section", "games")].map(|(name, text)| (name, text.into())));
    let args = Value::from([("class", "Package".into()), ("data", data)]);
    let id = "0198f6f4-0000-7000-8000-000000000001".to_owned();
    let write = Write { id, name: "doc.put".into(), args, touches: Vec::new(), after: Vec::new() };
    step(&mut client, Event::Write(write));
    let mut files = Files::new();
    device.tamper_header(&store_name(ORG, ACCOUNT), |header| {
        files.insert("header.bin".into(), header.clone().expect("a header"));
    });
    device.tamper(&store_name(ORG, ACCOUNT), |records| {
        files.extend(records.iter().map(|((table, key), bytes)| (file_name(*table, *key), bytes.clone())));
    });
    files
}

/// The checked-in files, opened as a device.
fn device() -> MemoryDevice {
    let device = MemoryDevice::new();
    let name = store_name(ORG, ACCOUNT);
    drop(block_on(escale::store::Device::open(&device, &name, true)).expect("made"));
    let files = checked_in();
    device.tamper_header(&name, |header| *header = files.get("header.bin").cloned());
    device.tamper(&name, |records| {
        records.extend(files.iter().filter_map(|(name, bytes)| Some((record_of(name)?, bytes.clone()))));
    });
    device
}

/// `ESCALE_WRITE_FIXTURES=1` writes the files: only for a new format, in a separate folder.
#[test]
fn the_format_is_written_as_it_was() {
    let files = write();
    if std::env::var_os("ESCALE_WRITE_FIXTURES").is_some() {
        std::fs::create_dir_all(folder()).expect("a folder");
        for (name, bytes) in &files {
            std::fs::write(folder().join(name), bytes).expect("written");
        }
    }
    let found = checked_in();
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        files.keys().collect::<Vec<_>>(),
        "the names of the records"
    );
    assert!(found["header.bin"] == files["header.bin"], "the header is not written as it was");
    let keys = keys(&found);
    for (name, bytes) in &files {
        let Some((table, key)) = record_of(name) else { continue };
        // Nonces are not part of the format.
        let plain = |sealed: &[u8]| keys.open(table, key, sealed).expect("sealed for its place");
        assert!(
            plain(&found[name]) == plain(bytes),
            "{name} is not written as it was: is this a new format?"
        );
    }
}

/// The keys of the store.
fn keys(files: &Files) -> StoreKeys {
    let header = Header::from_bytes(&files["header.bin"]).expect("a header");
    let key = header.unwrap(WrapKind::Passphrase, &DerivedKey::from_bytes(X)).expect("K");
    StoreKeys::derive(&key, header.store_id())
}

#[test]
fn a_checked_in_store_opens_with_everything_in_it() {
    let device = device();
    let derive = async |rounds| {
        assert_eq!(rounds, 600_000);
        Ok(DerivedKey::from_bytes(X))
    };
    let random = &mut SeededRandom::new(9);
    let opened = block_on(open_account(&device, &options(false), schema(), derive, random)).expect("opened");
    assert!(!opened.damage.any());
    assert_eq!(opened.layout.session(), "qD1-Nd4YF0mWZ2F0jlxDyw");
    let memory = &opened.memory;
    let (epoch, era) = memory.epoch();
    assert_eq!((epoch.map(|epoch| epoch.ms()), era), (Some(1_600_000_000_000), 0));
    let whole = memory.collection(&"Package".parse().expect("a def")).expect("subscribed");
    let load = whole.load.as_ref().expect("a load under way");
    assert_eq!((whole.v(0), whole.ready, whole.set.len()), (0, false, 3));
    assert_eq!((load.cursor.as_str(), load.since, load.settle, load.received), ("cursor-1", 0, 3_000, 3));
    assert_eq!(load.total, Some(9));
    let section = memory.collection(&SECTION.parse().expect("a def")).expect("subscribed");
    let bastet = Pk::from_key(&["bastet"]).expect("a pk");
    assert_eq!((section.v(0), section.ready, section.set.len()), (7_000, true, 1));
    assert_eq!(section.set.mark(&bastet).map(|mark| mark.v), Some(8_500));
    let mut found = BTreeMap::new();
    for (key, document) in memory.documents() {
        let place = document.slot.expect("at rest");
        let key_of = opened.layout.page_key(place.page);
        let sealed =
            block_on(opened.store.get(Table::Pages, &[key_of])).expect("read").remove(0).expect("there");
        let row = opened
            .layout
            .open_page(place.page, &FoundPage::Sealed(sealed))
            .expect("whole")
            .swap_remove(place.slot as usize);
        assert_eq!((row.class.as_str(), &row.pk, row.at), ("Package", &key.1, document.at));
        assert_eq!(row.data.as_bytes().len(), place.bytes as usize);
        found.insert(
            row.data.to_map().expect("a map")["name"].clone().as_str().expect("a name").to_owned(),
            (document.at.v, document.max_life, row.data.to_map().expect("a map")),
        );
    }
    let wanted = BTreeMap::from([
        ("0ad".to_owned(), (8_400, None, data("0ad", 2))),
        ("bastet".to_owned(), (1_000, None, data("bastet", 1))),
        ("chess".to_owned(), (1_001, Some(29_000_000), data("chess", 1))),
    ]);
    assert_eq!(found, wanted);
    let [record] = &opened.journal.records[..] else { panic!("one record: {:?}", opened.journal.records) };
    let op = record.op.as_ref().expect("an operation that waits");
    let doom = Pk::from_key(&["doom"]).expect("a pk");
    assert_eq!(
        (op.issued.id.as_str(), op.issued.name.as_str()),
        ("0198f6f4-0000-7000-8000-000000000001", "doc.put")
    );
    assert_eq!(op.issued.touches, [("Package".parse().expect("a name"), doom.clone())]);
    assert_eq!((op.accepted, op.refused.is_some(), op.seen), (None, false, None));
    let kinds: Vec<_> = record.actions.iter().map(|action| (action.kind.as_str(), action.commit)).collect();
    assert_eq!(kinds, [("create", None), ("persist", None)]);
    assert!(record.actions.iter().all(|action| action.pk == doom));
}

/// The parts of the format, one by one, as docs/format.md describes them.
#[test]
fn the_format_part_by_part() {
    let files = checked_in();
    let bytes = &files["header.bin"];
    assert_eq!(bytes[..6], [b"ESCL".as_slice(), &FORMAT.to_be_bytes()].concat());
    assert_eq!(kdf_salt(ORG, ACCOUNT).len(), 32);
    assert_eq!(store_name(ORG, ACCOUNT), "escale1-5lCdjSWTdOCIu5M6rTTLeA");
    let keys = keys(&files);
    let (mut numbers, mut operations) = (BTreeSet::new(), 0);
    for (name, sealed) in files.iter().filter(|(name, _)| *name != "header.bin") {
        let (table, key) = record_of(name).expect("a record");
        let plain = keys.open(table, key, sealed).expect("sealed for its place");
        assert_eq!(sealed.len(), plain.len() + 28, "nonce and tag");
        match table {
            Table::State => {
                let record = StateRecord::decode(&plain).expect("a state record");
                assert_eq!(keys.record_key(table, record.number), key);
                assert_eq!((record.base, record.chunks), (0, 2));
                numbers.insert(record.number);
            }
            Table::Pages => {
                assert_eq!(plain[0], 1, "compressed");
                assert!(!decode_page(&plain).expect("a page").is_empty());
            }
            Table::Journal => {
                let record = JournalRecord::decode(&plain).expect("a journal record");
                assert_eq!(keys.record_key(table, record.number), key);
                operations += 1;
            }
            Table::Inbox => panic!("a session alone hands nothing in"),
        }
    }
    assert_eq!(numbers, (0..numbers.len() as u64).collect(), "contiguous");
    assert_eq!(operations, 1);
}
