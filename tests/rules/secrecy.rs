//! R13 and R15: the stored bytes reveal only how many records there are and how long they are.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use escale::codec::{Data, Part, Row, SyncReply};
use escale::crypto::{Random, StoreKeys, SystemRandom, store_name};
use escale::model::schema::Schema;
use escale::model::{Def, Epoch, Name, Pk, Value};
use escale::store::{MemoryDevice, Table};
use escale::sync::{Clock, Event};
use escale_testkit::client::{Client, Opening, Quiet};

const SCHEMA: &str = r#"{"Zwergpinguin":{"key":["kennzeichen"],
    "collections":{"nistplatz":{"key":["nistplatz"],"mutable":true}},
    "indexes":{"fluegelspanne":"integer"}}}"#;
const X: [u8; 32] = *b"the key of the application, 32 b";
const ORG: &str = "organisation-quokka";
const ACCOUNT: &str = "account-wallaby";
const VALUES: [&str; 4] =
    ["kennzeichen-0815", "nistplatz-feuerland", "geheimnis-kaktus", "umlaut-\u{e4}\u{f6}\u{fc}"];

fn opening(seed: u64) -> Opening<'static> {
    let schema = Schema::from_json(SCHEMA).expect("a schema");
    Opening { x: X, seed, session_seed: seed + 1, ..Opening::of(ORG, ACCOUNT, schema) }
}

/// A session that loaded, changed and lost documents. Returns all stored bytes, and the words that must not
/// appear in them.
fn run() -> (Vec<u8>, Vec<Vec<u8>>) {
    let device = MemoryDevice::new();
    let opened = opening(77).open(&device).expect("made");
    let keys = StoreKeys::derive(&opened.key, opened.header.store_id());
    let session = opened.machine.session().to_owned();
    let name = |text: &str| Name::new(text).expect("a name");
    let defs = [
        Def::class_of(&name("Zwergpinguin")),
        Def::collection(&name("Zwergpinguin"), &name("nistplatz"), &[VALUES[1]]).expect("a def"),
    ];
    let mut client = Client::of(opened, Clock { wall_ms: 10_000, mono_ms: 10_000 }, Quiet);
    client.feed(Event::Started);
    defs.iter().for_each(|def| client.feed(Event::Subscribe(def.clone())));
    for round in 0..5 {
        if round > 0 {
            client.pass(400_000);
            client.feed(Event::Woke);
        }
        while let Some((number, request)) = client.sent.take() {
            let parts = request.subs.iter().map(|sub| part(&sub.def, round)).collect();
            let reply = reply(client.clock.wall_ms, parts);
            client.feed(Event::Replied { number, reply: Ok(reply) });
        }
    }
    assert_eq!(client.machine.memory().documents().count(), 1);
    let mut all = Vec::new();
    let store = store_name(ORG, ACCOUNT);
    device.tamper_header(&store, |header| all.extend(header.clone().expect("a header")));
    device.tamper(&store, |records| {
        for ((_, key), bytes) in records.iter() {
            all.extend(key.0);
            all.extend(bytes);
        }
    });
    let mut words: Vec<Vec<u8>> = VALUES.iter().map(|value| value.as_bytes().to_vec()).collect();
    for word in ["Zwergpinguin", "nistplatz", "kennzeichen", "fluegelspanne", ORG, ACCOUNT, &session] {
        words.push(word.as_bytes().to_vec());
    }
    words.extend(defs.iter().map(|def| def.to_string().into_bytes()));
    words.push(pk().as_str().as_bytes().to_vec());
    words.push(X.to_vec());
    // The sub-keys that open records are not stored either.
    words.push(keys.record_key(Table::Journal, 0).0.to_vec());
    (all, words)
}

fn pk() -> Pk {
    Pk::from_key(&[VALUES[0]]).expect("a pk")
}

fn part(def: &Def, round: u64) -> Part {
    let map = [
        ("kennzeichen".to_owned(), VALUES[0].into()),
        ("nistplatz".to_owned(), VALUES[1].into()),
        ("note".to_owned(), VALUES[2].into()),
        (VALUES[3].to_owned(), Value::Array(vec![VALUES[3].into(), Value::from(round as i64)])),
        ("fluegelspanne".to_owned(), Value::from(round as i64)),
    ];
    let data = Data::from_map(&map.into()).expect("data");
    let row = Row { pk: pk(), v: 5_000 + round, deleted: false, max_life: None, data: Some(data) };
    Part { rows: vec![row], ..Part::empty(def.clone()) }
}

fn reply(now: u64, parts: Vec<Part>) -> SyncReply {
    let epoch = Epoch::new(1, "e").expect("an epoch");
    SyncReply::of(epoch, now, 100, parts)
}

/// The forms in which a word could appear, each long enough not to occur by chance.
fn forms(word: &[u8]) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::from([word.to_vec()]);
    if let Ok(text) = std::str::from_utf8(word) {
        forms.insert(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
        forms.insert(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
    }
    let hex: String = word.iter().map(|byte| format!("{byte:02x}")).collect();
    forms.insert(hex.to_uppercase().into_bytes());
    forms.insert(hex.into_bytes());
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        for shift in 0..3 {
            // Three alignments: only the characters that depend on nothing but the word.
            let shifted = [&vec![0; shift][..], word].concat();
            let text = engine.encode(&shifted).into_bytes();
            let (from, to) = ([0, 2, 3][shift], shifted.len() * 8 / 6);
            forms.insert(text[from..to].to_vec());
        }
    }
    forms
}

fn find(all: &[u8], words: &[Vec<u8>]) -> Vec<String> {
    let forms = words.iter().flat_map(|word| forms(word));
    let hit = |form: Vec<u8>| {
        let found = all.windows(form.len()).any(|window| window == form);
        found.then(|| String::from_utf8_lossy(&form).into_owned())
    };
    forms.filter_map(hit).collect()
}

#[test]
fn r13_nothing_readable() {
    let (all, words) = run();
    assert!(all.len() > 1_000, "something rests");
    assert_eq!(find(&all, &words), Vec::<String>::new());
}

/// The search itself is tested: it finds every word in every form.
#[test]
fn r13_the_search_finds_what_is_there() {
    let (mut all, words) = run();
    for word in &words {
        for form in forms(word) {
            let mut planted = all.clone();
            planted.extend_from_slice(b"x?");
            planted.extend_from_slice(&form);
            planted.push(b'!');
            assert!(
                !find(&planted, std::slice::from_ref(word)).is_empty(),
                "{:?}",
                String::from_utf8_lossy(&form)
            );
        }
    }
    let text = URL_SAFE_NO_PAD.encode([b"ab", VALUES[2].as_bytes(), b"cd"].concat());
    all.extend_from_slice(text.as_bytes());
    assert!(!find(&all, &words).is_empty(), "in the middle of base64");
}

/// Two stores of the same account, opened with the same key, have no record key in common.
#[test]
fn r15_equal_things_rest_differently_in_two_stores() {
    let keys = |seed| {
        let device = MemoryDevice::new();
        drop(opening(seed).account(&device).expect("made"));
        let mut found = BTreeSet::new();
        device
            .tamper(&store_name(ORG, ACCOUNT), |records| found.extend(records.keys().map(|(_, key)| key.0)));
        found
    };
    let (a, b) = (keys(1), keys(2));
    assert!(!a.is_empty() && a.is_disjoint(&b));
}

/// Keys and nonces come from here: every bit is drawn, and nothing is drawn twice.
#[test]
fn r15_the_systems_source_draws_every_bit() {
    let (mut all, mut none) = ([0xff_u8; 24], [0_u8; 24]);
    let mut drawn = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let mut bytes = [0; 24];
        SystemRandom.fill(&mut bytes).expect("a system with random bytes");
        assert!(drawn.insert(bytes), "drawn twice");
        all.iter_mut().zip(bytes).for_each(|(all, byte)| *all &= byte);
        none.iter_mut().zip(bytes).for_each(|(none, byte)| *none |= byte);
    }
    assert_eq!((all, none), ([0; 24], [0xff; 24]));
    let mut below = std::collections::BTreeSet::new();
    for _ in 0..500 {
        below.insert(SystemRandom.below(5).expect("a number"));
    }
    assert_eq!(below, (0..5).collect(), "each number below the bound, and no other");
}
