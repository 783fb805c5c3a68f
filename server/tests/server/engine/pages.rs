//! Large answers: pages, cursors, and changes between pages.

use std::collections::BTreeSet;

use escale::Code;
use escale::codec::{Part, Sub, SyncRequest};
use escale::limits::DOCUMENT_BYTES_MAX;
use escale::model::Value;
use escale_server::engine::renew_epoch_of;
use escale_server::settings::Settings;
use proptest::prelude::*;

use crate::support::session::Session;
use crate::support::world::*;

fn small(page_bytes: usize) -> Settings {
    Settings { page_bytes, ..Settings::default() }
}

fn with_notes(page_bytes: usize, n: usize) -> World {
    let world = world_with(small(page_bytes));
    // So that the org exists even with few notes.
    world.engine.write("o", |w| w.put("Log", key("first"))).unwrap();
    world
        .engine
        .write("o", |w| (0..n).try_for_each(|i| w.put("Note", note(&i.to_string(), "one")).map(|_| ())))
        .unwrap();
    world
}

fn page(world: &World, def: &escale::model::Def, v: u64, cursor: Option<String>) -> Part {
    ask(&world.engine, vec![Sub { def: def.clone(), v, cursor }]).parts.remove(0)
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn pages_make_one_whole(page_bytes in 1..2_000_usize, n in 0..40_usize, later in 0..10_usize) {
        let world = with_notes(page_bytes, n);
        for i in 0..later {
            put(&world.engine, note(&format!("later{i}"), "one")).unwrap();
        }
        for def in [shelf("one"), def("Note")] {
            let (mut rows, mut cursor, mut pages) = (Vec::new(), None, 0);
            loop {
                let part = page(&world, &def, 0, cursor);
                pages += 1;
                prop_assert_eq!(part.total, Some((n + later) as u64));
                prop_assert_eq!(part.present.is_some(), part.next.is_none());
                prop_assert!(!part.rows.is_empty() || part.next.is_none(), "a page goes forward");
                if let Some(present) = &part.present {
                    prop_assert_eq!(present.len(), n + later);
                }
                rows.extend(part.rows.into_iter().map(|row| (row.v, row.pk)));
                cursor = part.next;
                if cursor.is_none() {
                    break;
                }
            }
            prop_assert_eq!(rows.len(), n + later);
            prop_assert!(rows.windows(2).all(|pair| pair[0] < pair[1]), "ascending by (v, pk)");
            prop_assert!(page_bytes > 100 || pages >= n, "small pages are many");
        }
    }
}

#[test]
fn a_document_larger_than_a_page_has_a_page_of_its_own() {
    let world = world();
    let mut large = note("a", "one");
    large.insert("text".into(), Value::String("x".repeat(DOCUMENT_BYTES_MAX - 100)));
    put(&world.engine, large.clone()).unwrap();
    put(&world.engine, note("b", "one")).unwrap();
    let first = page(&world, &def("Note"), 0, None);
    assert_eq!((ids(&first), first.next.is_some()), (vec!["a".into()], true));
    assert_eq!(ids(&page(&world, &def("Note"), 0, first.next)), ["b"]);
    large.insert("more".into(), Value::String("x".repeat(200)));
    assert_eq!(put(&world.engine, large).unwrap_err().code(), Code::TooLarge);
}

#[test]
fn what_the_reply_has_no_room_for_is_left_out() {
    let world = with_notes(300, 20);
    let subs =
        vec![sub(&shelf("two"), 0), sub(&shelf("one"), 0), sub(&def("Note"), 0), sub(&shelf("three"), 0)];
    let parts = ask(&world.engine, subs).parts;
    assert_eq!(parts.len(), 2, "an empty one, and the beginning of the next");
    assert!(parts[0].next.is_none() && parts[1].next.is_some());
}

#[test]
fn a_cursor_is_good_for_its_answer_only() {
    let world = with_notes(300, 20);
    let first = page(&world, &shelf("one"), 0, None);
    let cursor = first.next.unwrap();
    let fault = |def: &escale::model::Def, v, cursor: &str| {
        let part = page(&world, def, v, Some(cursor.to_owned()));
        assert!(part.rows.is_empty() || part.fault.is_none());
        part.fault.map(|fault| fault.code)
    };
    assert_eq!(fault(&shelf("one"), 0, &cursor), None);
    let bad = Some("bad_cursor".to_owned());
    assert_eq!(fault(&shelf("two"), 0, &cursor), bad, "another def");
    assert_eq!(fault(&def("Note"), 0, &cursor), bad, "another def");
    assert_eq!(fault(&shelf("one"), 1, &cursor), bad, "another version");
    for text in ["x", "AAAA", &cursor[1..], &cursor[..cursor.len() - 1], &format!("{cursor}AAAA"), "\u{e9}"] {
        assert_eq!(fault(&shelf("one"), 0, text), bad, "{text}");
    }
    let seen: BTreeSet<Option<String>> = (0..cursor.len())
        .map(|at| {
            let mut forged = cursor.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            fault(&shelf("one"), 0, std::str::from_utf8(&forged).unwrap())
        })
        .collect();
    assert_eq!(seen, [bad.clone()].into());
    // The same def of another org.
    world.engine.write("p", |w| w.put("Note", note("p", "one"))).unwrap();
    let sub = Sub { def: shelf("one"), v: 0, cursor: Some(cursor.clone()) };
    let request = SyncRequest { subs: vec![sub], ..SyncRequest::of("s") };
    let part = world.engine.sync("p", &caller(), &request).unwrap().parts.remove(0);
    assert_eq!(part.fault.map(|fault| fault.code), bad);
    // Another epoch of the database.
    renew_epoch_of(&escale_server::engine::Engine::database_in(world.folder.path()), None, NOON).unwrap();
    assert_eq!(fault(&shelf("one"), 0, &cursor), bad);
}

#[test]
fn a_load_that_was_cut_goes_on_after_a_restart() {
    let world = with_notes(300, 20);
    let first = page(&world, &shelf("one"), 0, None);
    let World { folder, clock, engine } = world;
    drop(engine);
    clock.advance(DAY);
    let engine = std::sync::Arc::new(open(folder.path(), &clock, small(1 << 20)).unwrap());
    let world = World { folder, clock, engine };
    let rest = page(&world, &shelf("one"), 0, first.next);
    assert_eq!(first.rows.len() + rest.rows.len(), 20);
    assert_eq!(rest.fault, None);
}

#[test]
fn what_changes_between_pages_is_seen_in_the_end() {
    let world = with_notes(300, 12);
    let mut session = Session::new(&shelf("one"));
    assert!(!session.pull_page(&world.engine));
    let first_now = ask(&world.engine, Vec::new()).now;
    let seen = session.held(NOON);
    // Of the notes seen so far, one is deleted, one leaves, one changes. The load goes on an hour later.
    let names: Vec<&String> = seen.keys().collect();
    world.clock.advance(3_600_000);
    delete(&world.engine, names[0]).unwrap();
    put(&world.engine, note(names[1], "two")).unwrap();
    let mut changed = note(names[2], "one");
    changed.insert("size".into(), Value::from(1));
    let v = put(&world.engine, changed).unwrap().unwrap();
    session.pull(&world.engine);
    assert_eq!(session.v, first_now - 2_000, "the first page's time counts");
    let held = session.held(NOON);
    assert_eq!((held.len(), held.get(names[2])), (10, Some(&v)));
}
