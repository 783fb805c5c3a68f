//! The seeds of the corpus: valid encodings of each kind, made by the strategies of the wire's properties.
//!
//! `ESCALE_PLANT=1 cargo test --test hostile` writes the missing ones. Inputs that once broke a door are kept
//! next to them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use escale::codec::{Data, Encode, Fault, Format, ServerFrame, SyncReply, decode, encode, pack};
use escale::crypto::{DerivedKey, Header, SeededRandom, WrapKind};
use escale::journal::{
    Action, ActionType, Issued, JournalRecord, OpState, Outcome, Request, Signal, Wanted, make_id,
};
use escale::memory::Stamp;
use escale::model::{Epoch, Name, Pk, Value};
use escale::storage::decoders::{HighWater, StateRecord, encode_page};
use escale::storage::{JournalMark, PageRow};
use escale::store::Table;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use escale_testkit::hostile::{doors, session};
use escale_testkit::strategies;

/// Seeds of each kind.
const SEEDS: usize = 6;

/// The folder of a door's corpus.
pub fn folder(door: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(door)
}

/// The contents of a door's corpus, by file name.
pub fn corpus(door: &str) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder(door)).unwrap_or_else(|e| panic!("the corpus of {door}: {e}"));
    let mut found: Vec<(String, Vec<u8>)> = files
        .map(|file| {
            let path = file.expect("a file").path();
            (path.file_name().expect("a name").to_string_lossy().into(), fs::read(&path).expect("bytes"))
        })
        .collect();
    found.sort_unstable();
    found
}

/// Writes the seeds of every door.
pub fn plant() {
    for door in doors::DOORS {
        fs::create_dir_all(folder(door.name)).expect("a folder");
        for (number, bytes) in seeds(door.name).into_iter().enumerate() {
            fs::write(folder(door.name).join(format!("seed-{number:02}")), bytes).expect("written");
        }
    }
}

fn seeds(door: &str) -> Vec<Vec<u8>> {
    match door {
        "row" => any(strategies::map())
            .iter()
            .map(|map| Data::from_map(map).expect("small").as_bytes().to_vec())
            .collect(),
        "page" => pages(),
        "header" => headers(),
        "journal" => records().iter().map(|record| record.encode().expect("a record")).collect(),
        "state" => states().iter().map(|state| state.encode().expect("a record")).collect(),
        "mark" => marks().iter().map(|mark| pack(mark).expect("numbers")).collect(),
        "inbox" => wanted().into_iter().enumerate().map(request).collect(),
        "sealed" => [&b""[..], b"a page", &[7; 300]].into_iter().map(seal).collect(),
        "reply" => both(&any(strategies::reply())),
        "frame" => both(&any(strategies::frame())),
        "request" => both(&any(strategies::request())),
        "have" => both(&any(strategies::have())),
        "live" => both(&any(strategies::live())),
        "json" => written(Format::Json, &any(strategies::value())),
        "msgpack" => written(Format::Msgpack, &any(strategies::value())),
        "schema" => SCHEMAS.iter().map(|text| text.as_bytes().to_vec()).collect(),
        "session" => lies(),
        other => panic!("no seeds for {other}"),
    }
}

/// Some values of a strategy, always the same ones.
fn any<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> Vec<T> {
    let mut runner = TestRunner::deterministic();
    (0..SEEDS).map(|_| strategy.new_tree(&mut runner).expect("a value").current()).collect()
}

fn written<T: Encode>(format: Format, messages: &[T]) -> Vec<Vec<u8>> {
    messages.iter().map(|message| encode(format, message).expect("written")).collect()
}

fn both<T: Encode>(messages: &[T]) -> Vec<Vec<u8>> {
    [Format::Msgpack, Format::Json].into_iter().flat_map(|format| written(format, messages)).collect()
}

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

fn pk(text: &str) -> Pk {
    Pk::from_key(&[text]).expect("a pk")
}

fn data(text: &str) -> Data {
    let map = [("id".to_owned(), Value::from(text)), ("size".to_owned(), Value::from(7))];
    Data::from_map(&map.into()).expect("small")
}

fn rows(count: u64) -> Vec<PageRow> {
    let row = |n: u64| PageRow {
        class: name("Doc"),
        pk: pk(&n.to_string()),
        at: Stamp::new(0, n),
        data: data("a text that comes again"),
    };
    (0..count).map(row).collect()
}

/// Bodies without their magic and checksum, which the door adds; and a complete header.
fn headers() -> Vec<Vec<u8>> {
    let mut random = SeededRandom::new(3);
    let x = DerivedKey::from_bytes([3; 32]);
    let mut made = |by, rounds| Header::make(by, &x, rounds, &mut random).expect("a header").0.to_bytes();
    let (passphrase, key) = (made(WrapKind::Passphrase, 600_000), made(WrapKind::Key, 0));
    let body = |whole: &[u8]| whole[6..whole.len() - 32].to_vec();
    vec![body(&passphrase), body(&key), passphrase]
}

fn records() -> Vec<JournalRecord> {
    let plain = JournalRecord::of("0190b3c4-0000-7000-8000-000000000000".into(), 0);
    let action =
        |kind, data| Action { rowid: 3, class: name("Doc"), pk: pk("a"), kind, at: 1, commit: Some(9), data };
    let issued = Issued {
        id: "0190b3c4-0000-7000-8000-000000000001".into(),
        name: "doc.patch".into(),
        args: Value::from([("class", Value::from("Doc")), ("set", Value::from([("n", Value::from(1))]))]),
        at: 1_700_000_000_000,
        touches: vec![(name("Doc"), pk("a"))],
        after: vec!["0190b3c4-0000-7000-8000-000000000002".into()],
        base: Some(data("base")),
        bases: vec![(name("Doc"), pk("b"), data("other"))],
        insists: vec![0],
        policies: Some(BTreeMap::from([("Doc".to_owned(), Value::from("merge"))])),
    };
    let op = OpState {
        order: 1,
        issued,
        given: vec![(0, 1)],
        accepted: Some(12),
        trees: vec![(name("Wall"), pk("w"), 3)],
        seq: Some(4),
        refused: Some(Fault::new(escale::Code::VersionConflict, "by the test")),
        seen: Some(1),
        drafts: vec![(name("Doc"), pk("d"), data("draft"))],
        seen_on: vec![(name("Doc"), pk("a"), 1)],
        value: Some(Value::from("returned")),
        replaces: vec!["0190b3c4-0000-7000-8000-000000000003".into()],
    };
    let over = JournalRecord {
        number: 8,
        seq: Some(4),
        actions: vec![action(ActionType::Create, None), action(ActionType::Persist, Some(data("after")))],
        lost: true,
        outcome: Some(Outcome::Accepted { v: 12, value: Some(Value::from(true)) }),
        replaces: vec!["0190b3c4-0000-7000-8000-000000000004".into()],
        ..plain.clone()
    };
    let failed = Some(Outcome::Failed("bad_value".into(), "by the test".into()));
    vec![
        plain.clone(),
        JournalRecord { op: Some(op), ..plain.clone() },
        over,
        JournalRecord { outcome: failed, ..plain },
    ]
}

fn pages() -> Vec<Vec<u8>> {
    [0, 1, 3, 40].into_iter().map(|count| encode_page(&rows(count)).expect("a page")).collect()
}

/// State records of a working session: its first one, then the changes of a batch.
fn states() -> Vec<StateRecord> {
    // Documents `a`, on a page, and `b`, which left; then the link of `a`, and the mark of `b`.
    let documents = b"\x01\x03Doc\x02\x01\x01a\x00\x0e\x06\x00\x63\x00\x01b";
    let links = b"\x01\x03Doc\x02\x3b\x43\x00\x01";
    let texts = [
        (r#"[3,0,2,5,[1,1,2,1,0],[["session",[1,"r"],0,"{}"],[["Doc",[[0,7],true,null]]]]]"#, vec![0, 0]),
        (
            r#"[4,0,2,6,[0,0,2,1,0],[null,[["Doc@a",null]]],{"puts":[1],"deletes":[0]}]"#,
            [&documents[..], links].concat(),
        ),
    ];
    let read = |(text, rows): (&str, Vec<u8>)| {
        let tree: serde_json::Value = serde_json::from_str(text).expect("JSON");
        let first = rmp_serde::to_vec(&tree).expect("msgpack");
        let bytes = [&[first.len() as u8][..], &first, &rows].concat();
        StateRecord::decode(&bytes).expect("a state record")
    };
    let mut states: Vec<StateRecord> = texts.into_iter().map(read).collect();
    let mut far = states[0].clone();
    far.number = u64::MAX;
    far.journal = JournalMark { records: u64::MAX, ..far.journal };
    if let Some(head) = &mut far.delta.head {
        head.epoch = Some(Epoch::new(escale::limits::VERSION_MAX, "z").expect("an epoch"));
    }
    states.push(far);
    states
}

fn marks() -> Vec<HighWater> {
    let mark = |n, epoch| HighWater {
        next_record: n,
        next_page: n,
        records: n,
        journal: JournalMark { records: n, pending: n, next_record: n, last_seq: n, name: n },
        session: "c2Vzc2lvbg".into(),
        epoch,
    };
    let epoch = Epoch::new(1_700_000_000_000, "z").expect("an epoch");
    vec![mark(0, (None, 0)), mark(300, (Some(epoch), 1)), mark(u64::MAX, (None, u32::MAX))]
}

fn wanted() -> Vec<Wanted> {
    let write = Issued {
        id: "0190b3c4-0000-7000-8000-000000000005".into(),
        name: "doc.put".into(),
        args: Value::from([("data", Value::from([("id", Value::from("a"))]))]),
        at: 1,
        touches: vec![(name("Doc"), pk("a"))],
        after: Vec::new(),
        base: Some(data("base")),
        bases: vec![(name("Doc"), pk("b"), data("other"))],
        insists: vec![0],
        policies: Some(BTreeMap::new()),
    };
    let (id, new) = (write.id.clone(), "0190b3c4-0000-7000-8000-000000000006".to_owned());
    vec![
        Wanted::Write(write),
        Wanted::Amend { id: id.clone(), new, args: Some(Value::Null) },
        Wanted::Discard(id),
        Wanted::Subscribe("Doc".parse().expect("a def")),
        Wanted::Signal(Signal::Avion),
    ]
}

fn request((stamp, wanted): (usize, Wanted)) -> Vec<u8> {
    Request { stamp: stamp as u64, wanted, phase: None }.encode().expect("a request")
}

fn seal(plain: &[u8]) -> Vec<u8> {
    let (keys, mut random) = (doors::keys(), SeededRandom::new(plain.len() as u64));
    let place = keys.record_key(Table::Pages, 7);
    keys.seal(Table::Pages, place, plain, &mut random).expect("sealed").into_bytes()
}

/// Well-formed messages to a session, each of which contains something false.
fn lies() -> Vec<Vec<u8>> {
    let mut random = SeededRandom::new(9);
    let ids: Vec<String> = (0..3).map(|_| make_id(session::WALL, &mut random).expect("an id")).collect();
    let [whole, section] = session::DEFS;
    let (a, b) = (pk("a"), pk("b"));
    let row = format!(r#"{{"pk":"{b}","v":5,"data":{{"id":"b","section":"s"}}}}"#);
    let reply = |tail: &str| format!(r#"{{"p":1,"epoch":[1,"r"],"now":9,"delta":1,{tail}}}"#);
    let ok = |id: &str| format!(r#"{{"id":"{id}","ok":{{"v":5}}}}"#);
    let fault = |id: &str, code: &str, kind: &str| {
        format!(r#"{{"id":"{id}","fault":{{"code":"{code}","kind":"{kind}","doc":{row}}}}}"#)
    };
    let replies = [
        reply(&format!(
            r#""seq":3,"results":[{},{}],"parts":[{{"def":"{whole}","rows":[{row}],"present":["{b}"]}}]"#,
            ok(&ids[1]),
            ok(&ids[2])
        )),
        reply(&format!(
            r#""seq":9,"results":[{}],"parts":[{{"def":"{section}","rows":[{row}],"left":[["{a}",7]]}},{{"def":"{whole}","next":"c","total":7}}]"#,
            ok(&ids[0])
        )),
        reply(&format!(
            r#""seq":0,"results":[{}],"parts":[{{"def":"{whole}","fault":{{"code":"contention","kind":"C"}}}}]"#,
            fault(&ids[1], "version_conflict", "A")
        )),
        reply(&format!(r#""seq":1,"results":[{}],"parts":[]"#, fault(&ids[1], "session_reused", "A"))),
        r#"{"p":1,"epoch":[9,"z"],"now":900,"delta":1,"seq":0,"results":[],"parts":[]}"#.to_owned(),
    ];
    let frames = [
        format!(r#"{{"live":["{whole}"],"refused":[["{section}",{{"code":"forbidden","kind":"S"}}]]}}"#),
        format!(r#"{{"hints":[["{whole}",8]]}}"#),
        reply(&format!(
            r#""seq":3,"parts":[{{"def":"{whole}","rows":[{row},{{"pk":"{a}","v":8,"deleted":true}}]}}]"#
        )),
        "{}".to_owned(),
    ];
    let framed = |kind: u8, bytes: &[u8]| [&[kind], &(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let packed = |kind: u8, text: &String| match kind {
        0 => {
            let reply: SyncReply = decode(Format::Json, text.as_bytes(), 1 << 20).expect("a reply");
            framed(0, &encode(Format::Msgpack, &reply).expect("written"))
        }
        _ => {
            let frame: ServerFrame = decode(Format::Json, text.as_bytes(), 1 << 20).expect("a frame");
            framed(1, &encode(Format::Msgpack, &frame).expect("written"))
        }
    };
    let mut lies: Vec<Vec<u8>> = replies.iter().map(|text| packed(0, text)).collect();
    lies.extend(frames.iter().map(|text| packed(1, text)));
    lies.push([framed(2, replies[0].as_bytes()), framed(3, frames[2].as_bytes())].concat());
    lies.push(lies.concat());
    lies
}

const SCHEMAS: [&str; 3] = [
    r#"{"A":{"key":["x","y"],"release":3,"sync":false,"properties":{"z":"string[]"},"collections":{"c":{"key":["p","q"]},"l":{"key":["t"],"list":true,"mutable":true}},"indexes":{"i":"integer","u":{"type":"hash","property":"mail","unique":true}}}}"#,
    r#"{"Doc":{"key":["id"],"collections":{"section":{"key":["section"],"mutable":true}},"indexes":{"size":"number"}},"Note":{"key":["id"]}}"#,
    r#"{"A":{"key":["x"],"clock":"time","sealed":false,"indexes":{"g":{"type":"string","global":true}}}}"#,
];
