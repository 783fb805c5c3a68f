//! R90: data once in a reply. A row refers to the row of the same document and version in an earlier part.

use std::collections::BTreeMap;

use escale::codec::{Part, Row, Sub, SyncReply, SyncRequest};
use escale::model::{Def, Value};
use escale_server::settings::Settings;
use proptest::prelude::*;

use crate::support::items::{adh, asso, items_with, sta, tree_defs};
use crate::support::world::*;

fn request(subs: Vec<Sub>, refs: bool, page: Option<u64>) -> SyncRequest {
    SyncRequest { subs, refs, page, ..SyncRequest::of("s") }
}

fn reply(world: &World, request: &SyncRequest) -> SyncReply {
    world.engine.sync("o", &caller(), request).unwrap()
}

/// All parts of each def, page by page, resolved; and how many references there were.
fn load(world: &World, defs: &[Def], refs: bool, page: Option<u64>) -> (BTreeMap<Def, Part>, usize) {
    let (mut whole, mut references) = (BTreeMap::<Def, Part>::new(), 0);
    let mut subs: Vec<Sub> = defs.iter().map(|def| sub(def, 0)).collect();
    while !subs.is_empty() {
        let mut reply = reply(world, &request(subs.clone(), refs, page));
        references += reply.parts.iter().flat_map(|part| &part.rows).filter(|row| row.is_reference()).count();
        reply.resolve().unwrap();
        reply.check().unwrap();
        assert!(!reply.parts.is_empty(), "it goes forward");
        for part in reply.parts {
            let at = subs.iter().position(|sub| sub.def == part.def).unwrap();
            subs[at].cursor.clone_from(&part.next);
            if part.next.is_none() {
                subs.remove(at);
            }
            let so_far = whole.entry(part.def.clone()).or_insert_with(|| Part::empty(part.def.clone()));
            so_far.rows.extend(part.rows);
            so_far.left.extend(part.left);
            so_far.present = part.present;
            so_far.floor = part.floor;
            so_far.total = part.total;
            so_far.fault = part.fault;
        }
    }
    (whole, references)
}

/// A write of a note: the id, the shelves, the minutes of its life.
type Write = (u8, u8, u8, Option<u8>);

fn write(world: &World, (id, place, tags, life): Write) {
    let mut map = note(&id.to_string(), ["one", "two"][usize::from(place % 2)]);
    let tag = |n: u8| Value::from(["red", "blue", "green"][usize::from(n)]);
    map.insert("tags".into(), Value::Array((0..3).filter(|n| tags >> n & 1 == 1).map(tag).collect()));
    map.insert("text".into(), Value::from(&*"x".repeat(usize::from(tags) * 40)));
    if let Some(minutes) = life {
        map.insert("maxLife".into(), Value::from((NOON / 60_000) as i64 + i64::from(minutes)));
    }
    put(&world.engine, map).unwrap();
    world.clock.advance(700);
}

fn defs() -> Vec<Def> {
    let of = |collection: &str, value: &str| {
        let name = |text: &str| escale::model::Name::new(text).unwrap();
        Def::collection(&name("Note"), &name(collection), &[value]).unwrap()
    };
    let single = escale::model::Pk::from_key(&["1"]).unwrap();
    let single = format!("Note@{single}").parse().unwrap();
    let unknown = def("Nothing");
    vec![
        def("Note"),
        of("shelf", "one"),
        of("shelf", "two"),
        of("tags", "red"),
        of("tags", "blue"),
        single,
        unknown,
    ]
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn r90_all_pages_resolved_equal_those_without_references(
        writes in proptest::collection::vec((0..12_u8, any::<u8>(), 0..8_u8, proptest::option::of(1..90_u8)), 1..40),
        ends in proptest::collection::vec(0..12_u8, 0..4),
        order in Just(defs()).prop_shuffle(),
        page_bytes in 60..6_000_usize,
        page in proptest::option::of(1..4_000_u64),
    ) {
        let world = world_with(Settings { page_bytes, ..Settings::default() });
        for one in writes {
            write(&world, one);
        }
        for id in ends {
            // If there is no such note, nothing ends.
            drop(delete(&world.engine, &id.to_string()));
        }
        let (plain, none) = load(&world, &order, false, None);
        prop_assert_eq!(none, 0, "without `refs`, each living row has its data");
        let (resolved, _) = load(&world, &order, true, page);
        prop_assert_eq!(resolved, plain);
    }
}

#[test]
fn r90_a_document_in_three_defs_crosses_once() {
    let world = world();
    for n in 0..20 {
        let mut map = note(&n.to_string(), "one");
        map.insert("tags".into(), Value::Array(vec!["red".into()]));
        map.insert("text".into(), Value::from(&*"x".repeat(1_000)));
        put(&world.engine, map).unwrap();
    }
    let defs = [def("Note"), defs()[1].clone(), defs()[3].clone()];
    let (_, references) = load(&world, &defs, true, None);
    assert_eq!(references, 40);
    let length = |refs| {
        let subs = defs.iter().map(|def| sub(def, 0)).collect();
        escale::codec::encode(escale::codec::Format::Msgpack, &reply(&world, &request(subs, refs, None)))
            .unwrap()
            .len()
    };
    assert!(length(true) * 5 < length(false) * 2, "{} and {}", length(true), length(false));
}

#[test]
fn r90_a_reference_weighs_as_much_as_a_row_without_data() {
    let world = world_with(Settings { page_bytes: 3_000, ..Settings::default() });
    for n in 0..2 {
        let mut map = note(&n.to_string(), "one");
        map.insert("text".into(), Value::from(&*"x".repeat(1_200)));
        put(&world.engine, map).unwrap();
    }
    let subs = vec![sub(&def("Note"), 0), sub(&shelf("one"), 0)];
    let parts = |refs| reply(&world, &request(subs.clone(), refs, None)).parts;
    assert_eq!(parts(false).len(), 1, "the page has room for the rows with data once");
    let parts = parts(true);
    assert!(parts.len() == 2 && parts[1].next.is_none() && parts[1].rows.iter().all(Row::is_reference));
}

#[test]
fn r90_a_part_that_is_taken_back_with_its_tree_sends_nothing() {
    let world = items_with(Settings { page_bytes: 3_000, ..Settings::default() });
    let big = |mut map: BTreeMap<String, Value>, n: usize| {
        map.insert("text".into(), Value::from(&*"x".repeat(n)));
        map
    };
    world
        .engine
        .write("o", |w| {
            w.put("Asso", big(asso("a"), 100))?;
            w.put("Asso", big(asso("b"), 900))?;
            w.put("Adh", big(adh("b", "1"), 700))?;
            w.put("Sta", sta("b"))
        })
        .unwrap();
    // In a small page, the tree of b has no room after the first def, so its parts are taken back.
    let [parent, members, statutes] = tree_defs("b");
    let [other, ..] = tree_defs("a");
    let mut subs: Vec<Sub> = [&other, &parent, &members, &statutes].map(|def| sub(def, 0)).into();
    subs.push(sub(&def("Asso"), 0));
    for page in [None, Some(400)] {
        let mut first = reply(&world, &request(subs.clone(), true, page));
        first.resolve().unwrap();
        first.check().unwrap();
        let told: Vec<&Def> = first.parts.iter().map(|part| &part.def).collect();
        if page.is_none() {
            assert!(told.len() >= 4, "all of the tree is there: {told:?}");
        } else {
            assert_eq!(told, [&other], "none of the tree is there");
        }
    }
    // A small page does not cut the tree that comes first.
    let tree = subs[1..4].to_vec();
    let whole = reply(&world, &request(tree, true, Some(100)));
    assert!(whole.parts.len() == 3 && whole.parts.iter().all(|part| part.next.is_none()));
}

#[test]
fn a_session_may_ask_for_smaller_pages_and_not_for_larger_ones() {
    let world = world_with(Settings { page_bytes: 1_000, ..Settings::default() });
    for n in 0..40 {
        put(&world.engine, note(&n.to_string(), "one")).unwrap();
    }
    let rows = |page| reply(&world, &request(vec![sub(&def("Note"), 0)], false, page)).parts[0].rows.len();
    assert_eq!(rows(Some(0)), 1, "each reply goes forward");
    assert!(rows(Some(300)) < rows(None));
    assert_eq!(rows(Some(u64::MAX >> 11)), rows(None));
}
