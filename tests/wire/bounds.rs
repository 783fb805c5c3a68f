//! Depth and size: at the bound it works, beyond it there is an error with the right name.

use std::collections::BTreeMap;

use escale::Code;
use escale::codec::{Data, Format, SyncReply, SyncRequest, decode, encode};
use escale::limits::{DOCUMENT_BYTES_MAX, VALUE_DEPTH_MAX};
use escale::model::Value;

const MAX: usize = 4 << 20;

/// Nested arrays, to that depth.
fn arrays(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}

fn maps(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| Value::from([("k", inner)]))
}

fn code<T>(result: escale::Result<T>) -> Code {
    result.err().expect("an error").code()
}

#[test]
fn a_value_as_deep_as_the_bound_passes_and_a_deeper_one_is_too_deep() {
    for deep in [arrays, maps] {
        for format in [Format::Msgpack, Format::Json] {
            let bytes = encode(format, &deep(VALUE_DEPTH_MAX)).expect("written");
            decode::<Value>(format, &bytes, MAX).expect("at the bound");
            for over in [1, 2, 5, 8, 9, 60, 90, 2_000] {
                let depth = VALUE_DEPTH_MAX + over;
                let bytes = match format {
                    Format::Msgpack => [vec![0x91; depth], vec![0xc0]].concat(),
                    Format::Json => format!("{}0{}", "[".repeat(depth), "]".repeat(depth)).into_bytes(),
                };
                assert_eq!(
                    code(decode::<Value>(format, &bytes, MAX)),
                    Code::TooDeep,
                    "{format:?} at {depth}"
                );
            }
        }
    }
}

#[test]
fn a_document_as_deep_as_the_bound_passes_and_a_deeper_one_is_too_deep() {
    let data = |depth| {
        let bytes = [vec![0x81, 0xa1, b'k'], vec![0x91; depth], vec![0xc0]].concat();
        Data::from_bytes(&bytes).expect("small").to_map()
    };
    data(VALUE_DEPTH_MAX).expect("at the bound");
    for over in [1, 2, 3, 50, 10_000] {
        assert_eq!(code(data(VALUE_DEPTH_MAX + over)), Code::TooDeep, "{over} over");
    }
    // Skipped values are bounded too.
    let bytes = [vec![0x81, 0xa1, b'k'], vec![0x91; 100_000], vec![0xc0]].concat();
    assert!(Data::from_bytes(&bytes).expect("small").pick(&[]).is_err());
}

/// A document that one format can carry, the other can: they answer in kind.
#[test]
fn a_document_as_deep_as_the_bound_passes_in_both_forms() {
    for (depth, passes) in [(VALUE_DEPTH_MAX, true), (VALUE_DEPTH_MAX + 1, false)] {
        let map = BTreeMap::from([("k".to_owned(), arrays(depth))]);
        let data = Data::from_map(&map).expect("small");
        assert_eq!(data.to_map().is_ok(), passes);
        let text = format!("{{\"k\":{}null{}}}", "[".repeat(depth), "]".repeat(depth));
        let of_json = decode::<Data>(Format::Json, text.as_bytes(), MAX);
        assert_eq!(of_json.map_err(|error| error.code()), if passes { Ok(data) } else { Err(Code::TooDeep) });
    }
}

/// In JSON they look like one more map. That is no reason to refuse in one format a document that the other
/// can carry.
#[test]
fn bytes_and_empty_maps_at_the_deepest_place_are_as_deep_in_both_forms() {
    let nested = |leaf: Value| (0..VALUE_DEPTH_MAX).fold(leaf, |inner, _| Value::Array(vec![inner]));
    for (leaf, passes) in [(Value::Bytes(vec![1, 2, 250]), true), (Value::Map(BTreeMap::new()), false)] {
        let value = nested(leaf);
        for format in [Format::Msgpack, Format::Json] {
            let bytes = encode(format, &value).expect("written");
            let read = decode::<Value>(format, &bytes, MAX).map_err(|error| error.code());
            assert_eq!(read, if passes { Ok(value.clone()) } else { Err(Code::TooDeep) }, "{format:?}");
        }
    }
}

#[test]
fn a_message_deeper_than_any_value_is_too_deep_and_not_a_fallen_stack() {
    for depth in [100, 10_000, 1_000_000] {
        for open in [vec![0x91], vec![0x81, 0xa1, b'k'], vec![0x81, 0xa1, b'p']] {
            let bytes = open.repeat(depth);
            let code = code(decode::<SyncRequest>(Format::Msgpack, &bytes, MAX));
            assert!(matches!(code, Code::TooDeep | Code::Malformed), "{code:?}");
        }
        for open in ["[", "{\"k\":", "{\"args\":"] {
            let text = open.repeat(depth);
            let code = code(decode::<SyncRequest>(Format::Json, text.as_bytes(), 16 << 20));
            assert!(matches!(code, Code::TooDeep | Code::Malformed), "{code:?}");
        }
    }
}

#[test]
fn the_deepest_argument_of_an_operation_passes() {
    for format in [Format::Msgpack, Format::Json] {
        let op = escale::codec::Op {
            id: "i".into(),
            seq: 1,
            name: "n".into(),
            args: maps(VALUE_DEPTH_MAX),
            at: 1,
            after: None,
        };
        let request = SyncRequest { ops: vec![op], ..SyncRequest::of("s") };
        let bytes = encode(format, &request).expect("written");
        assert_eq!(decode::<SyncRequest>(format, &bytes, MAX).expect("read"), request);
    }
}

#[test]
fn a_message_or_document_over_its_size_is_too_large() {
    let bytes = encode(Format::Json, &Value::from("x".repeat(100).as_str())).expect("written");
    assert!(decode::<Value>(Format::Json, &bytes, bytes.len()).is_ok());
    assert_eq!(code(decode::<Value>(Format::Json, &bytes, bytes.len() - 1)), Code::TooLarge);
    assert!(Data::from_bytes(&vec![0; DOCUMENT_BYTES_MAX]).is_ok());
    assert_eq!(code(Data::from_bytes(&vec![0; DOCUMENT_BYTES_MAX + 1])), Code::TooLarge);
    let map = BTreeMap::from([("k".to_owned(), Value::Bytes(vec![0; DOCUMENT_BYTES_MAX]))]);
    assert_eq!(code(Data::from_map(&map)), Code::TooLarge);
}

#[test]
fn a_document_over_its_size_inside_a_reply_is_refused() {
    let data = serde_json::json!({ "k": "x".repeat(DOCUMENT_BYTES_MAX) });
    let row = serde_json::json!({ "pk": "a", "v": 1, "data": data });
    let reply = serde_json::json!({
        "p": 1, "epoch": [1, "r"], "now": 1, "delta": 1, "parts": [{ "def": "A", "rows": [row] }]
    });
    let text = reply.to_string();
    assert!(decode::<SyncReply>(Format::Json, text.as_bytes(), MAX).is_err());
}
