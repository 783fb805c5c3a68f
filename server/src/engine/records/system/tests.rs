//! The bytes of each record, as a server stored them before its records had types.

use std::collections::BTreeMap;

use escale::codec::Data;
use escale::model::{Value, sha_s};

use super::SystemRecord;
use crate::engine::records::account::{Account, AccountId, Device, Wrap};
use crate::engine::records::counter::{Counter, NamedCounter};
use crate::engine::records::entrance::{Invitation, Token};
use crate::engine::records::fields::{entries_of, map_of};
use crate::engine::records::org::OrgRecord;
use crate::engine::records::reader::{Reader, SESSIONS_MAX};
use crate::engine::records::record::Properties;
use crate::engine::records::schedule::Schedule;

/// With two wraps, of which one was used twice, and one device that is signed in.
const OPEN_ACCOUNT: &str = "\
    88a6636c6f736564c2a7646576696365739185a56669727374cf000001a3185c5000a26964b65a2d6241316a65476b69666c\
    362d6b374d36706b3941a56c6162656ca0a46c617374cf000001a3185c5000a5746f6b656ed92b7932336a6559484f395959\
    4a4f656358774c746d435a6c555637306341784c6e417a4735414c4266495173a26964b6317054485f524173416262745272\
    4f6963774b444651a56c6f67696ea3616461a3707562c42099268b25f728f7777304b3c48df45145a048e56075a3b8bf4e75\
    ef5cf1ffd20fa4726f6c65a561646d696ea4757365649292c420000001a3185c50005679bd68051e1bbb884152df93d65276\
    4fe264d919a43558cf000001a3185e24c092c420000001a3185c50007c8d3890d3a1a04d226d0f2d913950a93a1c99850028\
    3ce8cf000001a3185e24c0a577726170739288a26174cf000001a3185c5000a26279aa70617373706872617365a26964aa70\
    617373706872617365a36b6466a670626b646632a6726f756e6473ce000927c0a6736572766572c420245f5f09f18119f889\
    824020af09570030fc141c5d422497662def475e35112da673746f726564c4204f32b66e7cb39e4ac1ec9a91e17bd085e00e\
    b71477dc92b10b70241a44d9ef36a777726170706564c43c56a85997316cb87944382eec7af901721329f6740458b76767d7\
    e1688d8d93ee12d878943f907d62cb56dee46500dd188755b630121d3bdce449780f88a26174cf000001a3185c5000a26279\
    a4636f6465a26964a8636f64652d74776fa36b6466a46e6f6e65a6726f756e647300a6736572766572c420a01c3c5019d0b6\
    b9ca2b6dc8e61ee19a020864dd01928d013394b2ff46986ecba673746f726564c420ebae66b95adc4177fbd906117a96da5b\
    a8285b8712189f32a1e1238053c93655a777726170706564c43c6ac26e7919b522930eea674508504945cf9e5d0465c53db9\
    3f7c47f307cf59472a3f91f139cfef2388c1c4a1a03fea0dd9e730f366e28c4b9f4143ad\
";

/// Closed: without wraps, devices and challenges.
const CLOSED_ACCOUNT: &str = "\
    88a6636c6f736564c3a76465766963657390a26964b668434c3155333347775f68726f5842735a7356544651a56c6f67696e\
    a3626f62a3707562c420f067976b799629fd0bee6508571bfbd55ca44c62ebf0a14d37e15ccbc695b55ba4726f6c65a57772\
    697465a47573656490a5777261707390\
";

const NOON: u64 = 1_800_000_000_000;

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn array<const N: usize>(text: &str) -> [u8; N] {
    hex(text).try_into().unwrap()
}

/// The record has these bytes, and they are that record.
fn check<R: SystemRecord + PartialEq + std::fmt::Debug>(class: &str, record: &R, stored: &str) {
    assert_eq!(R::CLASS, class);
    assert_eq!(Data::from_map(&record.encode()).unwrap().as_bytes(), hex(stored), "{record:?}");
    assert_eq!(decode::<R>(Data::from_bytes(&hex(stored)).unwrap().to_map().unwrap()), *record);
}

fn decode<R: SystemRecord>(map: Properties) -> R {
    R::decode(&map).unwrap()
}

fn account() -> Account {
    let wrap = |id: &str, by: &str, kdf: &str, rounds| Wrap {
        id: id.into(),
        by: by.into(),
        kdf: kdf.into(),
        rounds,
        wrapped: Vec::new(),
        stored: [0; 32],
        server: [0; 32],
        at: NOON,
    };
    Account {
        id: "1pTH_RAsAbbtRrOicwKDFQ".into(),
        login: "ada".into(),
        public: array("99268b25f728f7777304b3c48df45145a048e56075a3b8bf4e75ef5cf1ffd20f"),
        role: "admin".into(),
        is_closed: false,
        wraps: vec![
            Wrap {
                wrapped: hex(
                    "56a85997316cb87944382eec7af901721329f6740458b76767d7e1688d8d93ee12d878943f907d62cb56dee46500dd188755b630121d3bdce449780f",
                ),
                stored: array("4f32b66e7cb39e4ac1ec9a91e17bd085e00eb71477dc92b10b70241a44d9ef36"),
                server: array("245f5f09f18119f889824020af09570030fc141c5d422497662def475e35112d"),
                ..wrap("passphrase", "passphrase", "pbkdf2", 600_000)
            },
            Wrap {
                wrapped: hex(
                    "6ac26e7919b522930eea674508504945cf9e5d0465c53db93f7c47f307cf59472a3f91f139cfef2388c1c4a1a03fea0dd9e730f366e28c4b9f4143ad",
                ),
                stored: array("ebae66b95adc4177fbd906117a96da5ba8285b8712189f32a1e1238053c93655"),
                server: array("a01c3c5019d0b6b9ca2b6dc8e61ee19a020864dd01928d013394b2ff46986ecb"),
                ..wrap("code-two", "code", "none", 0)
            },
        ],
        devices: vec![Device {
            id: "Z-bA1jeGkifl6-k7M6pk9A".into(),
            label: String::new(),
            first: NOON,
            last: NOON,
            token: Some("y23jeYHO9YYJOecXwLtmCZlUV70cAxLnAzG5ALBfIQs".into()),
        }],
        used: vec![
            (hex("000001a3185c50005679bd68051e1bbb884152df93d652764fe264d919a43558"), NOON + 120_000),
            (hex("000001a3185c50007c8d3890d3a1a04d226d0f2d913950a93a1c998500283ce8"), NOON + 120_000),
        ],
    }
}

#[test]
fn an_account_keeps_its_bytes() {
    check("#account", &account(), OPEN_ACCOUNT);
    let closed = Account {
        id: "hCL1U33Gw_hroXBsZsVTFQ".into(),
        login: "bob".into(),
        public: array("f067976b799629fd0bee6508571bfbd55ca44c62ebf0a14d37e15ccbc695b55b"),
        role: "write".into(),
        is_closed: true,
        wraps: Vec::new(),
        devices: Vec::new(),
        used: Vec::new(),
    };
    check("#account", &closed, CLOSED_ACCOUNT);
    check("#account-id", &AccountId { login: "ada".into() }, "81a56c6f67696ea3616461");
}

#[test]
fn an_account_of_an_earlier_form_is_read() {
    let mut map = account().encode();
    for name in ["closed", "wraps", "devices", "used"] {
        map.remove(name);
    }
    let bare = Account { wraps: Vec::new(), devices: Vec::new(), used: Vec::new(), ..account() };
    assert_eq!(decode::<Account>(map), bare);
    let mut map = account().encode();
    let Some(Value::Array(wraps)) = map.get_mut("wraps") else { panic!("wraps") };
    for wrap in wraps {
        let Value::Map(wrap) = wrap else { panic!("a wrap") };
        wrap.remove("at");
    }
    let Some(Value::Array(devices)) = map.get_mut("devices") else { panic!("devices") };
    let Value::Map(device) = &mut devices[0] else { panic!("a device") };
    device.remove("token");
    let read: Account = decode(map);
    assert!(read.wraps.iter().all(|wrap| wrap.at == 0));
    assert_eq!(read.devices[0].token, None);
    for name in ["id", "login", "pub", "role"] {
        let mut map = account().encode();
        map.remove(name);
        assert!(Account::decode(&map).is_err(), "without {name}");
    }
    assert_eq!(decode::<AccountId>(Properties::new()).login, "");
}

#[test]
fn a_token_and_an_invitation_keep_their_bytes() {
    let token = Token {
        account: sha_s("ada"),
        device: "Z-bA1jeGkifl6-k7M6pk9A".into(),
        until: NOON + 7 * 86_400_000,
        used: NOON,
    };
    check(
        "#token",
        &token,
        "84a76163636f756e74b644554339563937717759624e6c354144505138472d51a6646576696365b65a2d6241316a6547\
         6b69666c362d6b374d36706b3941a5756e74696ccf000001a33c68d400a475736564cf000001a3185c5000",
    );
    let mut map = token.encode();
    map.remove("used");
    assert_eq!(decode::<Token>(map), Token { used: 0, ..token });
    let nothing = Token { account: String::new(), device: String::new(), until: 0, used: 0 };
    assert_eq!(decode::<Token>(Properties::new()), nothing);

    let until = NOON + 14 * 86_400_000;
    let invitation = Invitation { role: Some("read".into()), until, others: Properties::new() };
    check("#invitation", &invitation, "82a4726f6c65a472656164a5756e74696ccf000001a360755800");
    let others = entries_of([("shelf", Value::from("b"))]);
    let shelved = Invitation { others, ..invitation };
    assert_eq!(decode::<Invitation>(shelved.encode()), shelved);
    let nothing = Invitation { role: None, until: 0, others: Properties::new() };
    assert_eq!(decode::<Invitation>(Properties::new()), nothing);
}

#[test]
fn the_record_of_an_org_keeps_its_bytes() {
    let schedule = |ms| Schedule::new(vec![(ms, 1)]).unwrap();
    let org = OrgRecord {
        schedule: schedule(2 * NOON),
        accounts: BTreeMap::from([("x".to_owned(), schedule(2 * NOON + 5))]),
        admins: ["1pTH_RAsAbbtRrOicwKDFQ".to_owned()].into(),
    };
    check(
        "#org",
        &org,
        "83a86163636f756e747381a1789192cf0000034630b8a00501a661646d696e7391b6317054485f524173416262745272\
         4f6963774b444651a87363686564756c659192cf0000034630b8a00001",
    );
    assert_eq!(decode::<OrgRecord>(Properties::new()), OrgRecord::default());
    let bad = map_of([("x", Value::from(1))]);
    assert!(OrgRecord::decode(&entries_of([("accounts", bad)])).is_err());
}

#[test]
fn a_counter_keeps_its_bytes() {
    let counter = Counter { documents: 1, bytes: 25, ..Counter::default() };
    let of_value = NamedCounter { of: "b\u{e9}".into(), counter: counter.clone(), counts_files: true };
    check("#counter", &of_value, "84a5627974657319a9646f63756d656e747301a566696c657300a26f66a362c3a9");
    let counter = Counter { documents_max: Some(9), bytes_max: Some(1 << 40), ..counter };
    let of_org = NamedCounter { of: String::new(), counter, counts_files: true };
    check(
        "#counter",
        &of_org,
        "86a5627974657319a862797465734d6178cf0000010000000000a9646f63756d656e747301ac646f63756d656e74734d\
         617809a566696c657300a26f66a0",
    );
    let mut map = of_org.encode();
    map.remove("files");
    map.remove("of");
    assert_eq!(decode::<NamedCounter>(map), NamedCounter { counts_files: false, ..of_org });
    let nothing = NamedCounter { of: String::new(), counter: Counter::default(), counts_files: false };
    assert_eq!(decode::<NamedCounter>(Properties::new()), nothing);
}

#[test]
fn a_reader_keeps_its_bytes() {
    check("#reader", &Reader { sessions: 2 }, "81a873657373696f6e7302");
    assert_eq!(decode::<Reader>(Properties::new()).sessions, SESSIONS_MAX);
}
