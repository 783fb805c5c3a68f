//! Values and documents' data: exact, escaped and refused values.

use escale::Code;
use escale::codec::{Data, Format, decode, encode};
use escale::model::{Name, Number, Value};
use proptest::prelude::*;

use crate::messages::FORMATS;
use escale_testkit::seeds::config;
use escale_testkit::strategies::{map, value};

const MAX: usize = 1 << 20;

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn values_read_back_in_both_formats(value in value()) {
        for format in FORMATS {
            let bytes = encode(format, &value).expect("written");
            prop_assert_eq!(&decode::<Value>(format, &bytes, MAX).expect("read"), &value);
        }
    }

    #[test]
    fn data_is_the_same_bytes_whatever_the_format(map in map()) {
        let data = Data::from_map(&map).expect("a small map");
        prop_assert_eq!(&data.to_map().expect("read"), &map);
        for format in FORMATS {
            let bytes = encode(format, &data).expect("written");
            prop_assert_eq!(&decode::<Data>(format, &bytes, MAX).expect("read"), &data);
        }
    }

    #[test]
    fn numbers_read_back_in_both_formats(number in -200i64..300) {
        for format in FORMATS {
            let bytes = encode(format, &Value::from(number)).expect("written");
            prop_assert_eq!(decode::<Value>(format, &bytes, MAX).expect("read"), Value::from(number));
        }
    }

    #[test]
    fn picking_properties_gives_what_reading_all_gives(map in map()) {
        let data = Data::from_map(&map).expect("a small map");
        let names: Vec<Name> = map.keys().filter_map(|key| Name::new(key).ok()).collect();
        let names: Vec<&Name> = names.iter().step_by(2).collect();
        let mut wanted = map;
        wanted.retain(|key, _| names.iter().any(|name| name.as_str() == key));
        prop_assert_eq!(data.pick(&names).expect("read"), wanted);
    }
}

fn text(value: &Value) -> String {
    String::from_utf8(encode(Format::Json, value).expect("written")).expect("JSON")
}

#[test]
fn bytes_in_json_are_named_and_their_name_is_escaped() {
    assert_eq!(text(&Value::Bytes(vec![1, 2, 250])), r#"{"$bytes":"AQL6"}"#);
    assert_eq!(text(&Value::Bytes(vec![])), r#"{"$bytes":""}"#);
    assert_eq!(text(&Value::from([("$bytes", Value::from("AQL6"))])), r#"{"$$bytes":"AQL6"}"#);
    assert_eq!(text(&Value::from([("$$bytes", Value::Null)])), r#"{"$$$bytes":null}"#);
    assert_eq!(text(&Value::from([("$other", Value::Null)])), r#"{"$other":null}"#);
    let read = |text: &str| decode::<Value>(Format::Json, text.as_bytes(), MAX);
    assert_eq!(read(r#"{"$$bytes":"AQL6"}"#).expect("read"), Value::from([("$bytes", Value::from("AQL6"))]));
    for bad in [
        r#"{"$bytes":"AQL6","x":1}"#,
        r#"{"x":1,"$bytes":"AQL6"}"#,
        r#"{"$bytes":7}"#,
        r#"{"$bytes":"a b"}"#,
        r#"{"$bytes":"AQL6=="}"#,
        r#"{"$bytes":"+/+/"}"#,
        r#"{"$bytes":["A"]}"#,
    ] {
        assert_eq!(read(bad).expect_err(bad).code(), Code::Malformed, "{bad}");
    }
}

#[test]
fn numbers_are_those_of_javascript() {
    let read = |text: &str| decode::<Value>(Format::Json, text.as_bytes(), MAX);
    let int = |i| Value::Number(Number::Int(i));
    assert_eq!(read("9007199254740991").expect("read"), int((1 << 53) - 1));
    assert_eq!(read("-9007199254740991").expect("read"), int(1 - (1 << 53)));
    assert_eq!(
        read("9007199254740993").expect("read"),
        Value::Number(Number::Float(9_007_199_254_740_992.0))
    );
    assert_eq!(read("3.0").expect("read"), int(3), "however it was written");
    assert_eq!(read("1e3").expect("read"), int(1000));
    assert_eq!(text(&read("-0.0").expect("read")), "-0.0");
    assert_eq!(text(&read("0.1").expect("read")), "0.1");
    assert!(read("1e999").is_err(), "no number of JavaScript");
    // NaN and infinity in msgpack.
    for bits in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let bytes = [&[0xcb][..], &bits.to_be_bytes()].concat();
        assert_eq!(
            decode::<Value>(Format::Msgpack, &bytes, MAX).expect_err("refused").code(),
            Code::Malformed
        );
    }
    // Single precision, as another program may write it.
    let bytes = [&[0xca][..], &1.5f32.to_be_bytes()].concat();
    assert_eq!(
        decode::<Value>(Format::Msgpack, &bytes, MAX).expect("read"),
        Value::Number(Number::Float(1.5))
    );
}

#[test]
fn what_is_no_data_is_a_bad_value() {
    for (bytes, what) in [
        (&[][..], "nothing"),
        (&[0xc0], "null"),
        (&[0x90], "an array"),
        (&[0x81, 0x01, 0x02], "a key that is no string"),
        (&[0x82, 0xa1, b'a', 1, 0xa1, b'a', 2], "the same key twice"),
        (&[0x81, 0xa1, b'a'], "cut short"),
        (&[0x80, 0x00], "something after it"),
        (&[0x81, 0xa1, b'a', 0xd4, 1, 2], "an extension"),
        (&[0x81, 0xa1, b'a', 0xd6, 0xff, 0, 0, 0, 0], "a timestamp"),
        (&[0x81, 0xa1, b'a', 0xc1], "a byte that msgpack never uses"),
        (&[0x81, 0xa9, b'_', b'_', b'p', b'r', b'o', b't', b'o', b'_', b'_', 1], "__proto__"),
        (&[0x81, 0xa1, b'a', 0x81, 0xa9, b'_', b'_', b'p', b'r', b'o', b't', b'o', b'_', b'_', 1], "deeper"),
    ] {
        let error = Data::from_bytes(bytes).expect("short").to_map().err();
        assert_eq!(error.map(|error| error.code()), Some(Code::BadValue), "{what}");
    }
}

/// rmp-serde returns such a string as bytes, and nothing distinguishes it from bytes.
#[test]
fn a_string_that_is_not_utf8_is_bytes() {
    let data = Data::from_bytes(&[0x81, 0xa1, b'a', 0xa1, 0xff]).expect("short");
    assert_eq!(data.to_map().expect("a map")["a"], Value::Bytes(vec![0xff]));
}
