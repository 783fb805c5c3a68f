//! Bad input is refused by name before anything is written.

use escale::Code;
use escale::journal::{Policy, Retention};
use escale::limits::PULL_EVERY_MS;
use escale::model::Value;
use escale::sync::Mode;

use super::driver::{Driver, id, server};

fn map(pairs: &[(&str, Value)]) -> Value {
    Value::Map(pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect())
}

#[test]
fn operations_that_cannot_be_are_refused_by_name() {
    let mut server = server(2);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let doc = ("class", Value::from("Doc"));
    let empty = || map(&[]);
    let large = Value::String("x".repeat(2 << 20));
    let cases: Vec<(&str, Value, Code)> = vec![
        ("doc.put", map(&[("class", "Nothing".into()), ("data", empty())]), Code::UnknownClass),
        ("doc.put", map(&[doc.clone(), ("data", empty())]), Code::BadKey),
        ("doc.put", map(std::slice::from_ref(&doc)), Code::BadValue),
        (
            "doc.put",
            map(&[doc.clone(), ("data", map(&[("id", "a".into()), ("x", large.clone())]))]),
            Code::TooLarge,
        ),
        (
            "doc.put",
            map(&[doc.clone(), ("data", map(&[("id", "a".into()), ("_x", Value::from(1_i64))]))]),
            Code::BadValue,
        ),
        ("doc.patch", map(&[doc.clone(), ("set", empty())]), Code::BadValue),
        ("doc.patch", map(&[doc.clone(), ("key", Value::Array(vec![])), ("set", empty())]), Code::BadKey),
        (
            "doc.patch",
            map(&[doc.clone(), ("key", id(0)), ("set", map(&[("id", "b".into())]))]),
            Code::KeyMismatch,
        ),
        (
            "doc.patch",
            map(&[doc.clone(), ("key", id(0)), ("set", map(&[("x", large.clone())]))]),
            Code::TooLarge,
        ),
        ("doc.delete", map(&[doc.clone(), ("key", id(0)), ("ifVersion", "x".into())]), Code::BadValue),
        ("batch", map(&[("ops", Value::from(1_i64))]), Code::BadValue),
        ("batch", map(&[("ops", Value::Array(vec![Value::Null; 501]))]), Code::TooLarge),
        ("run", map(&[("x", Value::Array(vec![large.clone(), large]))]), Code::TooLarge),
        ("", Value::Null, Code::BadOption),
    ];
    for (name, args, code) in cases {
        let error = driver.machine.check_write(name, &args).expect_err(name);
        assert_eq!(error.code(), code, "{name}: {error}");
    }
    driver.write("doc.delete", map(&[doc.clone(), ("key", id(0))]));
    let patch = map(&[doc.clone(), ("key", id(0)), ("set", map(&[("x", Value::from(1_i64))]))]);
    assert_eq!(
        driver.machine.check_write("doc.patch", &patch).expect_err("a tombstone").code(),
        Code::NotFound
    );
    let put = map(&[doc, ("data", map(&[("id", "id0".into())]))]);
    assert!(driver.machine.check_write("doc.put", &put).is_ok(), "a put restores it");
}

/// A server that takes such a `maxLife` would send it to every session, and each of them refuses the reply.
#[test]
fn a_patch_with_a_life_that_is_no_minute_is_refused_at_the_call() {
    let mut server = server(7);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let patch = |name: &str, value: Value| {
        let (class, key) = (("class", Value::from("Doc")), ("key", id(0)));
        driver.machine.check_write("doc.patch", &map(&[class, key, ("set", map(&[(name, value)]))]))
    };
    let milliseconds = Value::from(1_795_192_343_535_i64);
    assert_eq!(patch("maxLife", milliseconds).expect_err("milliseconds").code(), Code::BadValue);
    assert!(patch("maxLife", Value::from(29_919_872_i64)).is_ok(), "minutes");
    assert!(patch("maxLife", Value::Null).is_ok(), "no end");
}

#[test]
fn a_patch_of_what_the_server_told_deleted_is_refused_at_the_call() {
    let mut server = server(3);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    let on = |number| ("key", id(number));
    let doc = ("class", Value::from("Doc"));
    let patch = |number| map(&[doc.clone(), on(number), ("set", map(&[("x", Value::from(1_i64))]))]);
    let delete = |number| map(&[doc.clone(), on(number)]);
    let code = |driver: &Driver, name: &str, args: &Value| {
        driver.machine.check_write(name, args).map_err(|e| e.code())
    };
    // Deleted by this session, and accepted.
    driver.write("doc.delete", delete(0));
    driver.settle(&mut server);
    assert_eq!(driver.machine.status().pending, 0);
    assert_eq!(code(&driver, "doc.patch", &patch(0)), Err(Code::NotFound));
    assert_eq!(code(&driver, "doc.delete", &delete(0)), Err(Code::NotFound));
    let batch = map(&[("ops", Value::Array(vec![map(&[("name", "doc.patch".into()), ("args", patch(0))])]))]);
    assert_eq!(code(&driver, "batch", &batch), Err(Code::NotFound));
    // Deleted by another session.
    let mut other = Driver::new(1, Mode::Synced, Policy::Overwrite);
    other.subscribe(&mut server);
    other.write("doc.delete", delete(1));
    other.settle(&mut server);
    driver.wait(PULL_EVERY_MS);
    driver.settle(&mut server);
    assert_eq!(code(&driver, "doc.patch", &patch(1)), Err(Code::NotFound));
    // A document of which nothing was received: the server decides.
    assert_eq!(code(&driver, "doc.patch", &patch(7)), Ok(()));
    // A put restores the document, here and elsewhere.
    driver.write("doc.put", map(&[doc.clone(), ("data", map(&[("id", "id0".into())]))]));
    assert_eq!(code(&driver, "doc.patch", &patch(0)), Ok(()));
    driver.settle(&mut server);
    assert_eq!(code(&driver, "doc.patch", &patch(0)), Ok(()));
    other.write("doc.put", map(&[doc.clone(), ("data", map(&[("id", "id1".into())]))]));
    other.settle(&mut server);
    driver.wait(PULL_EVERY_MS);
    driver.settle(&mut server);
    assert_eq!(code(&driver, "doc.patch", &patch(1)), Ok(()));
}

/// The session wrote the document earlier. Its knowledge of that time no longer counts.
#[test]
fn a_patch_of_what_was_written_here_and_deleted_there_is_refused_at_the_call() {
    let mut server = server(1);
    let mut driver = Driver::new(0, Mode::Synced, Policy::Overwrite);
    driver.subscribe(&mut server);
    driver.patch(0, &[("n", 1)]);
    driver.settle(&mut server);
    let mut other = Driver::new(1, Mode::Synced, Policy::Overwrite);
    other.subscribe(&mut server);
    other.write("doc.delete", map(&[("class", Value::from("Doc")), ("key", id(0))]));
    other.settle(&mut server);
    driver.wait(PULL_EVERY_MS);
    driver.settle(&mut server);
    let set = ("set", map(&[("x", Value::from(1_i64))]));
    let patch = map(&[("class", Value::from("Doc")), ("key", id(0)), set]);
    assert_eq!(driver.machine.check_write("doc.patch", &patch).map_err(|e| e.code()), Err(Code::NotFound));
}

#[test]
fn sweeps_that_cannot_be_are_refused_by_name() {
    let mut driver = Driver::new(0, Mode::Avion, Policy::Overwrite);
    for retention in [
        Retention::Count(0),
        Retention::Count(101),
        Retention::Before("soon".into()),
        Retention::Days { max: 0, before: "2026-01-01".into() },
    ] {
        let error = driver.sweep(retention.clone(), true).expect_err("no rule");
        assert_eq!(error.code(), Code::BadOption, "{retention:?}");
    }
}
