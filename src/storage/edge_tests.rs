//! Exact bounds of the stored state, failures half-way, schemas that change, and the order of stored names.
#![allow(clippy::print_stdout)] // the seed of a history that fails

use std::collections::{BTreeMap, BTreeSet};

use super::delta::{Delta, StateRecord};
use super::history_tests::Whole;
use super::journal::{JournalAtRest, JournalMark};
use super::mark::{HighWater, RolledBack};
use super::open::read;
use super::page::PAGE_ROWS_BYTES;
use super::world_tests::{World, data, defs, name, open, open_with, operation, pk, stored};
use super::{Account, Layout, Limits, Verdict, reopen};
use crate::codec::{Data, Part, Row};
use crate::crypto::{Random, StoreKeys};
use crate::error::{Code, Error, Result};
use crate::journal::JournalRecord;
use crate::memory::tests::seeds;
use crate::memory::{
    CollectionAtRest, DocumentAtRest, LinkAtRest, Member, Memory, PageRef, PartContext, Stamp,
};
use crate::model::{Def, Pk, SortedSet, Value};
use crate::store::conformance::block_on;
use crate::store::{Batch, MemoryDevice, MemoryStore, Store, Table};

/// The state records of a batch.
fn records(account: &Account<MemoryStore>, batch: &Batch) -> Vec<StateRecord> {
    let keys = StoreKeys::derive(&account.key, account.header.store_id());
    let states = batch.puts.iter().filter(|(table, ..)| *table == Table::State);
    states.map(|(_, key, sealed)| read(&keys, *key, sealed).unwrap()).collect()
}

/// Names ascend in a record, each once, so that equal states have equal bytes. In a checkpoint, the links of its
/// documents come first, then the others.
pub(super) fn check_order(account: &Account<MemoryStore>, batch: &Batch) {
    for record in records(account, batch) {
        let Delta { collections, documents, links, .. } = record.delta;
        assert!(collections.is_sorted_by(|(a, _), (b, _)| a < b), "{collections:?}");
        for (class, states) in documents {
            assert!(states.is_sorted_by(|(a, _), (b, _)| a < b), "{class}");
        }
        let runs = if record.number < record.base + u64::from(record.chunks) { 2 } else { 1 };
        for (def, states) in links {
            let pks: Vec<&Pk> = states.iter().map(|state| &state.pk).collect();
            assert!(pks.chunk_by(|a, b| a < b).count() <= runs, "{def}");
            assert_eq!(pks.iter().collect::<BTreeSet<_>>().len(), pks.len(), "{def}");
        }
    }
}

/// Whether a checkpoint has more than the head and the subscriptions.
pub(super) fn has_content(memory: &Memory) -> bool {
    let mut sets = memory.collections().map(|(_, collection)| &collection.set);
    memory.documents().next().is_some()
        || sets.any(|set| set.keys().chain(set.marks().map(|(pk, _)| pk)).count() > 0)
}

/// A session that holds all documents of a class.
fn holder(device: &MemoryDevice) -> Account<MemoryStore> {
    let mut account = open(device, 1);
    account.memory.subscribe(&Def::class_of(&name("Doc"))).unwrap();
    flush(&mut account);
    account
}

fn flush(account: &mut Account<MemoryStore>) -> Option<Batch> {
    let random = &mut crate::crypto::SeededRandom::new(account.layout.next_record);
    let (batch, receipt) = account.layout.batch(&mut account.memory, None, true, random).unwrap()?;
    block_on(account.store.commit(batch.clone())).unwrap();
    account.layout.committed(&mut account.memory, receipt);
    Some(batch)
}

fn tell(account: &mut Account<MemoryStore>, def: &Def, rows: Vec<Row>) {
    let part = account.memory.prepare(Part { rows, ..Part::empty(def.clone()) }).unwrap();
    account.memory.apply(part, PartContext { era: 0, settled: 5, asked: Some(0) });
}

fn row(pk: Pk, v: u64, data: Data) -> Row {
    Row { pk, v, deleted: false, max_life: None, data: Some(data) }
}

#[test]
fn r14_what_was_pending_is_lost_unless_the_newest_record_and_as_many_are_there() {
    for (next_record, pending) in (0..5).flat_map(|next| (0..=next).map(move |pending| (next, pending))) {
        let journal = JournalMark { pending, next_record, ..JournalMark::default() };
        let (session, epoch) = (String::new(), (None, 0));
        let mark = HighWater { next_record: 7, next_page: 8, records: 9, journal, session, epoch };
        for (numbers, ops) in (0..32).flat_map(|numbers| (0..32).map(move |ops| (numbers, ops & numbers))) {
            let has = |bits: u64, number: u64| bits >> number & 1 == 1;
            let records = (0..5).filter(|number| has(numbers, *number)).map(|number| {
                let op = has(ops, number).then(|| operation("op", &[]));
                JournalRecord { number, op, ..JournalRecord::of("op".to_owned(), 0) }
            });
            let found = JournalAtRest { records: records.collect(), ..JournalAtRest::default() };
            let has_newest = (0..5).any(|number| has(numbers, number) && number + 1 >= next_record);
            let is_there = has_newest && u64::from(ops.count_ones()) >= pending;
            let lost = if is_there { 0 } else { pending };
            assert_eq!(mark.lost(&found), RolledBack { records: 9, pending, lost }, "{numbers:b} {ops:b}");
        }
    }
}

/// A system that has no random bytes any more.
struct NoRandom;

impl Random for NoRandom {
    fn fill(&mut self, _: &mut [u8]) -> Result<()> {
        Err(Error::new(Code::Internal, "no random bytes"))
    }
}

#[test]
fn r7_a_batch_that_cannot_be_sealed_is_due_again() {
    for seed in seeds(8) {
        println!("ESCALE_SEED={seed}");
        let mut world = World::new(seed);
        for _ in 0..50 {
            world.step();
            let Account { memory, layout, .. } = &mut world.leader;
            if !memory.is_clean() {
                assert!(layout.batch(memory, None, true, &mut NoRandom).is_err());
                assert!(!memory.is_clean());
            }
        }
        while world.flush(true) {}
        world.check();
    }
}

/// The log may be as long as the checkpoint, and as long as its limit.
#[test]
fn a_log_longer_than_its_bounds_becomes_a_checkpoint() {
    let mut account = holder(&MemoryDevice::new());
    let bounds = [(500, 0, 500, false), (500, 0, 499, true), (500, 500, 0, false), (500, 499, 0, true)];
    for (doc, (log, checkpoint, limit, is_due)) in (0..).zip(bounds) {
        account.layout.set_limits(Limits { log_bytes_min: limit, ..Limits::default() });
        (account.layout.log_bytes, account.layout.checkpoint_bytes) = (log, checkpoint);
        let def = Def::document(&name("Doc"), &pk(doc));
        account.memory.subscribe(&def).unwrap();
        let batch = flush(&mut account).unwrap();
        assert_eq!(records(&account, &batch).len(), if is_due { 2 } else { 1 }, "{log} {checkpoint} {limit}");
    }
}

/// A batch in which most documents leave lists those that are left, because they are fewer.
#[test]
fn a_batch_that_most_documents_leave_is_a_checkpoint() {
    for (limit, left, is_due) in [(9, 9, true), (9, 10, false), (10, 0, false)] {
        let device = MemoryDevice::shared();
        let mut account = holder(&device);
        account.layout.set_limits(Limits { changes_min: limit, ..Limits::default() });
        let class = Def::class_of(&name("Doc"));
        tell(&mut account, &class, (0..10 + left).map(|doc| row(pk(doc), 300, data(doc, 300))).collect());
        flush(&mut account).unwrap();
        let before = account.layout.base;
        tell(
            &mut account,
            &class,
            (0..10)
                .map(|doc| Row { deleted: true, data: None, ..row(pk(doc), 400, data(doc, 400)) })
                .collect(),
        );
        flush(&mut account).unwrap();
        assert_eq!(account.layout.base > before, is_due, "{limit} {left}");
        let opened = open(&device, 2);
        assert!(!opened.damage.any());
        assert!(Whole::of(&opened.memory) == Whole::of(&account.memory), "{limit} {left}");
    }
}

/// A batch that was written, and was said to have failed.
fn fail_though_written(account: &mut Account<MemoryStore>) {
    let random = &mut crate::crypto::SeededRandom::new(account.layout.next_record);
    let (batch, receipt) = account.layout.batch(&mut account.memory, None, true, random).unwrap().unwrap();
    block_on(account.store.commit(batch)).unwrap();
    account.layout.failed(&mut account.memory, receipt);
}

/// The documents came back, so that the next batch was no checkpoint. Its record had nothing before it: the failed one had
/// replaced the log. All documents of the device were lost.
#[test]
fn a_checkpoint_that_was_said_to_have_failed_is_followed_by_another() {
    let device = MemoryDevice::shared();
    let mut account = holder(&device);
    account.layout.set_limits(Limits { changes_min: 9, ..Limits::default() });
    let class = Def::class_of(&name("Doc"));
    let rows = |v| (0..10).map(move |doc| row(pk(doc), v, data(doc, v))).collect();
    tell(&mut account, &class, rows(300));
    flush(&mut account).unwrap();
    let gone = (0..10).map(|doc| Row { deleted: true, data: None, ..row(pk(doc), 400, data(doc, 400)) });
    tell(&mut account, &class, gone.collect());
    fail_though_written(&mut account);
    tell(&mut account, &class, rows(500));
    flush(&mut account).unwrap();
    let opened = open(&device, 2);
    assert!(!opened.damage.any(), "{:?}", opened.damage);
    assert!(Whole::of(&opened.memory) == Whole::of(&account.memory));
}

/// The session took it for a store that has lost records: it wrote all from memory, without the data that was only on the
/// device.
#[test]
fn r14_a_store_with_a_batch_that_was_said_to_have_failed_is_whole() {
    for is_checkpoint in [false, true] {
        let device = MemoryDevice::shared();
        let mut account = holder(&device);
        let class = Def::class_of(&name("Doc"));
        tell(&mut account, &class, vec![row(pk(1), 300, data(1, 300))]);
        flush(&mut account).unwrap();
        account.layout.log_bytes = if is_checkpoint { usize::MAX } else { 0 };
        tell(&mut account, &class, vec![row(pk(2), 400, data(2, 400))]);
        // The batch has replaced the record of an operation.
        let judged = |account: &Account<MemoryStore>| {
            let expected = account.layout.expected([7].into_iter());
            account.layout.judge(&block_on(reopen(&account.store, &expected)).unwrap())
        };
        assert_eq!(judged(&account), Verdict::Again, "the record is gone, and nothing has replaced it");
        fail_though_written(&mut account);
        assert_eq!(judged(&account), Verdict::Same);
        flush(&mut account).unwrap();
        let opened = open(&device, 2);
        assert!(!opened.damage.any(), "{:?}", opened.damage);
        assert!(Whole::of(&opened.memory) == Whole::of(&account.memory));
    }
}

/// A record of a checkpoint takes 16,000 entries: each document is one, and so is each link.
#[test]
fn a_checkpoint_of_many_documents_has_several_records() {
    for (count, chunks) in [(8_000, [0, 0, 8_000].as_slice()), (8_001, &[0, 0, 8_000, 1])] {
        let device = MemoryDevice::shared();
        let mut account = holder(&device);
        let rows = (0..count).map(|doc| row(pk(doc), 300, data(doc, 300))).collect();
        tell(&mut account, &Def::class_of(&name("Doc")), rows);
        account.layout.log_bytes = usize::MAX;
        let batch = flush(&mut account).unwrap();
        let of = |record: &StateRecord| record.delta.documents.iter().map(|(_, states)| states.len()).sum();
        let found: Vec<usize> = records(&account, &batch).iter().map(of).collect();
        assert_eq!(found, chunks);
        let opened = open(&device, 2);
        assert!(!opened.damage.any());
        assert!(Whole::of(&opened.memory) == Whole::of(&account.memory), "{count} documents");
    }
}

fn data_of(bytes: usize) -> Data {
    let of = |bytes: usize| {
        let text = Value::String("x".repeat(bytes));
        let (id, section) = (Value::from("a"), Value::from("s"));
        let tags = Value::Array(Vec::new());
        let all = [("id", id), ("section", section), ("tags", tags), ("text", text)];
        Data::from_map(&all.map(|(name, value)| (name.to_owned(), value)).into()).unwrap()
    };
    let rest = of(60_000).as_bytes().len() - 60_000;
    let data = of(bytes - rest);
    assert_eq!(data.as_bytes().len(), bytes);
    data
}

#[test]
fn a_page_is_full_at_its_bound_and_the_next_one_begins_empty() {
    const FULL: usize = PAGE_ROWS_BYTES;
    let mut account = holder(&MemoryDevice::new());
    let mut pks: Vec<Pk> = (0..5).map(pk).collect();
    pks.sort_unstable();
    let sizes = [FULL - 1, 65_000, FULL, FULL - 1, 65_000];
    let rows = pks.iter().zip(sizes).map(|(pk, bytes)| row(pk.clone(), 10, data_of(bytes)));
    tell(&mut account, &Def::class_of(&name("Doc")), rows.collect());
    flush(&mut account).unwrap();
    let slots: BTreeMap<&Pk, PageRef> =
        account.memory.documents().map(|(key, document)| (&key.1, document.slot.unwrap())).collect();
    let places: Vec<(u64, u32)> = slots.values().map(|place| (place.page, place.slot)).collect();
    assert_eq!(places, [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1)]);
}

/// A listing of one collection opens few pages.
#[test]
fn documents_of_one_collection_are_side_by_side() {
    let mut account = holder(&MemoryDevice::new());
    let sections = &defs()[1..3];
    for def in sections {
        account.memory.subscribe(def).unwrap();
    }
    let rows: Vec<Row> = (9..39).map(|doc| row(pk(doc), 13 * doc, data(doc, 13 * doc))).collect();
    tell(&mut account, &Def::class_of(&name("Doc")), rows.clone());
    for (def, rest) in sections.iter().zip(0..) {
        tell(&mut account, def, rows.iter().filter(|row| row.v % 3 == rest).cloned().collect());
    }
    flush(&mut account).unwrap();
    let mut placed: Vec<_> = account
        .memory
        .documents()
        .map(|(_, d)| (d.slot.unwrap().page, d.slot.unwrap().slot, d.defs.last()))
        .collect();
    placed.sort_unstable();
    placed.dedup_by_key(|place| place.2);
    assert_eq!(placed.len(), 3, "{placed:?}");
}

#[test]
fn sparse_pages_are_rewritten_once_there_are_enough() {
    let mut layout = Layout::new(open(&MemoryDevice::new(), 1).layout.keys.clone(), String::new());
    layout.set_limits(Limits { sparse_pages: 3, ..Limits::default() });
    for page in 0..5 {
        layout.pages.occupy(PageRef { page, slot: 0, bytes: PAGE_ROWS_BYTES as u32 / 4 });
        let sparse: Vec<u64> = if page < 2 { vec![] } else { (0..3).collect() };
        assert_eq!(layout.sparse_pages(&SortedSet::default()), sparse, "{} pages", page + 1);
    }
}

#[test]
fn a_layout_read_again_keeps_its_header_its_limits_and_what_is_due() {
    let device = MemoryDevice::shared();
    drop(open(&device, 1));
    for (own_is_due, is_due) in [(false, false), (false, true), (true, false), (true, true)] {
        for header in [Vec::new(), vec![2; 5]] {
            let (mut own, mut opened) = (open(&device, 2).layout, open(&device, 3).layout);
            own.set_limits(Limits { log_bytes_min: 7, sparse_pages: 3, ..Limits::default() });
            (own.header, opened.header) = (vec![1; 5], header.clone());
            (own.is_backup_due, opened.is_backup_due) = (own_is_due, is_due);
            own.go_on_from(opened);
            assert_eq!(own.is_backup_due, own_is_due || is_due);
            assert_eq!(own.header, if header.is_empty() { vec![1; 5] } else { header });
            assert_eq!((own.limits.log_bytes_min, own.limits.sparse_pages), (7, 3));
        }
    }
}

#[test]
fn a_poll_finds_the_known_state_or_an_empty_store_of_which_none_is_known() {
    let mut account = holder(&MemoryDevice::new());
    let keys = account.layout.look_keys();
    let found = block_on(account.store.get(Table::State, &keys)).unwrap();
    let nothing = vec![None; found.len()];
    assert!(account.layout.is_as_known(&found) && !account.layout.is_as_known(&nothing));
    let fresh = Layout::new(account.layout.keys.clone(), String::new());
    assert!(fresh.is_as_known(&nothing) && !fresh.is_as_known(&found));
    assert_eq!(
        ((fresh.base, fresh.next_record), fresh.chunks, fresh.log_bytes, fresh.checkpoint_bytes),
        ((0, 0), 0, 0, 0)
    );
    let def = Def::document(&name("Doc"), &pk(1));
    account.memory.subscribe(&def).unwrap();
    flush(&mut account).unwrap();
    let (own, beat) = (crate::store::RecordKey([3; 16]), account.layout.beat_key());
    let fixed = [beat, account.layout.signal_key()];
    assert_eq!(
        (account.layout.is_request(&own), fixed.map(|key| account.layout.is_request(&key))),
        (true, [false; 2])
    );
}

#[test]
fn the_newest_era_of_a_record_is_that_of_any_part_of_it() {
    assert_eq!(Delta::default().newest_era(), 0);
    for eras in 0..81 {
        let [a, b, c, d] = [eras % 3, eras / 3 % 3, eras / 9 % 3, eras / 27];
        let state = CollectionAtRest { v: Stamp::new(a, 9), ready: true, load: None, lease: None };
        let def = Def::class_of(&name("Doc"));
        let place = PageRef { page: 1, slot: 1, bytes: 1 };
        let document = DocumentAtRest { at: Stamp::new(b, 9), max_life: None, place };
        let member = Some(Member { at: Stamp::new(c, 9), confirmed: true });
        let link = LinkAtRest { pk: pk(1), member, mark: Some(Stamp::new(d, 9)) };
        let bare = LinkAtRest { pk: pk(2), member: None, mark: None };
        let delta = Delta {
            collections: vec![(def.clone(), None), (def.clone(), Some(state))],
            documents: vec![(name("Doc"), vec![(pk(1), None), (pk(2), Some(document))])],
            links: vec![(def, vec![bare, link])],
            ..Delta::default()
        };
        assert_eq!(delta.newest_era(), [a, b, c, d].into_iter().max().unwrap(), "{a} {b} {c} {d}");
    }
}

/// A page of a class that the schema no longer has is deleted, unless a document of another class is in it.
#[test]
fn the_pages_of_a_removed_class_are_deleted() {
    const DOC: &str = r#"{"Doc":{"key":["id"]"#;
    let device = MemoryDevice::shared();
    let mut account = holder(&device);
    let notes = Def::class_of(&name("Note"));
    account.memory.subscribe(&notes).unwrap();
    tell(&mut account, &Def::class_of(&name("Doc")), vec![row(pk(1), 10, data(1, 10))]);
    tell(&mut account, &notes, vec![row(pk(1), 10, data(1, 10))]);
    flush(&mut account).unwrap();
    let both = stored(&device, Table::Pages);
    tell(&mut account, &notes, vec![row(pk(2), 11, data(2, 11))]);
    flush(&mut account).unwrap();
    assert_eq!((both.len(), stored(&device, Table::Pages).len()), (1, 2));
    drop(account);

    let mut account = open_with(&device, 2, &format!("{DOC},\"release\":2}}}}")).unwrap();
    assert!(!account.damage.any());
    while flush(&mut account).is_some() {}
    assert_eq!(stored(&device, Table::Pages), both);
    assert_eq!((account.memory.documents().count(), account.layout.page_counts()), (1, (1, 1)));
    drop(account);
    let again = open_with(&device, 3, &format!("{DOC},\"release\":2}}}}")).unwrap();
    assert!(again.memory.is_clean(), "it is the same schema");
}
