//! Functions of the application: they refuse more than the rules, and see each change of a built-in operation.
// A fault is as large as the information that the session needs.
#![allow(clippy::result_large_err)]

use escale::Code;
use escale::codec::Fault;
use escale::model::Value;
use escale_server::engine::{Hooks, Verdict};
use escale_server::rights::Right;

use super::support::*;

#[test]
fn r86_a_function_may_refuse_reads_that_the_rules_allow() {
    let (engine, _) = engine_of(RIGHTS);
    let hooks = Hooks::default().on_subscribe(|ask, def| {
        // It cannot allow more: `Draft` stays for administrators.
        let is_refused = def.class().as_str() == "Open" && ask.caller.account == "bob" && ask.org == "o";
        if is_refused { Verdict::Refused } else { Verdict::Allowed }
    });
    let engine = engine.hooked(hooks).unwrap();
    let rows = |org, account: &str, def: &str| Client::new(&engine, org, account).rows(def);
    assert_eq!(rows("o", "bob", "Open"), Err("withdrawn".into()));
    assert!(rows("p", "bob", "Open").is_ok() && rows("o", "ada", "Open").is_ok());
    assert_eq!(rows("o", "ada", "Draft"), Err("withdrawn".into()));
}

#[test]
fn r86_a_function_before_a_write_refuses_reads_and_writes() {
    let (engine, _) = engine_of(RIGHTS);
    let hooks = Hooks::default().on_write("Open", |tx, change| {
        if change.before.is_some_and(|before| before.contains_key("locked")) {
            return Err(Fault::new(Code::Forbidden, "it is locked"));
        }
        let count = tx.get("Board", &["count"])?.and_then(|map| map["n"].as_u64()).unwrap_or(0);
        let after = [("id".to_owned(), "count".into()), ("n".to_owned(), Value::from(count as i64 + 1))];
        // Rules bind built-in operations alone.
        tx.put("Board", after.into())?;
        Ok(None)
    });
    let engine = engine.hooked(hooks).unwrap();
    let mut bob = Client::new(&engine, "o", "bob");
    assert_eq!(bob.put("Open", doc(&[("id", "1")])), "ok");
    assert_eq!(bob.patch("Open", &["1"], doc(&[("locked", "yes")])), "ok");
    let fault =
        bob.fault("doc.delete", Value::from([("class", "Open".into()), ("key", texts(&["1"]))])).unwrap();
    assert_eq!((fault.code.as_str(), fault.message.as_str(), fault.phase), ("forbidden", "it is locked", 1));
    assert_eq!(bob.put("Open", doc(&[("id", "1")])), "forbidden");
    let board = bob.part(&single("Board", &["count"])).rows.remove(0).data.unwrap().to_map().unwrap();
    assert_eq!(board["n"], Value::from(2), "the writes of refused operations are undone");
}

#[test]
fn r86_a_function_before_a_write_is_of_a_known_class() {
    let hooked = |class: &str| {
        let (engine, _) = engine_of(RIGHTS);
        engine.hooked(Hooks::default().on_write(class, |_, _| Ok(None))).map(drop)
    };
    assert_eq!(hooked("Board"), Ok(()));
    assert_eq!(hooked("Nothing").unwrap_err().code(), Code::BadOption);
}

/// A registered operation is trusted: no rule binds it, and it may ask.
#[test]
fn r86_a_registered_operation_asks_for_rights() {
    let (engine, _) = engine_of(RIGHTS);
    members(&engine, "o");
    let engine = engine
        .operation("rights", |tx, _| {
            let mut held = Vec::new();
            for right in Right::ALL {
                for key in [["g", "1"], ["g", "never"]] {
                    held.push(Value::from(tx.allows(right, "Note", &key)?));
                }
            }
            held.push(tx.is_admin().into());
            // Nobody may do that by a built-in operation.
            tx.put("Letter", doc(&[("id", "1")]))?;
            tx.delete("Letter", &["1"])?;
            Ok(Some(Value::Array(held)))
        })
        .unwrap();
    let note = doc(&[("group", "g"), ("id", "1"), ("owner", "bob")]);
    engine.write("o", |w| w.put("Note", note.clone()).map(drop)).unwrap();
    let ask = |account: &str| {
        let held = Client::new(&engine, "o", account).run("rights", Value::Null).ok.unwrap().value.unwrap();
        held.as_array().unwrap().iter().map(|held| *held == Value::from(true)).collect::<Vec<_>>()
    };
    // Read, create (on the key alone, which names no owner), update, delete; each for a note and for none.
    assert_eq!(ask("bob"), [true, true, false, false, true, false, true, false, false]);
    assert_eq!(ask("ada"), [true, true, false, false, false, false, false, false, false]);
    assert_eq!(ask("out"), [false, false, false, false, false, false, false, false, false]);
    assert_eq!(ask("root"), [false, false, false, false, false, false, false, false, true]);
}
