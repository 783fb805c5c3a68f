//! Stores that do not match the parameters they are opened with: other schemas, newer formats, wrong keys;
//! and the contents that a store keeps.

use std::cell::Cell;

use escale::crypto::{DerivedKey, Header, SeededRandom, WrapKind, store_name};
use escale::model::schema::Schema;
use escale::storage::{Account, AccountOptions, JournalChanges, JournalMark, Limits, open_account, rewrap};
use escale::store::conformance::block_on;
use escale::store::{Device, MemoryDevice, MemoryStore, RecordKey, Store, Table};
use escale::{Code, Result};
use sha2::{Digest, Sha256};

use escale_testkit::plan::Kind;
use escale_testkit::{Action, Plan, World};

const PLAN: Plan = Plan {
    name: "store",
    clients: 1,
    incognito: false,
    instances: 1,
    actions: 0,
    watches_flicker: false,
    tenants: &[],
    weights: &[(Kind::Wait, 1)],
};

const ONE: &str = r#"{"Doc":{"key":["id"],"release":2,"collections":{"section":{"key":["section"]}}},
    "Note":{"key":["book","page"]}}"#;

fn open_as(
    device: &MemoryDevice,
    x: u8,
    schema: &str,
    create: bool,
    seed: u64,
) -> Result<Account<MemoryStore>> {
    let account = AccountOptions { org: "o", account: "a", by: WrapKind::Key, rounds: 0, create };
    let schema = Schema::from_json(schema).expect("a schema");
    let derive = async |_| Ok(DerivedKey::from_bytes([x; 32]));
    block_on(open_account(device, &account, schema, derive, &mut SeededRandom::new(seed)))
}

fn name() -> String {
    store_name("o", "a")
}

type Bytes = (Option<Vec<u8>>, Vec<((Table, RecordKey), Vec<u8>)>);

/// All stored bytes.
fn bytes(device: &MemoryDevice) -> Bytes {
    let (mut header, mut all) = (None, Vec::new());
    device.tamper_header(&name(), |bytes| header = bytes.clone());
    device.tamper(&name(), |records| all = records.clone().into_iter().collect());
    (header, all)
}

/// Checks that the opening is refused with that code, that no byte is written, and that the right parameters
/// still open the store.
fn refused(device: &MemoryDevice, x: u8, schema: &str, code: Code) {
    let before = bytes(device);
    let error = open_as(device, x, schema, true, 5).err().expect("refused");
    assert_eq!(error.code(), code, "{error}");
    assert_eq!(bytes(device), before, "nothing was written");
}

/// Writes everything that is due.
fn flush(account: &mut Account<MemoryStore>, seed: u64) {
    let random = &mut SeededRandom::new(seed);
    while let Some((batch, receipt)) =
        account.layout.batch(&mut account.memory, None, true, random).expect("a batch")
    {
        block_on(account.store.commit(batch)).expect("written");
        account.layout.committed(&mut account.memory, receipt);
    }
}

#[test]
fn the_three_errors_of_opening_write_nothing() {
    let device = MemoryDevice::new();
    let error = open_as(&device, 1, ONE, false, 1).err().expect("refused");
    assert_eq!(error.code(), Code::NoStore);
    assert!(block_on(device.open(&name(), false)).expect("open").is_none(), "looking did not make it");

    drop(open_as(&device, 1, ONE, true, 1).expect("made"));
    refused(&device, 2, ONE, Code::WrongPassphrase);

    let whole = bytes(&device).0.expect("a header");
    for place in 0..whole.len() {
        let mut altered = whole.clone();
        altered[place] ^= 0x80;
        device.tamper_header(&name(), |header| *header = Some(altered));
        refused(&device, 1, ONE, Code::StoreDamaged);
    }
    device.tamper_header(&name(), |header| *header = Some(whole));
    open_as(&device, 1, ONE, false, 2).expect("nothing was lost");
}

#[test]
fn a_header_of_another_store_opens_nothing() {
    // An attacker who knows X of their own store cannot put its header in another's place.
    let (mine, other) = (MemoryDevice::new(), MemoryDevice::new());
    drop(open_as(&mine, 1, ONE, true, 1).expect("made"));
    let mut account = open_as(&other, 1, ONE, true, 2).expect("made");
    account.memory.subscribe(&"Doc".parse().expect("a def")).expect("subscribed");
    flush(&mut account, 9);
    drop(account);
    let header = bytes(&mine).0;
    other.tamper_header(&name(), |bytes| *bytes = header);
    let opened = open_as(&other, 1, ONE, true, 3).expect("opened");
    assert!(opened.damage.any(), "no record opens under another K");
    assert_eq!(opened.memory.collections().count(), 0);
}

#[test]
fn a_newer_format_is_refused_by_name_and_left_untouched() {
    let device = MemoryDevice::new();
    drop(open_as(&device, 1, ONE, true, 1).expect("made"));
    device.tamper_header(&name(), |header| {
        let bytes = header.as_mut().expect("a header");
        bytes.truncate(bytes.len() - 32);
        bytes[5] = 3;
        let sum = Sha256::digest(&*bytes);
        bytes.extend_from_slice(&sum);
    });
    refused(&device, 1, ONE, Code::StoreTooNew);
}

#[test]
fn changing_x_keeps_k_and_every_record() {
    let device = MemoryDevice::new();
    let account = open_as(&device, 1, ONE, true, 1).expect("made");
    let session = account.layout.session().to_owned();
    let (old, next) = (DerivedKey::from_bytes([1; 32]), DerivedKey::from_bytes([9; 32]));
    let wrong = DerivedKey::from_bytes([8; 32]);
    let random = &mut SeededRandom::new(4);
    let before = bytes(&device);
    let by = WrapKind::Key;
    let error = block_on(rewrap(&account.store, &account.header, by, &wrong, &next, 0, random)).err();
    assert_eq!(error.expect("refused").code(), Code::WrongPassphrase);
    assert_eq!(bytes(&device), before);
    block_on(rewrap(&account.store, &account.header, by, &old, &next, 0, random)).expect("wrapped anew");
    assert_eq!(bytes(&device).1, before.1, "no record was written again");
    drop(account);
    refused(&device, 1, ONE, Code::WrongPassphrase);
    let opened = open_as(&device, 9, ONE, false, 6).expect("opened");
    assert_eq!(opened.layout.session(), session);
    assert!(!opened.damage.any());
}

#[test]
fn a_schema_that_contradicts_the_store_is_refused() {
    let device = MemoryDevice::new();
    drop(open_as(&device, 1, ONE, true, 1).expect("made"));
    let contradictions = [
        r#"{"Doc":{"key":["name"],"release":2}}"#,
        r#"{"Doc":{"key":["id"],"release":2,"collections":{"section":{"key":["area"]}}}}"#,
        r#"{"Doc":{"key":["id"],"release":2,"collections":{"section":{"key":["section"],"list":true}}}}"#,
    ];
    for schema in contradictions {
        refused(&device, 1, schema, Code::SchemaMismatch);
    }
    open_as(&device, 1, ONE, true, 7).expect("the right one still opens it");
}

/// The application was rolled back. It was refused, and the cure was a wipe, which deleted the pending writes.
#[test]
fn an_earlier_release_opens_the_store_of_a_later_one() {
    let device = MemoryDevice::new();
    drop(open_as(&device, 1, ONE, true, 1).expect("made"));
    let newer = ONE.replace("\"release\":2", "\"release\":3");
    for schema in [&newer, ONE, &newer] {
        let mut account = open_as(&device, 1, schema, true, 2).expect("opened");
        assert!(!account.damage.any());
        flush(&mut account, 3);
    }
}

/// Otherwise nobody would know how much a wipe deletes.
#[test]
fn a_store_that_cannot_be_opened_says_how_much_waits_in_it() {
    let device = MemoryDevice::new();
    drop(open_as(&device, 1, ONE, true, 1).expect("made"));
    let mut account = open_as(&device, 1, ONE, true, 2).expect("opened");
    let summary = JournalMark { records: 3, pending: 3, next_record: 3, ..JournalMark::default() };
    let changes = JournalChanges { summary, ..JournalChanges::default() };
    let random = &mut SeededRandom::new(3);
    let Account { layout, memory, store, .. } = &mut account;
    let (batch, receipt) = layout.batch(memory, Some(&changes), true, random).expect("built").expect("due");
    block_on(store.commit(batch)).expect("written");
    layout.committed(memory, receipt);
    drop(account);
    let other = open_as(&device, 1, r#"{"Doc":{"key":["name"],"release":2}}"#, true, 3);
    let error = other.err().expect("refused");
    assert_eq!(error.code(), Code::SchemaMismatch);
    assert!(error.detail().contains("3 writes and local documents"), "{}", error.detail());
    assert!(error.code().cure().contains("with the release that wrote it"));
}

#[test]
fn a_class_that_is_gone_takes_its_documents_from_the_device() {
    let mut world = World::new(&PLAN, 5);
    world.clients[0].setup.limits = Limits::default();
    world.crash(0);
    world.open(0);
    for doc in 0..9 {
        world.act(Action::Write { doc, section: 0, tags: 1, life: 0 });
    }
    for def in [0, 1] {
        world.act(Action::Subscribe { client: 0, def });
        world.run_for(5_000);
    }
    world.crash(0);
    let client = &world.clients[0];
    let without = Schema::from_json(r#"{"Note":{"key":["book","page"]}}"#).expect("a schema");
    let account = client.account();
    let options =
        AccountOptions { org: "org", account: &account, by: WrapKind::Key, rounds: 0, create: true };
    let derive = async |_| Ok(DerivedKey::from_bytes([1; 32]));
    let random = &mut SeededRandom::new(4);
    let opening = open_account(&client.device, &options, without, derive, random);
    let mut opened = block_on(opening).expect("opened");
    assert!(!opened.damage.any());
    assert_eq!(opened.memory.collections().count(), 1);
    assert_eq!(opened.memory.documents().count(), 2);
    flush(&mut opened, 8);
    let pages = block_on(opened.store.scan(Table::Pages, None, 1_000)).expect("scan").len();
    assert_eq!(pages, opened.layout.page_counts().0, "no page of the class that is gone");
    drop(opened);
    // After the class is declared again, it is empty, and is loaded from the server.
    let again = client.open_device(&client.device, 11).expect("opened");
    assert_eq!(again.memory.collections().count(), 1);
    assert_eq!(again.memory.documents().count(), 2);
}

#[test]
fn a_store_keeps_its_name_across_openings() {
    let device = MemoryDevice::new();
    let first = open_as(&device, 1, ONE, true, 1).expect("made").layout.session().to_owned();
    assert_eq!(first.len(), 22);
    for seed in 2..6 {
        let mut account = open_as(&device, 1, ONE, true, seed).expect("opened");
        account.memory.subscribe(&"Note".parse().expect("a def")).expect("subscribed");
        account.memory.unsubscribe(&"Doc".parse().expect("a def"));
        flush(&mut account, seed);
        assert_eq!(account.layout.session(), first);
    }
    let other = open_as(&MemoryDevice::new(), 1, ONE, true, 2).expect("made");
    assert_ne!(other.layout.session(), first, "another store, another name");
}

#[test]
fn the_rounds_of_the_header_are_those_that_x_is_derived_with() {
    let device = MemoryDevice::new();
    let asked = Cell::new(0);
    let open = |rounds, seed| {
        let options =
            AccountOptions { org: "o", account: "a", by: WrapKind::Passphrase, rounds, create: true };
        let derive = async |rounds| {
            asked.set(rounds);
            Ok(DerivedKey::from_bytes([1; 32]))
        };
        let schema = Schema::from_json(ONE).expect("a schema");
        block_on(open_account(&device, &options, schema, derive, &mut SeededRandom::new(seed))).map(|_| ())
    };
    assert_eq!(open(1_000, 1).expect_err("refused").code(), Code::BadOption, "too weak");
    assert_eq!(bytes(&device).0, None);
    open(700_000, 2).expect("made");
    open(600_000, 3).expect("opened");
    assert_eq!(asked.get(), 700_000, "the store's own, whatever is asked now");
    let header = Header::from_bytes(&bytes(&device).0.expect("a header")).expect("whole");
    assert_eq!(header.rounds(WrapKind::Passphrase).expect("wrapped so"), 700_000);
    refused(&device, 1, ONE, Code::WrongPassphrase);
}

/// A store that was made and never written counts as none; one that lost its records is damaged.
#[test]
fn a_store_has_its_header_and_its_first_record_or_neither() {
    let device = MemoryDevice::new();
    drop(block_on(device.open(&name(), true)).expect("open"));
    assert_eq!(open_as(&device, 1, ONE, false, 1).err().expect("refused").code(), Code::NoStore);
    let account = open_as(&device, 1, ONE, true, 1).expect("made");
    assert!(!account.damage.any());
    assert!(bytes(&device).0.is_some() && !bytes(&device).1.is_empty());
    drop(account);
    device.tamper(&name(), |records| records.clear());
    assert!(open_as(&device, 1, ONE, true, 2).expect("opened").damage.any());
}
