//! The ten rules of docs/rights.md, by the schema of that page.

use super::support::*;

const PAGE: &str = include_str!("../../../../docs/rights.md");

fn schema() -> &'static str {
    let (_, rest) = PAGE.split_once("```json\n").unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn r86_the_ten_rules_of_the_guide_hold() {
    let (engine, _) = engine_of(schema());
    members(&engine, "o");
    let client = |account: &str| Client::new(&engine, "o", account);
    let [mut root, mut lea, mut bob, mut ada, mut out] = ["root", "lea", "bob", "ada", "out"].map(client);
    let withdrawn = || Err("withdrawn".to_owned());

    // 1
    assert_eq!(
        (bob.put("Board", doc(&[("id", "1")])), root.put("Board", doc(&[("id", "1")]))),
        ("forbidden".into(), "ok".into())
    );
    assert_eq!(out.rows("Board"), Ok(vec![pk(&["1"])]));
    // 2
    let day = |owner: &str| doc(&[("owner", owner), ("day", "monday")]);
    assert_eq!(
        (bob.put("Diary", day("bob")), bob.put("Diary", day("ada"))),
        ("ok".into(), "forbidden".into())
    );
    assert_eq!(bob.rows(&collection("Diary", "owner", &["bob"])), Ok(vec![pk(&["bob", "monday"])]));
    assert_eq!(root.rows(&collection("Diary", "owner", &["bob"])), withdrawn());
    // 3, 4
    let note = |author: &str| doc(&[("group", "g"), ("id", "1"), ("author", author)]);
    assert_eq!(
        (ada.put("Note", note("ada")), out.put("Note", note("out"))),
        ("forbidden".into(), "forbidden".into())
    );
    assert_eq!(
        (bob.put("Note", note("lea")), bob.put("Note", note("bob"))),
        ("forbidden".into(), "ok".into())
    );
    let notes = collection("Note", "group", &["g"]);
    let of_bob = ["g", "bob", "1"];
    assert_eq!((ada.rows(&notes), out.rows(&notes)), (Ok(vec![pk(&of_bob)]), withdrawn()));
    // 5
    assert_eq!(lea.patch("Note", &of_bob, doc(&[("text", "x")])), "ok");
    assert_eq!(bob.patch("Note", &of_bob, doc(&[("only", "bob")])), "ok");
    assert_eq!(lea.patch("Note", &of_bob, doc(&[("text", "y")])), "forbidden");
    // 6
    let of_lea = ["g", "lea", "1"];
    assert_eq!(lea.put("Note", note("lea")), "ok");
    assert_eq!(
        (bob.patch("Note", &of_lea, doc(&[("author", "bob")])), bob.delete("Note", &of_lea)),
        ("key_mismatch".into(), "forbidden".into())
    );
    assert_eq!((ada.delete("Note", &of_bob), lea.delete("Note", &of_bob)), ("forbidden".into(), "ok".into()));
    assert_eq!((bob.put("Note", note("bob")), bob.delete("Note", &of_bob)), ("ok".into(), "ok".into()));
    // 7
    let mut letter = doc(&[("id", "1")]);
    letter.insert("to".into(), texts(&["ada", "bob"]));
    assert_eq!(out.put("Letter", letter.clone()), "ok");
    assert_eq!(ada.rows(&collection("Letter", "to", &["ada"])), Ok(vec![pk(&["1"])]));
    assert_eq!(out.rows(&collection("Letter", "to", &["ada"])), withdrawn());
    assert_eq!(ada.patch("Letter", &["1"], doc(&[("text", "x")])), "forbidden");
    // 8
    let member = |account: &str| doc(&[("group", "g"), ("account", account), ("role", "write")]);
    assert_eq!(
        (bob.put("Member", member("eva")), lea.put("Member", member("eva"))),
        ("forbidden".into(), "ok".into())
    );
    assert_eq!(
        (ada.delete("Member", &["g", "bob"]), bob.delete("Member", &["g", "bob"])),
        ("forbidden".into(), "ok".into())
    );
    assert_eq!(bob.rows(&notes), withdrawn());
    // 9
    assert_eq!(root.put("Team", doc(&[("group", "g")])), "ok");
    let task = || doc(&[("group", "g"), ("id", "1")]);
    assert_eq!((ada.put("Task", task()), lea.put("Task", task())), ("forbidden".into(), "ok".into()));
    assert_eq!(
        (ada.delete("Task", &["g", "1"]), out.delete("Task", &["g", "1"])),
        ("forbidden".into(), "forbidden".into())
    );
    let tasks = collection("Task", "in", &["g"]);
    assert_eq!((lea.rows(&tasks), bob.rows(&tasks)), (Ok(vec![pk(&["g", "1"])]), withdrawn()));
    // 10
    assert_eq!(out.put("Report", doc(&[("id", "1")])), "ok");
    assert_eq!((out.rows("Report"), root.rows("Report")), (withdrawn(), Ok(vec![pk(&["1"])])));
    assert_eq!(root.patch("Report", &["1"], doc(&[("text", "x")])), "forbidden");
}
