//! An opening restores departures (R5), and no number of a page names two contents (R14).

use std::collections::{BTreeMap, BTreeSet};

use super::{Account, AccountOptions, Tail, open_account};
use crate::codec::{Data, Part, Row};
use crate::crypto::{DerivedKey, SeededRandom, WrapKind};
use crate::memory::{PartContext, lease};
use crate::model::schema::Schema;
use crate::model::{Def, Name, Pk, SortedSet, Value};
use crate::store::conformance::block_on;
use crate::store::{Batch, MemoryDevice, MemoryStore, RecordKey, Store, Table};

const SCHEMA: &str = r#"{"Doc":{"key":["id"],"collections":{"section":{"key":["section"],"mutable":true}}}}"#;

fn open(device: &MemoryDevice, seed: u64) -> Account<MemoryStore> {
    let options = AccountOptions { org: "o", account: "a", by: WrapKind::Key, rounds: 0, create: true };
    let derive = async |_| Ok(DerivedKey::from_bytes([7; 32]));
    let random = &mut SeededRandom::new(seed);
    let opened = block_on(open_account(device, &options, Schema::from_json(SCHEMA).unwrap(), derive, random));
    let opened = opened.unwrap();
    assert!(!opened.damage.any());
    opened
}

/// Writes the batches that are due.
fn flush(account: &mut Account<MemoryStore>) {
    let random = &mut SeededRandom::new(account.layout.next_record);
    while let Some((batch, receipt)) = account.layout.batch(&mut account.memory, None, true, random).unwrap()
    {
        block_on(account.store.commit(batch)).unwrap();
        account.layout.committed(&mut account.memory, receipt);
    }
}

fn section() -> Def {
    section_of("games")
}

fn section_of(value: &str) -> Def {
    Def::collection(&Name::new("Doc").unwrap(), &Name::new("section").unwrap(), &[value]).unwrap()
}

fn pk(id: &str) -> Pk {
    Pk::from_key(&[id]).unwrap()
}

fn row(id: &str, v: u64) -> Row {
    row_in(id, v, "games")
}

fn row_in(id: &str, v: u64, section: &str) -> Row {
    let map = BTreeMap::from([("id".to_owned(), id.into()), ("section".to_owned(), Value::from(section))]);
    Row { pk: pk(id), v, deleted: false, max_life: None, data: Some(Data::from_map(&map).unwrap()) }
}

/// The server tells of the section, up to version `settled`.
fn tell(account: &mut Account<MemoryStore>, rows: Vec<Row>, left: Vec<(Pk, u64)>, settled: u64) {
    tell_of(account, &section(), rows, left, settled);
}

fn tell_of(
    account: &mut Account<MemoryStore>,
    def: &Def,
    rows: Vec<Row>,
    left: Vec<(Pk, u64)>,
    settled: u64,
) {
    let part = Part { rows, left, ..Part::empty(def.clone()) };
    let part = account.memory.prepare(part).unwrap();
    account.memory.apply(part, PartContext { era: 0, settled, asked: Some(0) });
    account.memory.check_links();
}

fn members(account: &Account<MemoryStore>) -> BTreeSet<Pk> {
    account.memory.collection(&section()).unwrap().set.keys().cloned().collect()
}

/// A document left at 50, before the store was opened again; an older row of it, at 40, arrives later.
#[test]
fn r5_what_left_stays_out_across_openings() {
    for folds in [false, true] {
        let device = MemoryDevice::new();
        let mut account = open(&device, 1);
        account.memory.subscribe(&section()).unwrap();
        flush(&mut account);
        tell(&mut account, vec![row("a", 10), row("b", 10)], Vec::new(), 20);
        flush(&mut account);
        tell(&mut account, Vec::new(), vec![(pk("a"), 50)], 20);
        if folds {
            account.layout.log_bytes = usize::MAX;
        }
        flush(&mut account);
        drop(account);
        let mut account = open(&device, 2);
        assert_eq!(
            account.memory.collection(&section()).unwrap().set.mark(&pk("a")).map(|at| at.v),
            Some(50)
        );
        tell(&mut account, vec![row("a", 40)], Vec::new(), 20);
        assert_eq!(members(&account), BTreeSet::from([pk("b")]), "folded: {folds}");
        tell(&mut account, vec![row("a", 60)], Vec::new(), 20);
        assert_eq!(members(&account), BTreeSet::from([pk("a"), pk("b")]), "it came back: {folds}");
        flush(&mut account);
        drop(account);
        let account = open(&device, 3);
        assert_eq!(account.memory.collection(&section()).unwrap().set.marks().count(), 0, "and rests so");
    }
}

/// A lease is in the log and in the checkpoint, and a subscription that ended leaves none behind.
#[test]
fn a_lease_is_there_at_the_next_opening() {
    let lease_of = |account: &Account<MemoryStore>| account.memory.collection(&section()).unwrap().lease;
    for folds in [false, true] {
        let device = MemoryDevice::new();
        let mut account = open(&device, 1);
        assert!(!lease(&mut account.memory, &section(), 7), "nothing is subscribed to");
        account.memory.subscribe(&section()).unwrap();
        assert!(lease(&mut account.memory, &section(), u64::MAX));
        assert!(!lease(&mut account.memory, &section(), u64::MAX), "it has not changed");
        flush(&mut account);
        lease(&mut account.memory, &section(), 7);
        if folds {
            account.layout.log_bytes = usize::MAX;
        }
        flush(&mut account);
        drop(account);
        let mut account = open(&device, 2);
        assert_eq!(lease_of(&account), 7, "folded: {folds}");
        account.memory.unsubscribe(&section());
        account.memory.subscribe(&section()).unwrap();
        flush(&mut account);
        drop(account);
        assert_eq!(lease_of(&open(&device, 3)), 0);
    }
}

fn pages(batch: &Batch) -> BTreeSet<RecordKey> {
    batch.puts.iter().filter(|(table, ..)| *table == Table::Pages).map(|(_, key, _)| *key).collect()
}

/// A batch that failed may have been written after all. Nothing else is sealed under the numbers of its
/// pages: otherwise somebody could put its pages in the place of later ones.
#[test]
fn r14_a_page_of_a_failed_batch_gives_its_number_to_no_other() {
    let device = MemoryDevice::new();
    let mut account = open(&device, 1);
    account.memory.subscribe(&section()).unwrap();
    flush(&mut account);
    let random = &mut SeededRandom::new(5);
    let mut spent = BTreeSet::new();
    for v in 10..14 {
        tell(&mut account, vec![row("a", v)], Vec::new(), 9);
        let (batch, receipt) =
            account.layout.batch(&mut account.memory, None, true, random).unwrap().unwrap();
        assert_eq!(pages(&batch).len(), 1);
        assert!(pages(&batch).is_disjoint(&spent), "a number is used again at {v}");
        spent.extend(pages(&batch));
        if v < 13 {
            account.layout.failed(&mut account.memory, receipt);
        } else {
            let failed: BTreeSet<RecordKey> = spent.difference(&pages(&batch)).copied().collect();
            let gone = batch.deletes.iter().filter(|(table, _)| *table == Table::Pages).map(|(_, key)| *key);
            assert_eq!(
                gone.collect::<BTreeSet<_>>(),
                failed,
                "those that failed are deleted, should they be there"
            );
            block_on(account.store.commit(batch)).unwrap();
            account.layout.committed(&mut account.memory, receipt);
        }
    }
    assert_eq!(account.layout.page_counts(), (1, 1), "one page, in which one document rests");
    drop(account);
    assert_eq!(open(&device, 2).layout.pages.next, 4, "an opening goes on after them");
}

/// The bytes of the log and of the checkpoint decide when the next checkpoint is due: a session that writes counts them as
/// one that opens does.
#[test]
fn a_session_counts_its_records_as_an_opening_does() {
    let device = MemoryDevice::new();
    let mut account = open(&device, 1);
    account.layout.set_limits(super::Limits { log_bytes_min: 400, ..super::Limits::default() });
    let name = Name::new("Doc").unwrap();
    let mut checkpoints = BTreeSet::new();
    for number in 0..60 {
        let def = Def::document(&name, &pk(&(number % 13).to_string()));
        if !account.memory.unsubscribe(&def) {
            account.memory.subscribe(&def).unwrap();
        }
        flush(&mut account);
        let counted = |account: &Account<MemoryStore>| {
            let layout = &account.layout;
            (layout.base, layout.chunks, layout.next_record, layout.log_bytes, layout.checkpoint_bytes)
        };
        assert_eq!(
            counted(&account),
            counted(&open(&device.snapshot(), 2 + number)),
            "after {number} batches"
        );
        checkpoints.insert(account.layout.base);
    }
    assert!(checkpoints.len() > 2, "there were checkpoints: {checkpoints:?}");
}

/// A document goes to another section, and one batch tells it. The old section's link may come first, and its
/// subscription may end with the same batch. The document stays the same object, and is in the new section.
#[test]
fn r2_a_follower_keeps_a_document_that_another_def_holds_now() {
    for (from, to) in [("games", "admin"), ("admin", "games")] {
        for (is_read_whole, ends) in [(false, false), (false, true), (true, false), (true, true)] {
            let device = MemoryDevice::shared();
            let mut leader = open(&device, 1);
            let sections = [from, to].map(section_of);
            for def in &sections {
                leader.memory.subscribe(def).unwrap();
            }
            flush(&mut leader);
            tell_of(&mut leader, &sections[0], vec![row_in("a", 10, from)], Vec::new(), 5);
            flush(&mut leader);
            let mut follower = open(&device, 2);
            let id = follower.memory.documents().next().unwrap().1.id;
            // The server's word for the other section: its link is new, the document is the same.
            tell_of(&mut leader, &sections[1], vec![row_in("a", 10, from)], Vec::new(), 5);
            if ends {
                leader.memory.unsubscribe(&sections[0]);
            } else {
                tell_of(&mut leader, &sections[0], Vec::new(), vec![(pk("a"), 20)], 5);
            }
            flush(&mut leader);
            let Account { memory, layout, store, .. } = &mut follower;
            if is_read_whole {
                let reader = layout.reader(memory.schema().clone(), false);
                let opened = block_on(reader.read(store)).unwrap();
                let none = SortedSet::default();
                memory.adopt(opened.memory, &none, &none);
            } else {
                let found = block_on(store.get(Table::State, &layout.look_keys())).unwrap();
                let Tail::On(records) = layout.read_tail(&found) else { panic!("the log goes on") };
                for record in records {
                    layout.follow(memory, record);
                }
                memory.end_following();
            }
            memory.check_links();
            let case = format!("{from} to {to}, whole: {is_read_whole}, ends: {ends}");
            let set = &memory.collection(&sections[1]).unwrap().set;
            assert_eq!(set.keys().collect::<Vec<_>>(), [&pk("a")], "{case}");
            assert_eq!(memory.documents().next().unwrap().1.id, id, "{case}: the same object");
        }
    }
}
