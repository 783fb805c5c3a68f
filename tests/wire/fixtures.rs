//! Bytes written by `@msgpack/msgpack` under Node, checked in with the program that wrote them
//! (`tests/msgpack/write-fixtures.mjs`); and bytes written here, which `tests/msgpack/ours.test.mjs` reads
//! there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use escale::codec::{
    Data, Decode, Format, LiveRequest, Part, Row, ServerFrame, Sub, SyncReply, SyncRequest, decode, encode,
};
use escale::model::{Epoch, Number, Pk, Value};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/msgpack")
}

fn bytes(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read<T: Decode>(name: &str) -> T {
    decode(Format::Msgpack, &bytes(name), 1 << 20).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The document of the fixtures: every kind of value, at the edges of their encodings.
fn document() -> BTreeMap<String, Value> {
    let integers = [
        0,
        1,
        127,
        128,
        255,
        256,
        65_535,
        65_536,
        4_294_967_295,
        4_294_967_296,
        9_007_199_254_740_991,
        -1,
        -32,
        -33,
        -128,
        -129,
        -32_768,
        -32_769,
        -2_147_483_648,
        -2_147_483_649,
        -9_007_199_254_740_991,
    ];
    let floats = [0.5, -0.1, 1e300, 5e-324, 9_007_199_254_740_992.0];
    let text = |len: usize| Value::String("x".repeat(len));
    let mut map = BTreeMap::new();
    map.insert("integers".into(), Value::Array(integers.into_iter().map(Value::from).collect()));
    let floats = floats.into_iter().map(|f| Value::Number(Number::new(f).expect("finite")));
    map.insert("floats".into(), Value::Array(floats.collect()));
    map.insert("texts".into(), Value::Array([0, 1, 31, 32, 255, 256, 65_536].map(text).into()));
    map.insert("unicode".into(), "\u{e9}\u{4e2d}\u{1f600}\u{0}".into());
    map.insert("nothing".into(), Value::Null);
    map.insert("flags".into(), Value::Array(vec![true.into(), false.into()]));
    let raw = |len: usize| Value::Bytes((0..len).map(|n| n as u8).collect());
    map.insert("raw".into(), Value::Array([0, 1, 255, 256, 65_536].map(raw).into()));
    map.insert("list".into(), Value::Array((0..20).map(Value::from).collect()));
    let many = (0..20).map(|n| (format!("k{n}"), Value::from(n)));
    map.insert("map".into(), Value::Map(many.collect()));
    map.insert("$bytes".into(), "a key of its own".into());
    map
}

/// A small document, for the replies.
fn small() -> BTreeMap<String, Value> {
    BTreeMap::from([
        ("unicode".to_owned(), "\u{e9}\u{4e2d}\u{1f600}".into()),
        ("raw".to_owned(), Value::Bytes(vec![0, 1, 2])),
        ("$bytes".to_owned(), "a key of its own".into()),
        (
            "n".to_owned(),
            Value::Array(vec![1.into(), (-1).into(), Value::Number(Number::new(0.5).expect("finite"))]),
        ),
    ])
}

fn request() -> SyncRequest {
    let sub = |def: &str, v, cursor: Option<&str>| Sub {
        def: def.parse().expect("a def"),
        v,
        cursor: cursor.map(Into::into),
    };
    let subs = vec![
        sub("Article", 0, None),
        sub("Article@E8QD73URYucI8dur4zj-2Q", 1_700_000_000_000, None),
        sub("Article/auteurs@BTziUq_SSySPM1Z0dmeokg", 5, Some("cursor")),
    ];
    SyncRequest { subs, ..SyncRequest::of("session") }
}

fn reply() -> SyncReply {
    let pk = |text| Pk::parse(text).expect("a pk");
    let data = Data::from_map(&small()).expect("data");
    let part = Part {
        rows: vec![
            Row { pk: pk("a"), v: 7, deleted: false, max_life: Some(28_333_333), data: Some(data) },
            Row { pk: pk("b"), v: 8, deleted: true, max_life: None, data: None },
        ],
        left: vec![(pk("c"), 9)],
        present: Some(vec![pk("a"), pk("d")]),
        total: Some(3),
        ..Part::empty("Article".parse().expect("a def"))
    };
    let epoch = Epoch::new(1_600_000_000_000, "random").expect("an epoch");
    SyncReply { seq: 4, ..SyncReply::of(epoch, 1_700_000_000_000, 2_000, vec![part]) }
}

#[test]
fn what_node_wrote_is_read_here() {
    let data = Data::from_bytes(&bytes("document.bin")).expect("small enough");
    assert_eq!(data.to_map().expect("a map"), document());
    assert_eq!(read::<SyncRequest>("request.bin"), request());
    let found: SyncReply = read("reply.bin");
    found.check().expect("a reply");
    let (wanted, found_data) = (reply(), found.parts[0].rows[0].data.clone().expect("data"));
    assert_eq!(found_data.to_map().expect("a map"), small());
    // `data` keeps the bytes that Node wrote: everything else is equal.
    let mut found = found;
    found.parts[0].rows[0].data = wanted.parts[0].rows[0].data.clone();
    assert_eq!(found, wanted);
    let live: LiveRequest = read("live.bin");
    assert_eq!((live.token.as_deref(), live.subs.len()), (Some("secret"), 2));
    let hints: ServerFrame = read("hints.bin");
    assert_eq!(hints, ServerFrame::Hints(vec![("Article".parse().expect("a def"), 1_700_000_000_001)]));
    assert_eq!(read::<ServerFrame>("alive.bin"), ServerFrame::Alive);
}

#[test]
fn what_node_writes_of_other_types_is_refused() {
    for name in ["extension.bin", "timestamp.bin"] {
        let data = Data::from_bytes(&bytes(name)).expect("small enough");
        assert_eq!(data.to_map().expect_err(name).code(), escale::Code::BadValue);
    }
}

/// The bytes written here, checked in so that Node reads the output of this version.
/// `ESCALE_WRITE_FIXTURES=1` writes them again.
#[test]
fn what_we_write_is_what_is_checked_in() {
    let ours = [
        ("ours-document.bin", Data::from_map(&document()).expect("data").as_bytes().to_vec()),
        ("ours-request.bin", encode(Format::Msgpack, &request()).expect("written")),
        ("ours-reply.bin", encode(Format::Msgpack, &reply()).expect("written")),
        ("ours-reply.json", encode(Format::Json, &reply()).expect("written")),
    ];
    for (name, wanted) in ours {
        if std::env::var_os("ESCALE_WRITE_FIXTURES").is_some() {
            std::fs::write(folder().join(name), &wanted).expect("written");
        }
        assert!(bytes(name) == wanted, "{name} is not what is written now");
    }
}
