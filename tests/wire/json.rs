//! JSON, compared with another reader and writer of it: serde_json.

use escale::Code;
use escale::codec::{Decode, Format, Node, NodeError, decode, encode};
use escale::model::{Number, Value};
use proptest::prelude::*;
use serde_json::Value as Json;

use escale_testkit::seeds::config;
use escale_testkit::strategies::value;

const MAX: usize = 1 << 20;

/// Bytes that mean something in JSON.
const LIKELY: &[u8] = b"[]{},:\"\\0123456789-+.eEtrufalsn \n";

/// Any JSON, as it was read.
struct Any(Json);

impl Decode for Any {
    fn decode(node: Node<'_>, _: Format) -> Result<Self, NodeError> {
        Ok(Any(json_of(node)))
    }
}

fn json_of(node: Node<'_>) -> Json {
    match node {
        Node::Null => Json::Null,
        Node::Bool(value) => value.into(),
        Node::Unsigned(n) => n.into(),
        Node::Signed(n) => n.into(),
        Node::Float(f) => Json::Number(serde_json::Number::from_f64(f).expect("a finite number")),
        Node::Text(text) => text.into(),
        Node::Array(items) => items.into_iter().map(json_of).collect(),
        Node::Map(entries) => Json::Object(entries.into_iter().map(entry_of).collect()),
        Node::Bytes(_) | Node::Extension => panic!("JSON has no such thing"),
    }
}

fn entry_of((key, value): (Node<'_>, Node<'_>)) -> (String, Json) {
    let Node::Text(key) = key else { panic!("a key of JSON is a string") };
    (key.into_owned(), json_of(value))
}

/// Both readers read the same from these bytes, or both refuse them.
fn assert_same(bytes: &[u8]) {
    let (ours, other) = (decode::<Any>(Format::Json, bytes, MAX), serde_json::from_slice::<Json>(bytes));
    let shown = String::from_utf8_lossy(bytes);
    match (ours, other) {
        (Ok(Any(ours)), Ok(other)) => {
            // Their texts tell 0.0 from -0.0.
            assert_eq!(ours.to_string(), other.to_string(), "{shown}");
        }
        (Err(error), Err(other)) => {
            let is_too_deep = other.to_string().starts_with("recursion limit");
            let expected = if is_too_deep { Code::TooDeep } else { Code::Malformed };
            assert_eq!(error.code(), expected, "{shown}");
        }
        (ours, other) => panic!("{} and {}: {shown}", ours.is_ok(), other.is_ok()),
    }
}

/// The value as serde_json has it.
fn other_of(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::Bool(*value),
        Value::Number(Number::Int(n)) => (*n).into(),
        Value::Number(Number::Float(f)) => (*f).into(),
        Value::String(text) => text.as_str().into(),
        Value::Bytes(_) => panic!("JSON has no bytes"),
        Value::Array(items) => items.iter().map(other_of).collect(),
        Value::Map(entries) => entries.iter().map(|(key, value)| (key.clone(), other_of(value))).collect(),
    }
}

/// A value in which JSON needs no form of its own.
fn plain(value: Value) -> Value {
    match value {
        Value::Bytes(bytes) => Value::from(bytes.len() as i64),
        // Doubles have a property of their own.
        Value::Number(Number::Float(f)) => Value::Number(Number::Float(f.signum() * 0.5)),
        Value::Array(items) => Value::Array(items.into_iter().map(plain).collect()),
        Value::Map(entries) => {
            let plain_key = |key: String| key.replace("$", "S");
            Value::Map(entries.into_iter().map(|(key, value)| (plain_key(key), plain(value))).collect())
        }
        other => other,
    }
}

/// Text that is nearly a number.
fn nearly_a_number() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?[0-9]{1,25}",
        r"-?[0-9]{1,20}\.[0-9]{1,25}",
        r"-?[0-9]{1,3}(\.[0-9]{1,17})?[eE][-+]?[0-9]{1,3}",
        r"[-+]?[0-9]?[0-9]?\.?[0-9]?[eE]?[-+]?[0-9]?",
    ]
}

/// Text that is nearly a string: escapes and halves of pairs.
fn nearly_a_string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        r"\\u[dD][89abAB][0-9a-f]{2}",
        r"\\u[dD][c-fC-F][0-9a-f]{2}",
        r"\\u[0-9a-gA-F]{4}",
        r#"\\["\\/bfnrtvux]"#,
        any::<String>(),
        "[\u{0}-\u{20}]",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn json_is_written_as_another_writer_writes_it(value in value()) {
        let value = plain(value);
        let text = encode(Format::Json, &value).expect("written");
        prop_assert_eq!(String::from_utf8(text), Ok(other_of(&value).to_string()));
    }

    #[test]
    fn each_double_is_written_with_as_few_digits_as_by_another_writer(
        f in any::<f64>(),
        exponent in -320..309,
        digit in 1..10_u8,
    ) {
        let short = format!("{digit}e{exponent}").parse().expect("a number");
        for f in [f, short, f.trunc(), f.abs() % 1e17] {
            let Some(number @ Number::Float(_)) = Number::new(f) else { continue };
            let text = encode(Format::Json, &Value::Number(number)).expect("written");
            assert_same(&text);
            let text = String::from_utf8(text).expect("text");
            let other = serde_json::to_string(&f).expect("a finite number");
            prop_assert_eq!(text.parse::<f64>(), Ok(f));
            // Two numbers of as many digits may be equally near. Either reads back.
            let differing = text.bytes().zip(other.bytes()).filter(|(ours, other)| ours != other).count();
            prop_assert!(text.len() == other.len() && differing <= 1, "{text} and {other}");
        }
    }

    #[test]
    fn json_is_read_as_another_reader_reads_it(value in value(), is_wide: bool) {
        let other = other_of(&plain(value));
        let text = if is_wide { serde_json::to_vec_pretty(&other) } else { serde_json::to_vec(&other) };
        assert_same(&text.expect("JSON"));
    }

    #[test]
    fn altered_json_is_read_or_refused_as_by_another_reader(
        value in value(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..4),
    ) {
        let mut bytes = other_of(&plain(value)).to_string().into_bytes();
        for (at, byte, how) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            let likely = LIKELY[usize::from(byte) % LIKELY.len()];
            match how {
                0 => bytes[at] = byte,
                1 => bytes[at] = likely,
                2 => bytes.insert(at, likely),
                _ => drop(bytes.remove(at)),
            }
        }
        assert_same(&bytes);
    }

    #[test]
    fn numbers_are_read_as_by_another_reader(text in nearly_a_number()) {
        assert_same(text.as_bytes());
    }

    #[test]
    fn strings_are_read_as_by_another_reader(text in nearly_a_string()) {
        assert_same(text.as_bytes());
    }

    #[test]
    fn any_bytes_are_read_or_refused_as_by_another_reader(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        assert_same(&bytes);
        assert_same(&[b"\"", &bytes[..], b"\""].concat());
    }
}

#[test]
fn json_nests_as_deep_as_for_another_reader() {
    for depth in 120..135 {
        assert_same(format!("{}{}", "[".repeat(depth), "]".repeat(depth)).as_bytes());
        assert_same(format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth)).as_bytes());
    }
}

#[test]
fn an_error_of_json_tells_its_place_and_not_the_text() {
    let error = decode::<Any>(Format::Json, b"{\n \"secret\": \"word\" 1}", MAX).err().expect("refused");
    assert_eq!(error.detail(), "at line 2 column 19");
}
