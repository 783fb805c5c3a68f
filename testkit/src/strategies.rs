//! Strategies for any value and any message: the input of the properties.

use std::collections::BTreeMap;

use escale::codec::{
    Data, Fault, FilesRequest, LiveRequest, Op, OpOk, OpResult, Part, Row, ServerFrame, ServerParts, Sub,
    SyncReply, SyncRequest,
};
use escale::limits::VERSION_MAX;
use escale::model::{Def, Epoch, Name, Number, Pk, Value, sha32};
use escale::{Code, Kind};
use proptest::prelude::*;

fn number() -> impl Strategy<Value = Number> {
    prop_oneof![
        any::<i64>().prop_map(Number::from_i64),
        any::<u64>().prop_map(Number::from_u64),
        (-200i64..200).prop_map(Number::from_i64),
        any::<f64>().prop_filter_map("a finite number", Number::new),
        prop::sample::select(vec![
            0.0,
            -0.0,
            0.1,
            1e300,
            -1e-300,
            9_007_199_254_740_993.0,
            f64::MIN_POSITIVE
        ])
        .prop_filter_map("a finite number", Number::new),
    ]
}

/// Keys, including those that JSON must escape.
fn map_key() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,6}",
        Just("$bytes".to_owned()),
        Just("$$bytes".to_owned()),
        Just("$$$bytes".to_owned()),
        Just("$byte".to_owned()),
        Just("bytes".to_owned()),
        any::<String>().prop_filter("the one name that is refused", |key| key != "__proto__"),
    ]
}

pub fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number().prop_map(Value::Number),
        any::<String>().prop_map(Value::String),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bytes),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::btree_map(map_key(), inner, 0..5).prop_map(Value::Map),
        ]
    })
}

pub fn map() -> impl Strategy<Value = BTreeMap<String, Value>> {
    prop::collection::btree_map(map_key(), value(), 0..5)
}

fn data() -> impl Strategy<Value = Data> {
    map().prop_map(|map| Data::from_map(&map).expect("a small map"))
}

fn name() -> impl Strategy<Value = Name> {
    "[A-Za-z][A-Za-z0-9]{0,10}".prop_map(|text| Name::new(&text).expect("a name"))
}

fn pk() -> impl Strategy<Value = Pk> {
    "[A-Za-z0-9_.:-]{1,30}".prop_map(|text| Pk::parse(&text).expect("a pk"))
}

fn def() -> impl Strategy<Value = Def> {
    prop_oneof![
        name().prop_map(|class| Def::class_of(&class)),
        (name(), pk()).prop_map(|(class, pk)| Def::document(&class, &pk)),
        (name(), name(), "[A-Za-z0-9_-]{22}").prop_map(|(class, collection, hash)| Def::collection_hashed(
            &class,
            &collection,
            &hash
        )),
    ]
}

fn v() -> impl Strategy<Value = u64> {
    prop_oneof![0..=VERSION_MAX, 0..300u64, Just(VERSION_MAX)]
}

fn epoch() -> impl Strategy<Value = Epoch> {
    (v(), any::<String>()).prop_map(|(ms, random)| Epoch::new(ms, &random).expect("an epoch"))
}

fn row() -> impl Strategy<Value = Row> {
    let life = prop::option::of(0..VERSION_MAX / 60_000);
    (pk(), v(), any::<bool>(), life, prop::option::of(data())).prop_map(|(pk, v, deleted, max_life, data)| {
        let data = if deleted { data } else { data.or_else(|| Data::from_map(&BTreeMap::new()).ok()) };
        Row { pk, v, deleted, max_life, data }
    })
}

fn fault() -> impl Strategy<Value = Fault> {
    let kinds =
        prop::sample::select(vec![Kind::A, Kind::N, Kind::B, Kind::X, Kind::D, Kind::C, Kind::O, Kind::S]);
    let code = prop_oneof![
        prop::sample::select(Code::ALL).prop_map(|code| code.as_str().to_owned()),
        any::<String>()
    ];
    (code, kinds, 0..6u8, any::<String>(), prop::option::of(row()), few(any::<String>()))
        .prop_map(|(code, kind, phase, message, doc, files)| Fault { code, kind, phase, message, doc, files })
}

fn few<T: std::fmt::Debug>(of: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(of, 0..4)
}

fn part() -> impl Strategy<Value = Part> {
    let end = prop_oneof![
        Just((None, None)),
        few(pk()).prop_map(|pks| (Some(pks), None)),
        "[ -~]{1,20}".prop_map(|next| (None, Some(next))),
    ];
    let total = prop::option::of(0..1000u64);
    let versions = (prop::option::of(v()), prop::option::of(v()), prop::option::of(v()));
    (def(), few(row()), few((pk(), v())), end, versions, total, prop::option::of(fault())).prop_map(
        |(def, rows, left, (present, next), (floor, n, from), total, fault)| Part {
            def,
            rows,
            left,
            present,
            floor,
            n,
            from,
            next,
            total,
            fault,
        },
    )
}

/// A question about objects.
pub fn have() -> impl Strategy<Value = FilesRequest> {
    let sha = any::<String>().prop_map(|text| sha32(&text));
    few(sha).prop_map(|have| FilesRequest { p: 1, have })
}

pub fn request() -> impl Strategy<Value = SyncRequest> {
    let after = prop::option::of("[0-9a-f-]{36}");
    let op = ("[0-9a-f-]{36}", v(), "[a-z.]{1,9}", value(), v(), after)
        .prop_map(|(id, seq, name, args, at, after)| Op { id, seq, name, args, at, after });
    let sub =
        (def(), v(), prop::option::of("[ -~]{1,20}")).prop_map(|(def, v, cursor)| Sub { def, v, cursor });
    let epoch = prop::option::of(epoch());
    let wanted = (any::<bool>(), prop::option::of(v()));
    ("[ -~]{1,30}", epoch, few(op), few(sub), wanted).prop_map(|(session, epoch, ops, subs, (refs, page))| {
        SyncRequest { p: 1, session, epoch, ops, subs, refs, page }
    })
}

pub fn reply() -> impl Strategy<Value = SyncReply> {
    let trees = few((name(), pk(), v()));
    let ok = (v(), prop::option::of(value().prop_filter("null is absent", |v| *v != Value::Null)), trees)
        .prop_map(|(v, value, trees)| OpOk { v, value, trees });
    let outcome =
        prop_oneof![ok.prop_map(|ok| (Some(ok), None)), fault().prop_map(|fault| (None, Some(fault)))];
    let result = ("[0-9a-f-]{36}", outcome).prop_map(|(id, (ok, fault))| OpResult { id, ok, fault });
    let standing = (prop::option::of(0..4_u64), prop::option::of("[a-z]{1,8}"));
    (epoch(), v(), v(), v(), few(result), few(part()), standing).prop_map(
        |(epoch, now, delta, seq, results, parts, (restriction, role))| SyncReply {
            p: 1,
            epoch,
            now,
            delta,
            seq,
            results,
            parts,
            restriction,
            role,
        },
    )
}

pub fn live() -> impl Strategy<Value = LiveRequest> {
    (prop::option::of(any::<String>()), any::<String>(), few(def()))
        .prop_map(|(token, session, subs)| LiveRequest { token, session, subs })
}

pub fn frame() -> impl Strategy<Value = ServerFrame> {
    prop_oneof![
        (few(def()), few((def(), fault())), prop::option::of((epoch(), v())), v())
            .prop_map(|(live, refused, head, spread)| ServerFrame::Live { live, refused, head, spread }),
        few((def(), v())).prop_map(ServerFrame::Hints),
        (epoch(), v(), v(), v(), few(part())).prop_map(|(epoch, now, delta, seq, parts)| {
            ServerFrame::Parts(ServerParts { epoch, now, delta, seq, parts })
        }),
        Just(ServerFrame::Alive),
    ]
}
