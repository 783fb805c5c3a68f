//! R14: documents found damaged when they are read, and how they are fetched again.

use std::collections::BTreeSet;

use escale::Code;
use escale::codec::Row;
use escale::limits::{BACKOFF_MS, DAMAGED_DOCUMENTS_MAX};
use escale::storage::Limits;
use escale::store::MemoryDevice;
use escale::sync::{Config, Event, Mode, StorageState};

use crate::harness::{config, def, fault, part, pk, reply, row, these};
use crate::harness_with_device::Desk;

/// A session that has found its only document damaged.
fn damaged() -> Desk {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1)]);
    desk.damage_pages();
    desk.read_all();
    desk
}

#[test]
fn r14_damaged_documents_are_asked_for_one_by_one() {
    let mut desk = Desk::new();
    desk.load(vec![row("a", 1), row("b", 2)]);
    desk.damage_pages();
    assert!(desk.read_all().is_empty());
    assert_eq!(desk.storage(), StorageState::Lost);
    assert_eq!(desk.harness.client.machine.status().damaged.documents, 2);
    assert_eq!(desk.harness.error(), Some(Code::RecordDamaged));
    let (number, request) = desk.harness.request();
    let asked: BTreeSet<String> = request.subs.iter().map(|sub| sub.def.to_string()).collect();
    let wanted: BTreeSet<String> = ["a", "b"].map(|id| format!("Doc@{}", pk(id))).into();
    assert_eq!(asked, wanted);
    assert!(request.subs.iter().all(|sub| sub.v == 0));
    let rows = |sub: &escale::codec::Sub| {
        if sub.def.to_string().ends_with(pk("a").as_str()) { row("a", 1) } else { row("b", 9_000) }
    };
    let parts = request.subs.iter().map(|sub| part(&sub.def, vec![rows(sub)])).collect();
    desk.harness.answer(number, reply(20_000, parts));
    desk.work();
    assert_eq!(desk.read_all(), these(&[("a", 1), ("b", 9_000)]));
    assert_eq!(desk.storage(), StorageState::Ok);
    assert_eq!(desk.harness.v(&def("Doc")), 9_900, "the collection is not loaded again");
}

#[test]
fn r14_a_damaged_document_that_is_no_more_leaves() {
    let mut desk = damaged();
    let (number, request) = desk.harness.request();
    desk.harness.answer(number, reply(20_000, vec![part(&request.subs[0].def, vec![])]));
    desk.work();
    assert!(desk.harness.shown(&def("Doc")).is_empty());
    assert_eq!(desk.storage(), StorageState::Ok);
}

/// The repair's part may be cut off by a full reply: that says nothing about the document.
#[test]
fn r14_an_unfinished_answer_does_not_remove_the_document() {
    let mut desk = damaged();
    let (number, request) = desk.harness.request();
    let cut = escale::codec::Part { next: Some("c".into()), ..part(&request.subs[0].def, vec![]) };
    desk.harness.answer(number, reply(20_000, vec![cut]));
    assert_eq!(desk.harness.shown(&def("Doc")), these(&[("a", 1)]));
    let (_, request) = desk.harness.request();
    assert_eq!(request.subs[0].def.to_string(), format!("Doc@{}", pk("a")), "asked again");
}

#[test]
fn r14_a_repair_that_is_refused_is_tried_again_or_done_by_the_collection() {
    let mut desk = damaged();
    let (number, request) = desk.harness.request();
    let single = request.subs[0].def.clone();
    desk.harness.answer(number, reply(20_000, vec![fault(&single, Code::Contention)]));
    if desk.harness.requests.is_empty() {
        let at = desk.harness.wake_at().expect("tried again");
        desk.harness.wake(at);
    }
    let (number, request) = desk.harness.request();
    assert_eq!(request.subs[0].def, single, "a passing fault");
    // This server refuses pulls of single documents: the collection that holds it is loaded from scratch.
    desk.harness.answer(number, reply(20_000, vec![fault(&single, Code::Forbidden)]));
    desk.work();
    let (number, request) = desk.harness.request();
    assert_eq!((request.subs[0].def.to_string().as_str(), request.subs[0].v), ("Doc", 0));
    desk.harness.answer(number, reply(20_000, vec![part(&def("Doc"), vec![row("a", 1)])]));
    desk.work();
    assert_eq!(desk.read_all(), these(&[("a", 1)]));
    assert_eq!(desk.storage(), StorageState::Ok);
}

#[test]
fn r14_a_repair_that_succeeds_ends_the_delays_of_its_document() {
    let mut desk = damaged();
    for _ in 0..8 {
        let (number, request) = desk.harness.request();
        desk.harness.answer(number, reply(20_000, vec![fault(&request.subs[0].def, Code::Contention)]));
        if desk.harness.requests.is_empty() {
            let at = desk.harness.wake_at().expect("tried again");
            desk.harness.wake(at);
        }
    }
    let (number, request) = desk.harness.request();
    desk.harness.answer(number, reply(20_000, vec![part(&request.subs[0].def, vec![row("a", 1)])]));
    desk.work();
    desk.damage_pages();
    desk.read_all();
    let (number, request) = desk.harness.request();
    let single = request.subs[0].def.clone();
    desk.harness.answer(number, reply(20_000, vec![fault(&single, Code::Contention)]));
    if desk.harness.requests.is_empty() {
        desk.harness.wake(desk.harness.now + BACKOFF_MS.0);
    }
    assert_eq!(desk.harness.request().1.subs[0].def, single, "after the first delay");
}

/// A session that has found that many documents damaged, and these documents.
fn with_damaged(count: usize) -> (Desk, Vec<Row>) {
    let mut desk = Desk::new();
    let rows: Vec<Row> = (0..count as u64).map(|n| row(&format!("d{n}"), 1_000 + n)).collect();
    desk.load(rows.clone());
    desk.damage_pages();
    assert!(desk.read_all().is_empty());
    desk.work();
    (desk, rows)
}

#[test]
fn r14_a_hundred_documents_are_asked_for_one_by_one() {
    let (desk, _) = with_damaged(DAMAGED_DOCUMENTS_MAX);
    let damaged = desk.harness.client.machine.status().damaged;
    assert_eq!((damaged.documents, damaged.collections), (DAMAGED_DOCUMENTS_MAX as u64, 0));
    let subs = desk.harness.requests.iter().flat_map(|(_, request, _)| &request.subs);
    assert!(subs.clone().count() > 0 && subs.clone().all(|sub| sub.def != def("Doc")));
}

#[test]
fn r14_above_a_hundred_the_collection_is_loaded_anew() {
    let (mut desk, rows) = with_damaged(DAMAGED_DOCUMENTS_MAX + 1);
    assert_eq!(desk.harness.client.machine.status().damaged.collections, 1);
    let (number, request) = desk.harness.request();
    assert_eq!(request.subs.len(), 1);
    assert_eq!((request.subs[0].def.to_string().as_str(), request.subs[0].v), ("Doc", 0));
    desk.harness.answer(number, reply(20_000, vec![part(&def("Doc"), rows)]));
    desk.work();
    assert_eq!(desk.read_all().len(), DAMAGED_DOCUMENTS_MAX + 1);
    assert_eq!(desk.storage(), StorageState::Ok);
}

#[test]
fn r14_in_avion_damage_is_listed_until_the_next_synced() {
    let device = MemoryDevice::new();
    let (mut desk, _) = Desk::open(&device, config(), Limits::default());
    desk.load(vec![row("a", 1), row("b", 2)]);
    desk.damage_pages();
    drop(desk);
    let avion = Config { mode: Mode::Avion, ..config() };
    let (mut desk, damage) = Desk::open(&device, avion, Limits::default());
    assert!(!damage.any(), "pages are read on demand");
    assert!(desk.read_all().is_empty());
    assert_eq!(desk.storage(), StorageState::Lost);
    assert_eq!(desk.harness.client.machine.status().damaged.documents, 2);
    assert!(desk.harness.requests.is_empty());
    desk.harness.feed(Event::SetMode(Mode::Synced));
    let (number, request) = desk.harness.request();
    let of = |def: &escale::model::Def| {
        let rows = [row("a", 1), row("b", 2)];
        rows.into_iter().filter(|row| def.to_string().ends_with(row.pk.as_str())).collect::<Vec<_>>()
    };
    let parts = request.subs.iter().map(|sub| part(&sub.def, of(&sub.def))).collect();
    desk.harness.answer(number, reply(20_000, parts));
    desk.work();
    assert_eq!(desk.storage(), StorageState::Ok);
    assert_eq!(desk.read_all().len(), 2);
}
