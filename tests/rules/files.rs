//! R23: the form of a reference to a file.

use std::collections::BTreeMap;

use escale::model::schema::{FileRef, Schema, is_sha};
use escale::model::{Value, sha32};
use escale::{Code, Result};
use escale_testkit::seeds;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const SCHEMA: &str =
    r#"{"Note":{"key":["id"],"properties":{"photo":"file","scans":"file[]","text":"string"}}}"#;

/// A value near to a reference, and whether it is one.
fn near() -> impl Strategy<Value = (Value, bool)> {
    let sha = prop_oneof![
        4 => any::<String>().prop_map(|text| (Value::from(sha32(&text).as_str()), true)),
        1 => "[A-Za-z0-9_=-]{42,44}".prop_map(|text| { let good = is_sha(&text); (Value::from(text.as_str()), good) }),
        1 => Just((Value::Null, false)),
    ];
    let size = prop_oneof![
        4 => (0..=1_u64 << 35).prop_map(|size| (Value::from(size as i64), true)),
        1 => Just((Value::from((1_i64 << 35) + 1), false)),
        1 => Just((Value::from(-1_i64), false)),
        1 => Just((Value::from("1"), false)),
    ];
    let words = prop::collection::btree_map("type|name|digest", "[a-z]{0,9}", 0..3);
    let other = prop_oneof![
        6 => Just(None),
        1 => Just(Some(("type".to_owned(), Value::Null))),
        1 => Just(Some(("name".to_owned(), Value::from("n".repeat(1_025).as_str())))),
        1 => Just(Some(("enc".to_owned(), Value::from("x")))),
    ];
    (prop::option::weighted(0.9, sha), prop::option::weighted(0.9, size), words, other).prop_map(
        |(sha, size, words, other)| {
            let mut map: BTreeMap<String, Value> =
                words.into_iter().map(|(name, text)| (name, Value::from(text.as_str()))).collect();
            let is_good = sha.as_ref().is_some_and(|(_, good)| *good)
                && size.as_ref().is_some_and(|(_, good)| *good)
                && other.is_none();
            map.extend(sha.map(|(value, _)| ("sha".to_owned(), value)));
            map.extend(size.map(|(value, _)| ("size".to_owned(), value)));
            map.extend(other);
            (Value::Map(map), is_good)
        },
    )
}

fn files(property: &str, value: Value) -> Result<Vec<(String, u64)>> {
    let schema = Schema::from_json(SCHEMA)?;
    let class = schema.class("Note")?;
    let data = BTreeMap::from([("id".to_owned(), Value::from("1")), (property.to_owned(), value)]);
    class.columns(&data)?;
    Ok(class.files(&data)?.into_iter().map(|file| (file.sha.to_owned(), file.size)).collect())
}

#[test]
fn r23_a_reference_is_a_hash_a_size_and_words() {
    let mut runner = TestRunner::new(seeds::config(400));
    runner
        .run(&prop::collection::vec(near(), 0..4), |values| {
            let are_good = values.iter().all(|(_, is_good)| *is_good);
            for (value, is_good) in &values {
                prop_assert_eq!(FileRef::read(value).is_some(), *is_good, "{:?}", value);
                let one = files("photo", value.clone());
                prop_assert_eq!(
                    one.map_err(|error| error.code()).map(|found| found.len()),
                    if *is_good { Ok(1) } else { Err(Code::BadValue) }
                );
            }
            let n = values.len();
            let list = files("scans", Value::Array(values.into_iter().map(|(value, _)| value).collect()));
            prop_assert_eq!(
                list.map_err(|error| error.code()).map(|found| found.len()),
                if are_good { Ok(n) } else { Err(Code::BadValue) }
            );
            Ok(())
        })
        .expect("every value is taken or refused by its form");
}

#[test]
fn r23_a_hash_has_one_name() {
    let name = sha32("");
    let twins = (0..64_u8).map(|last| {
        let digit = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[usize::from(last)];
        format!("{}{}", &name[..42], char::from(digit))
    });
    assert_eq!(twins.filter(|twin| is_sha(twin)).count(), 16);
}

#[test]
fn properties_of_files_hold_nothing_else() {
    let file = Value::from([("sha", Value::from(sha32("x").as_str())), ("size", Value::from(1))]);
    for (property, value) in
        [("photo", Value::from("x")), ("scans", file.clone()), ("photo", Value::Array(vec![file.clone()]))]
    {
        assert_eq!(files(property, value).map_err(|error| error.code()), Err(Code::BadValue));
    }
    assert_eq!(files("photo", Value::Null), Ok(vec![]));
    assert_eq!(files("text", file.clone()), Ok(vec![]), "a declared type of another kind is not checked");
    let many = |n| files("scans", Value::Array(vec![file.clone(); n])).map(|found| found.len());
    assert_eq!(many(1_000), Ok(1_000));
    assert_eq!(many(1_001).map_err(|error| error.code()), Err(Code::TooLarge));
}
