//! The memory and its device: data that is written, brought back, lost and repaired.

use std::collections::BTreeSet;

use super::told::{SCHEMA, defs, pk};
use crate::codec::{Data, Part, Row};
use crate::memory::dirty::Dirty;
use crate::memory::set::VersionedSet;
use crate::memory::{Collection, Content, DocKey, Memory, PageRef, PartContext, Shown, Stamp};
use crate::model::schema::Schema;
use crate::model::{Def, Value};

fn data(doc: usize) -> Data {
    let text = |text: &str| Value::String(text.to_owned());
    let map = [("id", text(&format!("doc{doc}"))), ("section", text("games"))];
    Data::from_map(&map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()).unwrap()
}

fn row(doc: usize, v: u64) -> Row {
    Row { pk: pk(doc), v, deleted: false, max_life: None, data: Some(data(doc)) }
}

fn part(def: &Def, rows: Vec<Row>) -> Part {
    Part { rows, ..Part::empty(def.clone()) }
}

/// The whole class with four documents at version 7, in storage.
fn memory() -> Memory {
    let mut memory = Memory::new(Schema::from_json(SCHEMA).unwrap());
    let class = defs()[0].clone();
    memory.subscribe(&class).unwrap();
    let part = memory.prepare(part(&class, (0..4).map(|doc| row(doc, 7)).collect())).unwrap();
    memory.apply(part, PartContext { era: 0, settled: 7, asked: Some(0) });
    memory.dirty.take();
    memory.unreported.take();
    memory
}

fn key(doc: usize) -> DocKey {
    (0, pk(doc))
}

fn at(v: u64) -> Stamp {
    Stamp::new(0, v)
}

fn write(memory: &mut Memory, doc: usize) {
    let place = PageRef { page: 1, slot: doc as u32, bytes: 9 };
    memory.settle_at_rest(&key(doc), at(7), place);
}

fn is_resident(memory: &Memory, doc: usize) -> bool {
    matches!(memory.document(&key(doc)).unwrap().content, Content::Resident(_))
}

/// A store that begins again has nothing: all data in memory is written again, and the other data is lost.
#[test]
fn r14_a_wiped_store_is_written_again_as_far_as_the_data_is_in_memory() {
    let mut memory = memory();
    memory.pins.add(&key(1));
    for doc in 1..4 {
        write(&mut memory, doc);
    }
    // The slot of a document that has left is gone with the store.
    let class = defs()[0].clone();
    let left = memory.prepare(Part { left: vec![(pk(3), 8)], ..part(&class, vec![]) }).unwrap();
    memory.apply(left, PartContext { era: 0, settled: 8, asked: None });
    assert_eq!(memory.dirty.freed.len(), 1);
    let lost = memory.unsettle();
    assert_eq!(lost.into_iter().collect::<Vec<_>>(), [key(2)], "it was in storage alone");
    let dirty = memory.dirty.take();
    assert!(dirty.head && dirty.freed.is_empty() && dirty.links.is_empty());
    assert_eq!(dirty.documents.into_iter().collect::<BTreeSet<_>>(), [key(0), key(1)].into());
    assert!(is_resident(&memory, 0) && is_resident(&memory, 1));
    assert!(matches!(memory.document(&key(2)).unwrap().content, Content::Lost));
    assert!(memory.documents().all(|(_, document)| document.slot.is_none()));
    assert_eq!(memory.unreported.take().0, [defs()[0].clone()], "its data cannot be read");
}

/// Only the data of the present version comes back into memory, and only if it is not there.
#[test]
fn data_comes_back_into_memory_if_it_is_the_present_versions() {
    for (version, is_written, comes_back) in [(7, true, true), (6, true, false), (7, false, false)] {
        let mut memory = memory();
        memory.pins.add(&key(0));
        memory.pins.take_touched();
        if is_written {
            write(&mut memory, 0);
        }
        memory.reload(&key(0), at(version), data(1));
        let dirty = memory.dirty.take();
        assert_eq!(dirty.documents.contains(&key(0)), comes_back);
        assert_eq!(memory.pins.take_touched().contains(&key(0)), comes_back);
        assert_eq!(is_resident(&memory, 0), comes_back || !is_written);
        let kept = memory.base_data(&key(0)).cloned();
        assert_eq!(kept, Some(if comes_back { data(1) } else { data(0) }));
    }
}

#[test]
fn a_slot_that_was_written_for_a_document_that_has_left_is_freed() {
    let mut memory = memory();
    memory.unsubscribe(&defs()[0].clone());
    memory.dirty.take();
    write(&mut memory, 0);
    assert_eq!(memory.dirty.freed, [PageRef { page: 1, slot: 0, bytes: 9 }]);
    assert!(!memory.is_clean());
}

/// The answer to a request for a damaged document. Only one that says nothing of it ends its links.
#[test]
fn r14_a_lost_document_stays_until_the_server_has_nothing_of_it() {
    let own = Def::document(defs()[0].class(), &pk(0));
    let cursor = |rows| Part { next: Some("next".into()), ..part(&own, rows) };
    let gone = Row { deleted: true, data: None, ..row(0, 9) };
    let gone_with_data = Row { deleted: true, ..row(0, 9) };
    for (answer, is_answer, holds, is_lost) in [
        (part(&own, vec![row(0, 7)]), true, true, false),
        (part(&own, vec![row(0, 8)]), true, true, false),
        (part(&own, vec![row(0, 6)]), true, true, true),
        (part(&own, vec![row(1, 9)]), true, false, true),
        (part(&own, vec![gone]), true, false, true),
        (part(&own, vec![gone_with_data]), true, false, true),
        (part(&own, vec![]), true, false, true),
        (cursor(vec![]), false, true, true),
        (cursor(vec![row(0, 7)]), true, true, false),
    ] {
        let mut memory = memory();
        write(&mut memory, 0);
        memory.pins.add(&key(1));
        memory.pins.add(&key(0));
        memory.pins.take_touched();
        memory.lose(&key(0));
        assert!(memory.pins.take_touched().contains(&key(0)), "operations on it wait for its data");
        memory.unpin(&key(0));
        let answer = memory.prepare(answer).unwrap();
        assert_eq!(memory.apply_repair(answer, 0), is_answer);
        let held = memory.document(&key(0));
        assert_eq!(held.is_some(), holds);
        assert_eq!(held.is_none_or(|document| matches!(document.content, Content::Lost)), is_lost);
        assert_eq!(memory.document(&key(1)).unwrap().at, at(7), "of another document nothing is taken");
        memory.check_links();
    }
}

/// Data that is not lost is as good as the server's of the same version.
#[test]
fn r14_a_repair_of_a_whole_document_takes_a_later_version_only() {
    for v in [6, 7, 8] {
        let mut memory = memory();
        let id = memory.document(&key(0)).unwrap().id;
        let own = Def::document(defs()[0].class(), &pk(0));
        let answer = memory.prepare(part(&own, vec![row(0, v)])).unwrap();
        assert!(memory.apply_repair(answer, 0));
        assert_eq!(memory.document(&key(0)).unwrap().id == id, v <= 7, "{v}");
        let nothing = memory.prepare(part(&own, vec![])).unwrap();
        assert!(memory.apply_repair(nothing, 0));
        assert!(memory.document(&key(0)).is_some(), "an answer without it ends a lost one only");
    }
}

/// The application sees the version of a collection.
#[test]
fn a_collection_that_begins_again_has_changed() {
    let mut memory = memory();
    memory.restart(&defs()[0].clone());
    assert_eq!(memory.unreported.take().0, [defs()[0].clone()]);
    assert_eq!(memory.dirty.take().links.len(), 4, "its links are to be confirmed");
}

#[test]
fn the_changes_of_a_failed_batch_are_added_to_those_since() {
    let freed = PageRef { page: 1, slot: 1, bytes: 9 };
    let failed = || {
        let mut dirty = Dirty { subscriptions: true, head: true, freed: vec![freed], ..Dirty::default() };
        dirty.documents.insert(key(1));
        dirty.links.insert((defs()[0].clone(), pk(1)));
        dirty.collections.insert(defs()[0].clone());
        dirty
    };
    for (mut since, other) in
        [(Dirty::default(), failed()), (failed(), Dirty::default()), (failed(), failed())]
    {
        since.merge(other);
        assert!(since.subscriptions && since.head && since.freed.contains(&freed));
        assert_eq!((since.documents.len(), since.links.len(), since.collections.len()), (1, 1, 1));
        assert!(!since.is_empty());
    }
    let only = |change: fn(&mut Dirty)| {
        let mut dirty = Dirty::default();
        change(&mut dirty);
        dirty.is_empty()
    };
    assert!(only(|_| {}) && only(|dirty| dirty.subscriptions = true), "it comes with its collection");
    assert!(!only(|dirty| dirty.head = true));
    assert!(!only(|dirty| dirty.documents.extend([key(1)])));
    assert!(!only(|dirty| dirty.links.extend([(defs()[0].clone(), pk(1))])));
    assert!(!only(|dirty| dirty.collections.extend([defs()[0].clone()])));
    assert!(!only(|dirty| dirty.freed.push(PageRef { page: 1, slot: 1, bytes: 9 })));
}

/// R8: a version of another epoch says nothing.
#[test]
fn r8_a_collection_asks_from_0_in_another_era() {
    let mut set = VersionedSet::default();
    set.restore_v(Stamp::new(1, 7));
    let collection = Collection { set, ..Collection::default() };
    assert_eq!([0, 1, 2].map(|era| collection.v(era)), [0, 7, 0]);
    assert_eq!([0, 1, 2].map(|era| collection.is_loading(era)), [true, false, true]);
}

/// A life ends at the beginning of its minute, with an overlay and without.
#[test]
fn a_document_is_there_until_its_minute_begins() {
    let mut memory = memory();
    let class = defs()[0].clone();
    let short = memory.prepare(part(&class, vec![Row { max_life: Some(2), ..row(0, 8) }])).unwrap();
    memory.apply(short, PartContext { era: 0, settled: 8, asked: Some(7) });
    let shown = |max_life, data| Shown { id: 1, v: 8, data, max_life, defs: Vec::new() };
    for (now, is_there) in [(119_999, true), (120_000, false), (120_001, false)] {
        assert_eq!(memory.document(&key(0)).unwrap().is_expired(now), !is_there);
        assert_eq!(shown(Some(2), Some(data(0))).is_visible(now), is_there);
        assert!(shown(None, Some(data(0))).is_visible(now) && !shown(None, None).is_visible(now));
        assert!(!memory.document(&key(1)).unwrap().is_expired(now));
    }
    memory.remove_expired(119_999);
    assert!(memory.document(&key(0)).is_some());
    memory.remove_expired(120_000);
    assert!(memory.document(&key(0)).is_none() && memory.document(&key(1)).is_some());
    assert_eq!(memory.next_expiry(0), None);
}
