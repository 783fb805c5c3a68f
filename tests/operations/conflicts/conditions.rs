//! Expected versions and their owners: policies may resolve the session's own conditions, but not the
//! application's.

use escale::Code;
use escale::journal::Policy;
use escale::model::Value;
use escale::sync::{Effect, Event, Mode};

use crate::driver::{Driver, id, put, server, stored};
use escale_testkit::schema::data;

fn is_conflict(effect: &Effect) -> bool {
    matches!(
        effect,
        Effect::Accepted { result: Err(_), .. } | Effect::Amended { .. } | Effect::Refused { .. }
    )
}

/// The document, with a property that somebody has written.
fn with(property: &str, n: i64) -> std::collections::BTreeMap<String, Value> {
    let mut data = data(0, None, 0, 0);
    data.insert(property.to_owned(), Value::from(n));
    data
}

/// An optimistic part that only reads a document gives it no version. A later edit of the document expects
/// another operation's version.
#[test]
fn r12_an_edit_after_a_mere_reading_is_no_conflict() {
    for policy in [Policy::Server, Policy::Client, Policy::Merge] {
        let mut server = server(2);
        let mut driver = Driver::new(0, Mode::Synced, policy);
        driver.subscribe(&mut server);
        driver.feed(Event::Network(false));
        let args = Value::from([
            ("class", "Doc".into()),
            ("key", id(0)),
            ("property", "n".into()),
            ("by", Value::from(1_i64)),
            ("reads", id(1)),
        ]);
        driver.write("add", args);
        driver.patch(1, &[("a", 5)]);
        driver.feed(Event::Network(true));
        driver.settle(&mut server);
        assert_eq!(stored(&server, 1, "a"), Some(5), "{policy:?}: nobody else wrote");
        assert!(!driver.hooks.told.iter().any(is_conflict), "{policy:?}: {:?}", driver.hooks.told);
    }
}

/// `ifVersion: 0` means: only if there is no document. No policy overwrites an existing document.
#[test]
fn r12_what_the_application_expects_no_policy_settles() {
    for policy in [Policy::Server, Policy::Client, Policy::Merge, Policy::Custom] {
        let mut server = server(1);
        put(&mut server, 0, with("theirs", 9));
        let mut driver = Driver::new(0, Mode::Synced, policy);
        driver.subscribe(&mut server);
        let none = Value::from([("id", "id0".into())]);
        let args = Value::from([("class", "Doc".into()), ("data", none), ("ifVersion", Value::from(0_i64))]);
        let refused = driver.write("doc.put", args);
        driver.settle(&mut server);
        assert_eq!(stored(&server, 0, "theirs"), Some(9), "{policy:?}");
        let state = &driver.machine.refused_op(&refused).expect("the application decides").state;
        let fault = state.refused.as_ref().expect("refused");
        assert_eq!(fault.code, Code::VersionConflict.as_str(), "{policy:?}");
        // Issued again unchanged, and after a reload, the condition is still the application's.
        let mut driver = driver.reopen(Mode::Synced, policy);
        driver.feed(Event::Amend { id: refused, new: "again".into(), args: None });
        driver.settle(&mut server);
        assert_eq!(stored(&server, 0, "theirs"), Some(9), "{policy:?}: issued again");
        assert!(driver.machine.refused_op("again").is_ok(), "{policy:?}");
    }
}

/// An operation that is amended for another reason is still based on the document that it was made on.
#[test]
fn r12_a_merge_after_an_amendment_goes_from_the_first_base() {
    let mut server = server(1);
    let mut first = with("a", 1);
    first.insert("b".to_owned(), Value::from(1_i64));
    put(&mut server, 0, first.clone());
    let mut driver = Driver::new(0, Mode::Synced, Policy::Merge);
    driver.subscribe(&mut server);
    let mut mine = first.clone();
    mine.extend([("a".to_owned(), Value::from(2_i64)), ("poison".to_owned(), Value::from(1_i64))]);
    let refused = driver.write("doc.put", Value::from([("class", "Doc".into()), ("data", Value::Map(mine))]));
    driver.settle(&mut server);
    let mut args = driver.machine.refused_op(&refused).expect("poisoned").state.issued.args.clone();
    first.insert("b".to_owned(), Value::from(9_i64));
    put(&mut server, 0, first);
    driver.wait(400_000);
    driver.settle(&mut server);
    let data = args.as_map_mut().and_then(|args| args.get_mut("data")).and_then(Value::as_map_mut);
    data.expect("a map").remove("poison");
    driver.feed(Event::Amend { id: refused, new: "amended".into(), args: Some(args) });
    driver.settle(&mut server);
    assert_eq!((stored(&server, 0, "a"), stored(&server, 0, "b")), (Some(2), Some(9)), "both edits");
}
