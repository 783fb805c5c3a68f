//! R86 by example: reads by def, writes by change, and the answers that carry documents.

use escale::codec::SyncRequest;
use escale::model::Value;
use escale_server::engine::Follower;
use escale_server::provider::Place;

use super::support::*;
use crate::support::world::*;

const WITHDRAWN: &str = "withdrawn";

/// Who of these may read a def.
fn readers(engine: &escale_server::engine::Engine, def: &str) -> Vec<&'static str> {
    let may = |account: &&'static str| match Client::new(engine, "o", account).rows(def) {
        Ok(_) => true,
        Err(code) => {
            assert_eq!(code, WITHDRAWN);
            false
        }
    };
    ["root", "lea", "bob", "ada", "out", ""].into_iter().filter(may).collect()
}

#[test]
fn r86_a_read_is_decided_by_its_def() {
    let (engine, _) = engine_of(RIGHTS);
    members(&engine, "o");
    let mut bob = Client::new(&engine, "o", "bob");
    assert_eq!(bob.put("Note", doc(&[("group", "g"), ("id", "1"), ("owner", "bob")])), "ok");
    assert_eq!(bob.put("Diary", doc(&[("owner", "bob"), ("id", "1")])), "ok");
    let group = &["lea", "bob", "ada"][..];
    let all = &["root", "lea", "bob", "ada", "out", ""][..];
    for (def, expected) in [
        ("Note".to_owned(), &[][..]),
        (single("Note", &["g", "1"]), group),
        // Nothing tells to whom it would belong.
        (single("Note", &["g", "never"]), &[]),
        (collection("Note", "group", &["g"]), group),
        (collection("Note", "group", &["h"]), &["ada", "out"]),
        (collection("Note", "group", &["nowhere"]), &[]),
        (collection("Note", "owner", &["bob"]), &[]),
        (collection("Note", "pair", &["g", "bob"]), &[]),
        ("Member".to_owned(), &["root"]),
        (collection("Member", "account", &["bob"]), &["root", "bob"]),
        (collection("Member", "group", &["g"]), &["root", "lea", "bob", "ada"]),
        (collection("Diary", "owner", &["bob"]), &["bob"]),
        (single("Diary", &["bob", "1"]), &["bob"]),
        ("Board".to_owned(), all),
        ("Draft".to_owned(), &["root"]),
        ("Open".to_owned(), all),
    ] {
        assert_eq!(readers(&engine, &def), expected, "{def}");
    }
    // Another org has its own members.
    assert_eq!(
        Client::new(&engine, "p", "bob").rows(&collection("Note", "group", &["g"])),
        Err(WITHDRAWN.into())
    );
}

/// The items of a parent share its key. A key of one property is decided by the hash, a longer one by the stored parent.
#[test]
fn r86_the_defs_of_items_are_decided_by_the_key_of_their_parent() {
    let (engine, _) = engine_of(RIGHTS);
    members(&engine, "o");
    let (mut root, mut out) = (Client::new(&engine, "o", "root"), Client::new(&engine, "o", "out"));
    assert_eq!(root.put("Team", doc(&[("group", "g")])), "ok");
    assert_eq!(out.put("Task", doc(&[("group", "g"), ("id", "1")])), "ok", "create is open");
    assert_eq!(out.put("Area", doc(&[("group", "g"), ("id", "a")])), "ok");
    assert_eq!(out.put("Plot", doc(&[("group", "g"), ("area", "a"), ("id", "1")])), "ok");
    let group = ["lea", "bob", "ada"];
    for def in [
        collection("Task", "in", &["g"]),
        single("Task", &["g", "1"]),
        collection("Plot", "in", &["g", "a"]),
        single("Plot", &["g", "a", "1"]),
    ] {
        assert_eq!(readers(&engine, &def), group, "{def}");
    }
    // Without a parent there is nothing to read. A deleted one still decides.
    let plots = collection("Plot", "in", &["g", "b"]);
    assert_eq!(readers(&engine, &plots).len(), 6);
    assert_eq!(readers(&engine, &collection("Task", "in", &["h"])), ["ada", "out"]);
    assert_eq!(out.delete("Area", &["g", "a"]), "ok");
    assert_eq!(readers(&engine, &collection("Plot", "in", &["g", "a"])), group);
    // The item ended with its parent: those who might read it hear that.
    assert_eq!(readers(&engine, &single("Plot", &["g", "a", "1"])), group);
}

/// The owner sees the case and its steps, and writes them: one property decides over the tree.
#[test]
fn r97_a_parent_decides_over_its_items() {
    let (engine, _) = engine_of(RIGHTS);
    let [mut ada, mut bob] = ["ada", "bob"].map(|account| Client::new(&engine, "o", account));
    let case = |owner: &str| doc(&[("id", "1"), ("owner", owner)]);
    let step = |id: &str| doc(&[("case", "1"), ("id", id)]);
    assert_eq!(bob.put("Step", step("a")), "forbidden", "nobody learns that there is no case");
    assert_eq!(ada.put("Case", case("ada")), "ok");
    assert_eq!((ada.put("Step", step("a")), bob.put("Step", step("b"))), ("ok".into(), "forbidden".into()));
    let defs = [single("Case", &["1"]), collection("Step", "in", &["1"]), single("Step", &["1", "a"])];
    for def in &defs {
        assert_eq!(readers(&engine, def), ["ada"], "{def}");
    }
    assert_eq!(ada.put("Case", case("bob")), "forbidden", "an update is decided by both states");
    engine.write("o", |w| w.put("Case", case("bob")).map(drop)).unwrap();
    for def in &defs {
        assert_eq!(readers(&engine, def), ["bob"], "{def}");
    }
    assert_eq!((ada.put("Step", step("b")), bob.put("Step", step("b"))), ("forbidden".into(), "ok".into()));
    assert_eq!(ada.delete("Step", &["1", "a"]), "forbidden");
    assert_eq!(ada.patch("Step", &["1", "never"], Map::new()), "forbidden");
    assert_eq!(bob.patch("Step", &["1", "never"], Map::new()), "not_found");
    // Those who see the case see its steps, and do not write them.
    let mut seen = case("bob");
    seen.insert("seen".into(), texts(&["lea"]));
    assert_eq!(bob.put("Case", seen), "ok");
    assert_eq!(Client::new(&engine, "o", "lea").put("Step", step("c")), "forbidden");
    for def in &defs {
        assert_eq!(readers(&engine, def), ["lea", "bob"], "{def}");
    }
    // Its end ends the steps, and only those hear of it who may know of the case.
    assert_eq!(bob.delete("Case", &["1"]), "ok");
    for def in &defs {
        assert_eq!(readers(&engine, def), ["bob"], "{def}");
    }
    assert_eq!(
        (bob.put("Step", step("d")), ada.put("Step", step("d"))),
        ("not_found".into(), "forbidden".into())
    );
}

/// A case and its first step, written together.
#[test]
fn r97_a_parent_that_a_batch_creates_decides_over_the_items_of_that_batch() {
    let (engine, _) = engine_of(RIGHTS);
    let put = |class: &str, map: Map| {
        let args = Value::from([("class", class.into()), ("data", Value::Map(map))]);
        Value::from([("name", "doc.put".into()), ("args", args)])
    };
    for (owner, expected) in [("bob", "forbidden"), ("ada", "ok")] {
        let case = put("Case", doc(&[("id", owner), ("owner", owner)]));
        let ops = vec![case, put("Step", doc(&[("case", owner), ("id", "a")]))];
        let code = Client::new(&engine, "o", "ada").code("batch", Value::from([("ops", Value::Array(ops))]));
        assert_eq!(code, expected, "{owner}");
    }
}

#[test]
fn r86_one_part_is_withdrawn_and_the_others_of_the_tree_are_whole() {
    let (engine, _) = engine_of(RIGHTS);
    members(&engine, "o");
    let (mut root, bob) = (Client::new(&engine, "o", "root"), Client::new(&engine, "o", "bob"));
    assert_eq!(root.put("Team", doc(&[("group", "h")])), "ok");
    assert_eq!(root.put("Area", doc(&[("group", "h"), ("id", "a")])), "ok");
    assert_eq!(root.put("Plot", doc(&[("group", "h"), ("area", "a"), ("id", "1")])), "ok");
    let defs = [single("Area", &["h", "a"]), collection("Plot", "in", &["h", "a"]), "Open".to_owned()];
    let subs = defs.iter().map(|text| sub(&def(text), 0)).collect();
    let request = SyncRequest { subs, ..SyncRequest::of("s") };
    let reply = engine.sync("o", &bob.caller, &request).unwrap();
    let codes: Vec<_> =
        reply.parts.iter().map(|part| part.fault.as_ref().map(|fault| fault.code.as_str())).collect();
    assert_eq!(codes, [None, Some(WITHDRAWN), None]);
    assert!(bob.part(&defs[1]).rows.is_empty());
}

#[test]
fn r86_a_membership_that_ends_ends_the_right_at_the_next_page() {
    let (engine, clock) = engine_of(RIGHTS);
    members(&engine, "o");
    let (mut lea, ada) = (Client::new(&engine, "o", "lea"), Client::new(&engine, "o", "ada"));
    let notes = collection("Note", "group", &["g"]);
    assert_eq!(ada.rows(&notes), Ok(Vec::new()));
    // A right ends with the life of the membership, too.
    let mut dated = doc(&[("group", "g"), ("account", "bob"), ("role", "write")]);
    dated.insert("maxLife".into(), Value::from((NOON / 60_000 + 1) as i64));
    assert_eq!(lea.put("Member", dated), "ok");
    let mut bob = Client::new(&engine, "o", "bob");
    let note = || doc(&[("group", "g"), ("id", "1"), ("owner", "bob")]);
    assert_eq!((bob.rows(&notes).is_ok(), bob.put("Note", note())), (true, "ok".into()));
    clock.advance(60_001);
    assert_eq!(bob.rows(&notes), Err(WITHDRAWN.into()));
    assert_eq!(bob.put("Note", note()), "forbidden");
    assert_eq!(lea.delete("Member", &["g", "ada"]), "ok");
    assert_eq!(ada.rows(&notes), Err(WITHDRAWN.into()));
    assert_eq!(lea.rows(&notes).map(|rows| rows.len()), Ok(1));
}

#[test]
fn r86_a_change_is_decided_on_the_document_before_and_after_it() {
    let (engine, _) = engine_of(RIGHTS);
    members(&engine, "o");
    let mut bob = Client::new(&engine, "o", "bob");
    let mut lea = Client::new(&engine, "o", "lea");
    let note = |owner: &str| doc(&[("group", "g"), ("id", "1"), ("owner", owner)]);
    assert_eq!(bob.put("Note", note("lea")), "forbidden", "created for another");
    assert_eq!(bob.put("Note", note("bob")), "ok");
    assert_eq!(Client::new(&engine, "o", "ada").patch("Note", &["g", "1"], Map::new()), "forbidden");
    // Before, nobody had it alone; after, somebody else would.
    assert_eq!(lea.patch("Note", &["g", "1"], doc(&[("only", "bob")])), "forbidden");
    assert_eq!(bob.patch("Note", &["g", "1"], doc(&[("only", "bob")])), "ok");
    // After, it would be hers; before, it is not.
    assert_eq!(lea.put("Note", note("bob")), "forbidden");
    assert_eq!(lea.patch("Note", &["g", "1"], doc(&[("only", "lea")])), "forbidden");
    assert_eq!(lea.delete("Note", &["g", "1"]), "ok");
    assert_eq!(
        (lea.delete("Note", &["g", "1"]), bob.patch("Note", &["g", "1"], Map::new())),
        ("not_found".into(), "not_found".into())
    );
    // A batch is all or none, and an equal put is decided as well.
    assert_eq!(bob.put("Note", note("bob")), "ok");
    let one = |data: Map| {
        Value::from([
            ("name", "doc.put".into()),
            ("args", Value::from([("class", "Note".into()), ("data", Value::Map(data))])),
        ])
    };
    let second = doc(&[("group", "g"), ("id", "2"), ("owner", "bob")]);
    let ops = Value::Array(vec![
        one(second),
        one(note("lea")),
        one(doc(&[("group", "h"), ("id", "1"), ("owner", "bob")])),
    ]);
    assert_eq!(bob.code("batch", Value::from([("ops", ops)])), "forbidden");
    assert_eq!(bob.rows(&collection("Note", "group", &["g"])).map(|rows| rows.len()), Ok(1));
    assert_eq!(Client::new(&engine, "o", "ada").put("Note", note("bob")), "forbidden");
    // A token that only reads changes nothing under any rule.
    assert_eq!(Client::new(&engine, "o", "mute").put("Open", doc(&[("id", "1")])), "forbidden");
}

#[test]
fn r86_nobody_without_an_account_owns_anything() {
    let (engine, _) = engine_of(RIGHTS);
    let mut nobody = Client::new(&engine, "o", "");
    assert_eq!(nobody.put("Diary", doc(&[("owner", ""), ("id", "1")])), "forbidden");
    engine
        .write("o", |w| w.put("Member", doc(&[("group", "g"), ("account", ""), ("role", "admin")])).map(drop))
        .unwrap();
    assert_eq!(nobody.rows(&collection("Note", "group", &["g"])), Err(WITHDRAWN.into()));
    assert_eq!(nobody.rows(&collection("Diary", "owner", &[""])), Err(WITHDRAWN.into()));
}

#[test]
fn r86_a_conflict_shows_the_document_only_to_those_who_may_read_it() {
    let (engine, _) = engine_of(RIGHTS);
    engine.write("o", |w| w.put("Draft", doc(&[("id", "1"), ("text", "plan")])).map(drop)).unwrap();
    let args = || {
        let data = Value::Map(doc(&[("id", "1")]));
        Value::from([("class", Value::from("Draft")), ("data", data), ("ifVersion", Value::from(1))])
    };
    let fault = Client::new(&engine, "o", "root").fault("doc.put", args()).unwrap();
    assert!(fault.code == "version_conflict" && fault.doc.is_some());
    let mut bob = Client::new(&engine, "o", "bob");
    let fault = bob.fault("doc.put", args()).unwrap();
    assert!(fault.code == "version_conflict" && fault.doc.is_none(), "{fault:?}");
    // Nor that there was one.
    let mut root = Client::new(&engine, "o", "root");
    assert_eq!(root.delete("Draft", &["1"]), "ok");
    assert!(root.fault("doc.put", args()).unwrap().doc.unwrap().deleted);
    assert_eq!(bob.fault("doc.put", args()).unwrap().doc, None);
}

#[test]
fn r86_rights_come_before_the_version() {
    let (engine, _) = engine_of(RIGHTS);
    members(&engine, "o");
    let data = Value::Map(doc(&[("group", "g"), ("id", "1"), ("owner", "ada")]));
    let args = Value::from([("class", Value::from("Note")), ("data", data), ("ifVersion", Value::from(1))]);
    assert_eq!(Client::new(&engine, "o", "ada").code("doc.put", args), "forbidden");
}

#[test]
fn r86_a_write_gives_no_account_more_memberships_than_a_request_reads() {
    let (engine, clock) = engine_of(RIGHTS);
    let member = |n: usize| doc(&[("group", &n.to_string()), ("account", "ada"), ("role", "read")]);
    for first in (0..1_000).step_by(100) {
        clock.advance(1);
        engine
            .write("o", |w| (first..first + 100).try_for_each(|n| w.put("Member", member(n)).map(drop)))
            .unwrap();
    }
    let mut root = Client::new(&engine, "o", "root");
    assert_eq!(root.put("Member", member(1_000)), "too_large");
    assert_eq!(
        root.put("Member", doc(&[("group", "1"), ("account", "ada"), ("role", "write")])),
        "ok",
        "not one more"
    );
    let ada = Client::new(&engine, "o", "ada");
    assert!(ada.rows(&collection("Note", "group", &["0"])).is_ok());
    assert!(ada.rows(&collection("Note", "group", &["999"])).is_ok());
    assert_eq!(root.delete("Member", &["0", "ada"]), "ok");
    assert_eq!(root.put("Member", member(1_000)), "ok");
}

/// A push is the same for all followers, so a class that is decided for each of them is only hinted.
#[test]
fn r86_a_def_that_rules_decide_is_never_pushed() {
    let (engine, _) = engine_of(RIGHTS);
    members(&engine, "o");
    let note = doc(&[("group", "g"), ("id", "1"), ("owner", "bob")]);
    let v = engine.write("o", |w| {
        w.put("Note", note.clone())?;
        w.put("Open", doc(&[("id", "1")])).map(drop)
    });
    let v = v.unwrap().v.unwrap();
    let followers = [Follower { session: "s".into(), account: "bob".into() }];
    let pushed = |text: &str| engine.push("o", &def(text), v, &followers).unwrap().is_some();
    assert!(pushed("Open"));
    assert!(!pushed(&collection("Note", "group", &["g"])));
}

#[test]
fn r86_an_unreadable_document_is_told_as_such() {
    let (engine, _) = engine_of(RIGHTS);
    let at = Place { org: "o", class: "Draft", pk: &pk(&["1"]) };
    engine.write("o", |w| w.put("Draft", doc(&[("id", "1")])).map(drop)).unwrap();
    let mut tx = engine.provider().maintain(std::time::Duration::from_secs(1)).unwrap();
    let mut document = tx.snapshot().document(at).unwrap().unwrap();
    document.data = vec![0xff];
    tx.put_document(at, &document).unwrap();
    tx.commit().unwrap();
    assert_eq!(Client::new(&engine, "o", "root").rows(&single("Draft", &["1"])), Err("server_error".into()));
}

/// A clock that was ahead, or many writes, leave versions ahead of the clock. No right ends by that.
#[test]
fn r86_a_membership_ends_by_the_clock_and_not_by_versions_ahead_of_it() {
    let (engine, clock) = engine_of(RIGHTS);
    members(&engine, "o");
    let mut member = doc(&[("group", "g"), ("account", "bob"), ("role", "write")]);
    member.insert("maxLife".into(), Value::from((NOON / 60_000 + 30) as i64));
    engine.write("o", |w| w.put("Member", member.clone()).map(drop)).unwrap();
    clock.set(NOON + 7_200_000);
    engine.write("o", |w| w.put("Open", doc(&[("id", "1")])).map(drop)).unwrap();
    clock.set(NOON);
    let mut bob = Client::new(&engine, "o", "bob");
    let notes = collection("Note", "group", &["g"]);
    let note_of = |id: &str| doc(&[("group", "g"), ("id", id), ("owner", "bob")]);
    assert_eq!(bob.put("Note", note_of("1")), "ok");
    assert_eq!(bob.rows(&notes).map(|rows| rows.len()), Ok(1));
    clock.advance(31 * 60_000);
    assert_eq!(bob.rows(&notes), Err(WITHDRAWN.into()));
    assert_eq!(bob.put("Note", note_of("2")), "forbidden");
}
