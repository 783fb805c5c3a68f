//! Every message, written and read back, in both formats.

use escale::Code;
use escale::codec::{
    Decode, Fault, Format, LiveRequest, ServerFrame, Sub, SyncReply, SyncRequest, decode, encode,
};
use escale::limits::{OPS_MAX, SUBS_MAX, TEXT_CHARS_MAX};
use proptest::prelude::*;

use escale_testkit::seeds::config;
use escale_testkit::strategies::{frame, live, reply, request};

pub const FORMATS: [Format; 2] = [Format::Msgpack, Format::Json];
const MAX: usize = 1 << 20;

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn requests_read_back(message in request()) {
        prop_assert!(message.check().is_ok());
        for format in FORMATS {
            let bytes = encode(format, &message).expect("written");
            prop_assert_eq!(&decode::<SyncRequest>(format, &bytes, MAX).expect("read"), &message);
        }
    }

    #[test]
    fn replies_read_back(message in reply()) {
        prop_assert!(message.check().is_ok());
        for format in FORMATS {
            let bytes = encode(format, &message).expect("written");
            prop_assert_eq!(&decode::<SyncReply>(format, &bytes, MAX).expect("read"), &message);
        }
    }

    #[test]
    fn live_requests_read_back(message in live()) {
        for format in FORMATS {
            let bytes = encode(format, &message).expect("written");
            prop_assert_eq!(&decode::<LiveRequest>(format, &bytes, MAX).expect("read"), &message);
        }
    }

    #[test]
    fn frames_read_back(message in frame()) {
        for format in FORMATS {
            let bytes = encode(format, &message).expect("written");
            prop_assert_eq!(&decode::<ServerFrame>(format, &bytes, MAX).expect("read"), &message);
        }
    }
}

fn json<T: Decode>(text: &str) -> escale::Result<T> {
    decode(Format::Json, text.as_bytes(), MAX)
}

fn code<T>(result: escale::Result<T>) -> Code {
    result.err().expect("an error").code()
}

#[test]
fn unknown_fields_are_ignored() {
    let text = r#"{"p":1,"epoch":[5,"r"],"now":9,"delta":1,"later":{"deep":[1,{"x":null}]},
        "parts":[{"def":"A","rows":[{"pk":"k","v":3,"data":{"a":1},"colour":"red"}],"extra":[]}]}"#;
    let reply: SyncReply = json(text).expect("read");
    assert_eq!(reply.parts[0].rows[0].v, 3);
    // The same in msgpack, as another program writes it.
    let value: serde_json::Value =
        serde_json::from_str(&text.replace(r#""data":{"a":1},"#, r#""deleted":true,"#)).expect("json");
    let bytes = rmp_serde::to_vec_named(&value).expect("msgpack");
    let reply: SyncReply = decode(Format::Msgpack, &bytes, MAX).expect("read");
    assert!(reply.parts[0].rows[0].deleted);
    let frame: ServerFrame = json(r#"{"weather":"fine"}"#).expect("read");
    assert_eq!(frame, ServerFrame::Alive, "a frame of a later version is a sign of life");
}

#[test]
fn the_order_of_fields_does_not_matter() {
    let one: SyncRequest = json(r#"{"p":1,"session":"s","subs":[["A",0],["A@k",7,"c"]]}"#).expect("read");
    let two: SyncRequest =
        json(r#"{"subs":[["A",0,null],["A@k",7,"c"]],"session":"s","p":1}"#).expect("read");
    assert_eq!(one, two);
    assert_eq!(one.subs[1].cursor.as_deref(), Some("c"));
}

#[test]
fn another_protocol_is_told_from_a_malformed_message() {
    assert_eq!(code(json::<SyncReply>(r#"{"p":2,"epoch":"five","parts":7}"#)), Code::WrongProtocol);
    assert_eq!(code(json::<SyncReply>(r#"{"p":1,"epoch":"five","parts":7}"#)), Code::Malformed);
    assert_eq!(code(json::<SyncRequest>(r#"{"p":2}"#)), Code::WrongProtocol);
    let later: SyncReply = json(r#"{"p":2,"epoch":[1,"r"],"now":1,"delta":1}"#).expect("it reads");
    assert_eq!(code(later.check()), Code::WrongProtocol);
    let later: SyncRequest = json(r#"{"p":3,"session":"s"}"#).expect("it reads");
    assert_eq!(code(later.check()), Code::WrongProtocol);
    let bytes = rmp_serde::to_vec_named(&serde_json::json!({"p": 2, "what": {"ever": []}})).expect("msgpack");
    assert_eq!(code(decode::<SyncReply>(Format::Msgpack, &bytes, MAX)), Code::WrongProtocol);
}

#[test]
fn a_page_of_html_is_named() {
    for text in ["<!DOCTYPE html><html>", "\n  <html><body>Sign in</body></html>", "<?xml version=\"1.0\"?>"]
    {
        for format in FORMATS {
            let error = decode::<SyncReply>(format, text.as_bytes(), MAX).expect_err("refused");
            assert_eq!(error.code(), Code::Malformed);
            assert!(error.detail().contains("HTML"), "{error}");
        }
    }
}

#[test]
fn what_is_no_message_is_malformed() {
    for text in [
        "",
        " ",
        "null",
        "[]",
        "{}",
        "7",
        "\"x\"",
        r#"{"p":1}"#,
        r#"{"p":1,"epoch":[1],"now":1,"delta":1}"#,
        r#"{"p":1,"epoch":[-1,"r"],"now":1,"delta":1}"#,
        r#"{"p":1,"epoch":[9007199254740992,"r"],"now":1,"delta":1}"#,
        r#"{"p":1,"epoch":[1,"r"],"now":1.5,"delta":1}"#,
        r#"{"p":1,"epoch":[1,"r"],"now":1,"delta":1,"parts":[{"def":"1A"}]}"#,
        r#"{"p":1,"epoch":[1,"r"],"now":1,"delta":1,"parts":[{"def":"A","rows":[{"pk":"a/b","v":1}]}]}"#,
        r#"{"p":1,"epoch":[1,"r"],"now":1,"delta":1,"parts":[{"def":"A","rows":[{"pk":"","v":1}]}]}"#,
        r#"{"p":1,"epoch":[1,"r"],"now":1,"delta":1,"parts":[{"def":"A","left":[["k"]]}]}"#,
        r#"{"p":1,"epoch":[1,"r"],"now":1,"delta":1}}"#,
    ] {
        assert_eq!(code(json::<SyncReply>(text)), Code::Malformed, "{text}");
    }
    assert_eq!(code(json::<Sub>("[]")), Code::Malformed);
    assert_eq!(code(json::<Sub>(r#"["A"]"#)), Code::Malformed);
    assert_eq!(code(json::<Sub>(r#"["A",0,"c",1]"#)), Code::Malformed);
    let frame = r#"{"parts":[],"now":1}"#;
    assert_eq!(code(json::<ServerFrame>(frame)), Code::Malformed, "parts without an epoch");
}

#[test]
fn a_message_that_cannot_be_read_or_used_names_the_place() {
    let row = |row: &str| {
        let text = format!(
            r#"{{"p":1,"epoch":[1,"r"],"now":1,"delta":1,"parts":[{{"def":"A"}},{{"def":"A","rows":[{row}]}}]}}"#
        );
        let read =
            json::<SyncReply>(&text).and_then(|mut reply| reply.resolve().and_then(|()| reply.check()));
        read.expect_err("refused").detail().to_owned()
    };
    let good = r#"{"pk":"k","v":1,"deleted":true}"#;
    for (bad, place) in [
        (r#"{"pk":"k","v":1.5,"deleted":true}"#, "parts[1].rows[1].v: "),
        (r#"{"pk":"k","v":"1","deleted":true}"#, "parts[1].rows[1].v: "),
        (r#"{"pk":"a/b","v":1,"deleted":true}"#, "parts[1].rows[1].pk: "),
        (r#"{"v":1,"deleted":true}"#, "parts[1].rows[1]: "),
        (r#"{"pk":"k","v":1}"#, "parts[1].rows[1].data: "),
        (r#"{"pk":"k","v":9007199254740992,"deleted":true}"#, "parts[1].rows[1].v: "),
        (r#"{"pk":"k","v":1,"deleted":true,"maxLife":9007199254740991}"#, "parts[1].rows[1].maxLife: "),
    ] {
        let detail = row(&format!("{good},{bad}"));
        assert!(detail.starts_with(place), "{bad}: {detail}");
    }
    // A name chosen by the application is not repeated in the error.
    let detail = row(r#"{"pk":"k","v":1,"data":{"secret":{"$bytes":7}}}"#);
    assert!(detail.starts_with("parts[1].rows[0].data: ") && !detail.contains("secret"), "{detail}");
    // The same in msgpack, in which a number is often written as a float.
    let value: serde_json::Value = serde_json::json!({"p": 1, "epoch": [1, "r"], "now": 1.5, "delta": 1});
    let bytes = rmp_serde::to_vec_named(&value).expect("msgpack");
    let error = decode::<SyncReply>(Format::Msgpack, &bytes, MAX).expect_err("refused");
    assert!(error.detail().starts_with("now: "), "{error}");
}

#[test]
fn a_server_refuses_what_is_over_its_bounds() {
    let sub = Sub { def: "A".parse().expect("a def"), v: 0, cursor: None };
    let request = |subs, session: &str| SyncRequest { subs, ..SyncRequest::of(session) };
    assert!(request(vec![sub.clone(); SUBS_MAX], "s").check().is_ok());
    assert_eq!(code(request(vec![sub.clone(); SUBS_MAX + 1], "s").check()), Code::TooLarge);
    assert_eq!(code(request(vec![], "").check()), Code::Malformed);
    assert_eq!(code(request(vec![], &"s".repeat(TEXT_CHARS_MAX + 1)).check()), Code::Malformed);
    let long = Sub { cursor: Some("c".repeat(TEXT_CHARS_MAX + 1)), ..sub.clone() };
    assert_eq!(code(request(vec![long], "s").check()), Code::Malformed);
    let far = Sub { v: 1 << 53, ..sub };
    assert_eq!(code(request(vec![far], "s").check()), Code::Malformed);
    let op: escale::codec::Op = json(r#"{"id":"i","seq":1,"name":"n","args":{},"at":1}"#).expect("an op");
    let many = SyncRequest { ops: vec![op; OPS_MAX + 1], ..request(vec![], "s") };
    assert_eq!(code(many.check()), Code::TooLarge);
}

#[test]
fn a_fault_keeps_its_code_and_kind() {
    for &wanted in Code::ALL {
        let fault = Fault::new(wanted, "why");
        for format in FORMATS {
            let bytes = encode(format, &fault).expect("written");
            let read: Fault = decode(format, &bytes, MAX).expect("read");
            assert_eq!((Code::parse(&read.code), read.kind), (Some(wanted), wanted.kind()));
        }
    }
    let short: Fault = json(r#"{"code":"brand_new","kind":"C"}"#).expect("phase and message may be absent");
    assert_eq!(short.phase, 0);
}
