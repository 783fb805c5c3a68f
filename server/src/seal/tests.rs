//! Seals: where they open, and where they do not.

use std::collections::BTreeMap;

use escale::model::Name;
use proptest::prelude::*;
use smol_str::SmolStr;

use super::*;
use crate::provider::{ChangeState, Entry, EntryValue, Shown};

const AT: Place = Place { org: "o", class: "C", pk: "p" };

#[test]
fn what_was_sealed_opens_where_it_stood_and_nowhere_else() {
    let seal = Seal::with_key(&[7; 32]);
    let stored = seal.close(AT, 5, b"data").unwrap();
    assert!(!stored.windows(4).any(|w| w == b"data"));
    assert_eq!(seal.open(AT, 5, &stored).unwrap(), b"data");
    for (at, v) in [(AT, 4), (Place { pk: "q", ..AT }, 5), (Place { org: "oC", class: "", ..AT }, 5)] {
        assert_eq!(seal.open(at, v, &stored).unwrap_err().code(), Code::StorageFailed);
    }
    for i in 0..stored.len() {
        let mut altered = stored.clone();
        altered[i] ^= 0x80;
        assert!(seal.open(AT, 5, &altered).is_err(), "byte {i}");
        assert!(seal.open(AT, 5, &stored[..i]).is_err(), "cut at {i}");
    }
    assert!(Seal::clear().open(AT, 5, &stored).is_err());
}

#[test]
fn a_server_with_a_key_opens_nothing_in_clear() {
    let stored = Seal::clear().close(AT, 5, b"data").unwrap();
    assert_eq!(Seal::clear().open(AT, 5, &stored).unwrap(), b"data");
    let seal = Seal::with_key(&[7; 32]);
    assert_eq!(seal.open(AT, 5, &stored).unwrap_err().code(), Code::StorageFailed);
    assert_eq!(seal.open_or_clear(AT, 5, &stored).unwrap(), b"data");
    assert!(seal.open(AT, 5, &[]).is_err() && seal.open_or_clear(AT, 5, &[4, 0]).is_err());
}

#[test]
fn each_org_has_a_key_of_its_own_for_each_month() {
    let seal = Seal::with_key(&[7; 32]);
    let stored = seal.close_in(600, SEALED_IN_MONTH, (AT, 5), [b"data", b""]).unwrap();
    assert_eq!(seal.open(AT, 5, &stored).unwrap(), b"data");
    // Another month, under the same place: the key is another one.
    let mut other = stored.clone();
    other[4] ^= 1;
    assert!(seal.open(AT, 5, &other).is_err());
    let keys = [("o", 600), ("o", 601), ("p", 600)].map(|(org, month)| {
        let sealed = derived(&[7; 32], org, month).encrypt(&Nonce::from([0; 12]), &[0_u8; 32][..]);
        sealed.unwrap()
    });
    assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
}

/// The cipher that was used last stands for its org and month alone.
#[test]
fn orgs_and_months_in_turn_have_their_own_keys() {
    let seal = Seal::with_key(&[7; 32]);
    let places = [("o", 600), ("p", 600), ("o", 601)];
    let stored = places.map(|(org, month)| {
        seal.close_in(month, SEALED_IN_MONTH, (Place { org, ..AT }, 5), [b"data", b""]).unwrap()
    });
    for turn in 0..9 {
        let (org, month) = places[turn % 3];
        let at = Place { org, ..AT };
        assert_eq!(seal.open(at, 5, &stored[turn % 3]).unwrap(), b"data");
        assert_eq!(Seal::with_key(&[7; 32]).open(at, 5, &stored[turn % 3]).unwrap(), b"data");
        let again = seal.close_in(month, SEALED_IN_MONTH, (at, 5), [b"data", b""]).unwrap();
        assert_eq!(Seal::with_key(&[7; 32]).open(at, 5, &again).unwrap(), b"data");
        assert!(seal.open(Place { org: "q", ..AT }, 5, &again).is_err());
    }
}

#[test]
fn data_that_an_earlier_version_sealed_opens() {
    let payload = Payload { msg: b"data", aad: &bound(SEALED, AT, 5) };
    let sealed = cipher_of(&[7; 32]).encrypt(&Nonce::from([9; 12]), payload).unwrap();
    let stored = [&[SEALED][..], &[9; 12], &sealed].concat();
    assert!(!Seal::is_clear(&stored));
    assert_eq!(Seal::with_key(&[7; 32]).open(AT, 5, &stored).unwrap(), b"data");
}

fn document() -> impl Strategy<Value = Document> {
    let hashes = || proptest::collection::vec("[ab]{0,2}".prop_map(SmolStr::from), 0..3);
    let links = proptest::collection::btree_map("[cd]{1,2}".prop_map(SmolStr::from), hashes(), 0..3);
    let value = prop_oneof![
        (-2_i64..2).prop_map(EntryValue::Int),
        (-2_i64..2).prop_map(|n| EntryValue::Float(n as f64 / 2.0)),
        "[xy]{0,2}".prop_map(EntryValue::Text),
    ];
    let entry = ("[ij]", value).prop_map(|(index, value)| Entry { index: index.into(), value });
    let entries = proptest::collection::vec(entry, 0..3);
    let number = || proptest::option::of(prop_oneof![Just(0), Just(1), Just(u64::MAX)]);
    (any::<bool>(), number(), number(), links, entries).prop_map(
        |(deleted, max_life, ttl, links, entries)| Document {
            v: 5,
            deleted,
            max_life,
            ttl,
            shown: Shown { links, entries },
            data: Vec::new(),
        },
    )
}

fn change_of(document: &Document) -> Change {
    let state = if document.deleted { ChangeState::Deleted } else { ChangeState::Alive };
    let (v, max_life, data) = (document.v, document.max_life, document.data.clone());
    Change { pk: AT.pk.into(), v, state, max_life, data }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// A document opens with the columns that it was stored with, and with no others.
    #[test]
    fn a_document_opens_with_its_own_row_alone(own in document(), other in document()) {
        let seal = Seal::with_key(&[7; 32]);
        let stored = seal.close_document(AT, own.clone(), b"data").unwrap();
        prop_assert_eq!(seal.open_document(AT, &stored).unwrap(), b"data");
        prop_assert_eq!(seal.open_state(AT, 5, &stored.data).unwrap(), b"data");
        let altered = Document { data: stored.data.clone(), ..other.clone() };
        let opened = seal.open_document(AT, &altered);
        prop_assert_eq!(opened.is_ok(), own == other, "{:?} with {:?}", own, other);
        // The database stores the columns as JSON.
        let shown = serde_json::from_str(&serde_json::to_string(&own.shown).unwrap()).unwrap();
        let read_back = seal.open_document(AT, &Document { shown, ..stored });
        prop_assert!(read_back.is_ok());
    }

    /// It is found in its own defs, and in no others.
    #[test]
    fn a_document_opens_in_its_own_defs_alone(own in document(), other in document()) {
        let seal = Seal::with_key(&[7; 32]);
        let stored = seal.close_document(AT, own.clone(), b"data").unwrap();
        let links = |of: &Document| -> BTreeMap<SmolStr, Vec<SmolStr>> { of.shown.links.clone() };
        for (collection, hashes) in links(&own).iter().chain(&links(&other)) {
            for hash in hashes {
                let name = |text: &str| Name::new(text).unwrap();
                let def = Def::collection_hashed(&name("C"), &name(collection), hash);
                let is_own = own.shown.links.get(collection).is_some_and(|own| own.contains(hash));
                prop_assert_eq!(seal.open_change(("o", &def), &change_of(&stored)).is_ok(), is_own);
            }
        }
        let all: Def = "C".parse().unwrap();
        let altered = Change { data: stored.data.clone(), ..change_of(&other) };
        let is_own = (own.deleted, own.max_life) == (other.deleted, other.max_life);
        prop_assert_eq!(seal.open_change(("o", &all), &altered).is_ok(), is_own);
    }
}

#[test]
fn a_document_and_other_data_do_not_stand_for_each_other() {
    let seal = Seal::with_key(&[7; 32]);
    let empty = Document {
        v: 5,
        deleted: false,
        max_life: None,
        ttl: None,
        shown: Shown::default(),
        data: Vec::new(),
    };
    let stored = seal.close_document(AT, empty.clone(), b"data").unwrap();
    let without = seal.close(AT, 5, b"data").unwrap();
    let code = |opened: Result<Vec<u8>>| opened.unwrap_err().code();
    assert_eq!(code(seal.open(AT, 5, &stored.data)), Code::StorageFailed);
    assert_eq!(
        code(seal.open_document(AT, &Document { data: without.clone(), ..empty.clone() })),
        Code::StorageFailed
    );
    // Nor with the first byte of the other form.
    let renamed = |stored: &[u8], form: u8| [&[form], &stored[1..]].concat();
    assert_eq!(code(seal.open(AT, 5, &renamed(&stored.data, SEALED_IN_MONTH))), Code::StorageFailed);
    let forged = Document { data: renamed(&without, SEALED_WITH_ROW), ..empty.clone() };
    assert_eq!(code(seal.open_document(AT, &forged)), Code::StorageFailed);
    // Without a key, there is no row.
    let clear = Seal::clear().close_document(AT, empty, b"data").unwrap();
    assert_eq!(clear.data, b"\0data");
    assert_eq!(code(seal.open_document(AT, &clear)), Code::StorageFailed);
    let deleted = Document { deleted: true, ..clear };
    assert_eq!(Seal::clear().open_document(AT, &deleted).unwrap(), b"data");
}
