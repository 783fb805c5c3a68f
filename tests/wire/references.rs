//! R90: rows of a reply that refer to earlier ones.

use escale::Code;
use escale::codec::{Format, SyncReply, decode};
use proptest::prelude::*;

use escale_testkit::seeds;
use escale_testkit::strategies::reply;

fn of(parts: &str) -> SyncReply {
    let text = format!(r#"{{"p":1,"epoch":[1,"r"],"now":9,"delta":1,"parts":[{parts}]}}"#);
    decode(Format::Json, text.as_bytes(), 1 << 20).expect("a reply")
}

const FIRST: &str = r#"{"def":"A","rows":[{"pk":"k","v":3,"data":{"n":1}},{"pk":"l","v":4,"deleted":true}]}"#;

#[test]
fn a_reference_has_the_data_of_the_earlier_row_and_fields_of_its_own() {
    let mut reply = of(&format!(
        r#"{FIRST},{{"def":"A/b@AAAAAAAAAAAAAAAAAAAAAA","rows":[{{"pk":"k","v":3,"maxLife":7}}]}}"#
    ));
    reply.resolve().expect("resolved");
    reply.check().expect("a reply");
    let [first, second] = &reply.parts[..] else { panic!() };
    assert_eq!(second.rows[0].data, first.rows[0].data);
    assert_eq!((first.rows[0].max_life, second.rows[0].max_life), (None, Some(7)));
}

#[test]
fn a_reference_that_leads_nowhere_is_malformed() {
    let referring = |row: &str| format!(r#"{{"def":"A/b@AAAAAAAAAAAAAAAAAAAAAA","rows":[{row}]}}"#);
    for (parts, why) in [
        (format!("{},{FIRST}", referring(r#"{"pk":"k","v":3}"#)), "a later part"),
        (format!(r#"{FIRST},{{"def":"B","rows":[{{"pk":"k","v":3}}]}}"#), "another class"),
        (format!("{FIRST},{}", referring(r#"{"pk":"k","v":2}"#)), "another version"),
        (format!("{FIRST},{}", referring(r#"{"pk":"l","v":4}"#)), "a deletion"),
        (format!("{FIRST},{}", referring(r#"{"pk":"m","v":3}"#)), "nothing"),
        (r#"{"def":"A","rows":[{"pk":"k","v":3},{"pk":"k","v":3,"data":{}}]}"#.to_owned(), "its own part"),
    ] {
        let error = of(&parts).resolve().expect_err(why);
        assert_eq!(error.code(), Code::Malformed, "{why}");
        assert!(error.detail().starts_with("parts["), "{why}: {error}");
    }
}

proptest! {
    #![proptest_config(seeds::config(256))]

    /// A server may replace any repeated data by a reference.
    #[test]
    fn a_reply_with_references_equals_the_reply_without(reply in reply(), again in any::<prop::sample::Index>()) {
        let mut whole = reply;
        prop_assume!(!whole.parts.is_empty() && whole.check().is_ok());
        // One part comes a second time, as the part of another def of its class.
        let mut copy = whole.parts[again.index(whole.parts.len())].clone();
        let mut referring = copy.clone();
        for row in referring.rows.iter_mut().filter(|row| !row.deleted) {
            row.data = None;
        }
        copy.def = escale::model::Def::class_of(copy.def.class());
        referring.def = copy.def.clone();
        let mut told = whole.clone();
        whole.parts.push(copy);
        told.parts.push(referring);
        // Rows of one reply have one data for one version.
        prop_assume!(whole.clone().resolve().is_ok());
        told.resolve().expect("resolved");
        prop_assert_eq!(told, whole);
    }
}
