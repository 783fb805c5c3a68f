//! R14 on stored records: each single bit of them counts, and a record opens only at its own key. The records
//! are written by sessions: pages, state, operations and requests with documents of the benchmark's size.
//!
//! `ESCALE_CASES=1000` flips every bit of 1,000 rows, which takes a minute; both properties print a proof.

use std::collections::BTreeMap;
use std::time::Instant;

use escale::Code;
use escale::crypto::{AccountKey, SeededRandom, StoreKeys};
use escale::journal::{Issued, Request, Wanted, make_id};
use escale::model::Value;
use escale::store::{MemoryDevice, RecordKey, Table};
use escale::sync::{Event, Write};

use super::budget::{NOW, Session, document, part, row, whole};
use escale_testkit::seeds;

/// A stored record.
struct Record {
    table: Table,
    key: RecordKey,
    sealed: Vec<u8>,
}

/// One store of some device: its keys, and the records that it wrote.
struct Sealed {
    name: &'static str,
    keys: StoreKeys,
    records: Vec<Record>,
}

impl Sealed {
    /// A session loads that many documents one by one, so that each is stored in its own page before pages
    /// are merged. It also writes some.
    fn of_session(name: &'static str, (org, account): (&str, &str), seed: u64, rows: u64) -> Self {
        let mut session = Session::open_as(&MemoryDevice::new(), org, account, seed);
        session.feed(Event::Subscribe(whole()));
        for number in 0..rows {
            session.reply(part(whole(), vec![row(number, seed, NOW + number)]));
        }
        let random = &mut SeededRandom::new(seed + 2);
        for number in 0..rows.div_ceil(4) {
            let id = make_id(NOW + number, random).expect("an id");
            let args = put(number, seed + 1);
            session.feed(Event::Write(Write {
                id,
                name: "doc.put".to_owned(),
                args,
                touches: Vec::new(),
                after: Vec::new(),
            }));
        }
        let Session { keys, client } = session;
        let mut records: Vec<Record> = client
            .hooks
            .written
            .into_iter()
            .map(|(table, key, sealed)| Record { table, key, sealed })
            .collect();
        records.extend((0..rows.div_ceil(4)).map(|number| request(&keys, number, seed, random)));
        Sealed { name, keys, records }
    }

    /// The same contents in another store with the same K: only the store's id differs.
    fn again(&self, name: &'static str, keys: StoreKeys, random: &mut SeededRandom) -> Self {
        let again = |(number, record): (usize, &Record)| {
            let Record { table, .. } = *record;
            let key = keys.record_key(table, number as u64);
            let plain = self.open(record);
            let sealed = keys.seal(table, key, &plain, random).expect("sealed").into_bytes();
            Record { table, key, sealed }
        };
        let records = self.records.iter().enumerate().map(again).collect();
        Sealed { name, keys, records }
    }

    /// The contents of a record of this store. It must open: a check on a record that never opens would
    /// always pass.
    fn open(&self, record: &Record) -> Vec<u8> {
        self.keys.open(record.table, record.key, &record.sealed).expect("as it was written")
    }

    /// Whether these bytes are refused under that key, with the right error code.
    fn refuses(&self, table: Table, key: RecordKey, bytes: &[u8]) -> bool {
        match self.keys.open(table, key, bytes) {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.code(), Code::RecordDamaged);
                true
            }
        }
    }
}

fn put(number: u64, edition: u64) -> Value {
    let data = Value::Map(document(number, edition).to_map().expect("a map"));
    Value::from([("class", Value::from("Doc")), ("data", data)])
}

/// A command of a follower: a document to be written.
fn request(keys: &StoreKeys, number: u64, seed: u64, random: &mut SeededRandom) -> Record {
    let wanted = Issued {
        id: make_id(NOW + number, random).expect("an id"),
        name: "doc.put".to_owned(),
        args: put(number, seed + 2),
        at: NOW,
        touches: Vec::new(),
        after: Vec::new(),
        base: None,
        bases: Vec::new(),
        insists: Vec::new(),
        policies: None,
    };
    let request = Request { stamp: number, wanted: Wanted::Write(wanted), phase: None };
    let table = Table::Inbox;
    let key = keys.record_key(table, number + 2);
    let plain = request.encode().expect("encoded");
    let sealed = keys.seal(table, key, &plain, random).expect("sealed").into_bytes();
    Record { table, key, sealed }
}

fn seed() -> u64 {
    let seed = seeds::start();
    eprintln!("ESCALE_SEED={seed}");
    seed
}

/// A page of one document is about 600 bytes; merged pages hold 64.
const ONE_ROW_BYTES_MAX: usize = 2_000;

#[test]
fn r14_each_bit_of_what_rests_counts() {
    let rows: usize = seeds::cases(24).try_into().expect("a number");
    let began = Instant::now();
    let store = Sealed::of_session("a store", ("o", "a"), seed(), rows.max(70) as u64);
    let (mut thin, mut full, mut others) = (Vec::new(), Vec::new(), BTreeMap::<Table, Vec<&Record>>::new());
    for record in &store.records {
        match record.table {
            Table::Pages if record.sealed.len() < ONE_ROW_BYTES_MAX => thin.push(record),
            Table::Pages => full.push(record),
            table => others.entry(table).or_default().push(record),
        }
    }
    assert_eq!(others.len(), 3, "the state, the journal and the inbox");
    // Rows; a quarter as many of each other table, with the longest state records among them; and a full page
    // for every 500 rows.
    let mut chosen: Vec<&Record> = thin[..rows].to_vec();
    for records in others.values_mut() {
        records.sort_by_key(|record| std::cmp::Reverse(record.sealed.len()));
        chosen.extend(records.iter().take(rows.div_ceil(4)));
    }
    chosen.extend(&full[..rows / 500]);
    let (mut bits, mut bytes) = (0, 0);
    for record in &chosen {
        let plain = store.open(record);
        let mut flipped = record.sealed.clone();
        for bit in 0..flipped.len() * 8 {
            flipped[bit / 8] ^= 1 << (bit % 8);
            let is_refused = store.refuses(record.table, record.key, &flipped);
            assert!(is_refused, "bit {bit} of a record of table {}", record.table.name());
            flipped[bit / 8] ^= 1 << (bit % 8);
            bits += 1;
        }
        bytes += flipped.len();
        assert_eq!(flipped, record.sealed);
        assert_eq!(store.open(record), plain, "whole again, it opens");
    }
    assert_eq!(bits, bytes * 8);
    let others = chosen.len() - rows;
    let seconds = began.elapsed().as_secs_f32();
    println!(
        "proof: bits | each single bit of a sealed record that is flipped is noticed | {rows} rows and {others} other \
         records, {bits} bits | violations 0 | {seconds:.1} s"
    );
}

/// The relations between two records that are swapped, by how little they have in common.
const PLACES: [&str; 6] = [
    "another number",
    "another table",
    "another store of K",
    "another device",
    "another account",
    "another org",
];

#[test]
fn r14_what_rests_opens_in_its_own_place_alone() {
    let (swaps, seed) = (seeds::cases(10_000) as usize, seed());
    let began = Instant::now();
    let random = &mut SeededRandom::new(seed);
    let own = Sealed::of_session("own", ("o", "a"), seed, 200);
    let stores = [
        // Two devices of one account: each has made its own K.
        Sealed::of_session(PLACES[3], ("o", "a"), seed + 10, 200),
        Sealed::of_session(PLACES[4], ("o", "b"), seed + 20, 200),
        Sealed::of_session(PLACES[5], ("p", "a"), seed + 30, 200),
    ];
    let twins = {
        let key = AccountKey::make(random).expect("a key");
        let [one, two] = [[1; 16], [2; 16]].map(|id| StoreKeys::derive(&key, &id));
        let one = own.again("a store of K", one, random);
        let two = one.again(PLACES[2], two, random);
        [one, two]
    };
    let mut kinds = BTreeMap::<&str, usize>::new();
    let mut swapped = 0;
    while swapped < swaps {
        let place = PLACES[swapped % PLACES.len()];
        let (left, right) = match place {
            "another number" | "another table" => (&own, &own),
            "another store of K" => (&twins[0], &twins[1]),
            _ => (&own, stores.iter().find(|store| store.name == place).expect("a store")),
        };
        let mut pick = |store: &Sealed| random.next_u64() as usize % store.records.len();
        let (at, other) = (pick(left), pick(right));
        // Every other time, the twin's record under the same key, with the same content.
        let other = if place == "another store of K" && swapped % 4 < 2 { at } else { other };
        let (a, b) = (&left.records[at], &right.records[other]);
        let is_one = std::ptr::eq(left, right) && a.key == b.key;
        let is_other_table = a.table != b.table;
        if is_one || std::ptr::eq(left, right) && is_other_table != (place == "another table") {
            continue;
        }
        let plain = [left.open(a), right.open(b)];
        // Each record under the other's key; and each moved together with its key, which the other store or
        // table does not know.
        assert!(left.refuses(a.table, a.key, &b.sealed), "{place}");
        assert!(right.refuses(b.table, b.key, &a.sealed), "{place}");
        if is_other_table || !std::ptr::eq(left, right) {
            assert!(left.refuses(a.table, b.key, &b.sealed), "{place}, with its name");
            assert!(right.refuses(b.table, a.key, &a.sealed), "{place}, with its name");
        }
        assert_eq!([left.open(a), right.open(b)], plain, "put back, they open");
        *kinds.entry(place).or_default() += 1;
        swapped += 1;
    }
    assert_eq!(kinds.len(), PLACES.len().min(swaps));
    let seconds = began.elapsed().as_secs_f32();
    eprintln!("{kinds:?}");
    println!(
        "proof: swaps | of two sealed records that are swapped neither opens | {swaps} swaps | violations 0 | \
         {seconds:.1} s"
    );
}
