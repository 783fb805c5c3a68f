//! R90 in a session: references to earlier rows of a reply; and how large the pages are that a session asks for.

use escale::Code;
use escale::codec::{Part, Row};
use escale::limits::{FIRST_PAGE_BYTES, PULL_EVERY_MS};

use crate::harness::{Harness, config, def, part, reply, row, section, these, whole};

fn reference(id: &str, v: u64) -> Row {
    Row { data: None, ..row(id, v) }
}

/// Both defs of two documents, and the request for them.
fn asked() -> (Harness, u64) {
    let mut harness = Harness::new(config());
    harness.subscribe(&def("Doc"));
    let (number, request) = harness.request();
    assert!(!request.refs, "one def has nothing to refer to");
    harness.subscribe(&section("games"));
    harness.answer(number, reply(10_000, vec![]));
    harness.wake(harness.now + PULL_EVERY_MS);
    let (number, request) = harness.request();
    assert!(request.refs && request.subs.len() == 2);
    (harness, number)
}

#[test]
fn r90_a_reply_with_references_does_what_the_whole_one_does() {
    for is_short in [true, false] {
        let (mut harness, number) = asked();
        let second = if is_short { reference } else { row };
        let parts = vec![
            whole(&def("Doc"), vec![row("a", 1), row("b", 2)]),
            whole(&section("games"), vec![second("a", 1)]),
        ];
        harness.answer(number, reply(20_000, parts));
        assert_eq!(harness.shown(&def("Doc")), these(&[("a", 1), ("b", 2)]));
        assert_eq!(harness.shown(&section("games")), these(&[("a", 1)]));
        assert_eq!(harness.error(), None);
    }
}

/// The session holds the document in this version. But the server does not know that, and a reference to it is a mistake.
#[test]
fn r90_a_reference_that_leads_nowhere_ends_them_and_changes_nothing() {
    let (mut harness, number) = asked();
    let all = || whole(&def("Doc"), vec![row("a", 1)]);
    harness.answer(number, reply(20_000, vec![all(), whole(&section("games"), vec![row("a", 1)])]));
    harness.wake(harness.now + PULL_EVERY_MS);
    let (number, request) = harness.request();
    assert!(request.refs);
    let wrong =
        vec![part(&def("Doc"), vec![row("c", 21_000)]), part(&section("games"), vec![reference("a", 1)])];
    harness.answer(number, reply(30_000, wrong));
    assert_eq!((harness.error(), harness.shown(&def("Doc"))), (Some(Code::Malformed), these(&[("a", 1)])));
    for _ in 0..2 {
        harness.wake(harness.now + PULL_EVERY_MS);
        let (number, request) = harness.request();
        assert!(!request.refs, "until the next opening");
        let parts: Vec<Part> = request.subs.iter().map(|sub| part(&sub.def, vec![])).collect();
        harness.answer(number, reply(40_000, parts));
    }
    assert_eq!(harness.error(), None);
}

#[test]
fn the_first_page_of_a_load_is_small_and_the_next_ones_grow() {
    let doc = def("Doc");
    let mut harness = Harness::new(config());
    harness.subscribe(&doc);
    let mut asked = Vec::new();
    for n in 0..4 {
        let (number, request) = harness.request();
        asked.push(request.page);
        let next = (n < 3).then(|| format!("page {n}"));
        let one = part(&doc, vec![row(&format!("d{n}"), n + 1)]);
        let last = Part { present: None, next, ..one };
        harness.answer(number, reply(10_000, vec![last]));
    }
    let first = FIRST_PAGE_BYTES as u64;
    assert_eq!(asked, [Some(first), Some(4 * first), None, None]);
    // Another load begins small again.
    harness.subscribe(&def("Note"));
    assert_eq!(harness.request().1.page, Some(first));
}
