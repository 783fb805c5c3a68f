//! R88: counters of documents and bytes equal a recount after every history, and only growth is refused.
// A fault is as large as the information that the session needs.
#![allow(clippy::result_large_err)]

use std::collections::BTreeMap;
use std::sync::Arc;

use escale::codec::Data;
use escale::model::Value;
use escale::model::schema::Schema;
use escale_server::clock::ManualClock;
use escale_server::engine::{Counter, Engine, Opening};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use super::support::*;
use crate::support::chance::Chance;
use crate::support::proof::times;
use crate::support::world::*;

const COUNTED: &str = r#"{
    "Note": { "key": ["id"], "quota": { "by": "owner" }, "collections": { "owner": { "key": ["owner"], "mutable": true } } },
    "Log": { "key": ["id"], "sync": false, "quota": { "by": "host" } },
    "Free": { "key": ["id"] }
}"#;

type Counts = BTreeMap<String, (u64, u64)>;

/// All counters by a walk over the stored documents. It knows the schema, and no rule.
fn recount(engine: &Engine, seal: &Seal) -> Counts {
    let mut tx = engine.provider().maintain(std::time::Duration::from_secs(5)).unwrap();
    let (mut counts, mut after) = (Counts::new(), None);
    loop {
        let found = tx.walk(after, 100).unwrap();
        let Some(last) = found.last() else { return counts };
        after = Some((last.org.clone(), last.class.clone(), last.pk.clone()));
        for one in &found {
            let by = match one.class.as_str() {
                "Note" => "owner",
                "Log" => "host",
                _ => continue,
            };
            if one.document.deleted {
                continue;
            }
            let data = seal.open_document(one.place(), &one.document).unwrap();
            let map = Data::from_bytes(&data).unwrap().to_map().unwrap();
            let name = map.get(by).and_then(Value::as_str).map(str::to_owned);
            for of in std::iter::once(String::new()).chain(name) {
                let (documents, bytes) = counts.entry(format!("{}/{of}", one.org)).or_default();
                (*documents, *bytes) = (*documents + 1, *bytes + data.len() as u64);
            }
        }
    }
}

const OWNERS: [&str; 3] = ["ada", "bob", "lea"];

/// The counters as operations read them; those of nothing are left out.
fn counted(engine: &Engine) -> Counts {
    let mut counts = Counts::new();
    for org in ["o", "p"] {
        for of in std::iter::once("").chain(OWNERS) {
            let id = format!("{org}{of}{}", counts.len());
            let args = Value::from(of);
            let ok = ask_as(engine, org, &id, "counter", args).ok.unwrap();
            let value = ok.value.unwrap();
            let numbers: Vec<u64> = value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
            counts.insert(format!("{org}/{of}"), (numbers[0], numbers[1]));
        }
    }
    counts.retain(|_, counter| *counter != (0, 0));
    counts
}

fn ask_as(engine: &Engine, org: &str, id: &str, name: &str, args: Value) -> escale::codec::OpResult {
    use std::sync::atomic::{AtomicU64, Ordering};
    // Each question is a session of its own.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let session = format!("q{}-{id}", NEXT.fetch_add(1, Ordering::Relaxed));
    let op = escale::codec::Op { id: session.clone(), seq: 1, name: name.into(), args, at: 0, after: None };
    let request = escale::codec::SyncRequest { ops: vec![op], ..escale::codec::SyncRequest::of(&session) };
    engine.sync(org, &of("root"), &request).unwrap().results.remove(0)
}

fn with_counter(engine: Engine) -> Engine {
    let counter = engine.operation("counter", |tx, args| {
        let Counter { documents, bytes, .. } = tx.quota(args.as_str().unwrap_or(""))?;
        Ok(Some(Value::Array(vec![Value::from(documents as i64), Value::from(bytes as i64)])))
    });
    counter.unwrap()
}

fn opening(schema: &str, clock: &Arc<ManualClock>, seal: Seal) -> Opening {
    let schema = Schema::from_json(schema).unwrap();
    let settings = Settings { retention_days: 1, ..Settings::default() };
    Opening { schema, settings, seal, clock: clock.clone() }
}

#[test]
fn r88_a_counter_is_told_to_those_who_may_read_what_it_counts() {
    let schema = RIGHTS.replacen(
        r#""Note": { "key": ["group", "id"],"#,
        r#""Note": { "key": ["group", "id"], "quota": { "by": "group" },"#,
        1,
    );
    let (engine, _) = engine_of(&schema);
    members(&engine, "o");
    let mut lea = Client::new(&engine, "o", "lea");
    assert_eq!(lea.put("Note", doc(&[("group", "g"), ("id", "1"), ("owner", "lea")])), "ok");
    let limits = Value::from([("of", "g".into()), ("documents", Value::from(5))]);
    assert_eq!(Client::new(&engine, "o", "root").code("quota.set", limits), "ok");
    let ask = |account: &str, args: Value| {
        let result = Client::new(&engine, "o", account).run("quota.get", args);
        result.ok.expect("it is never refused").value.map(|value| {
            let map = value.as_map().unwrap().clone();
            let number = |name: &str| map.get(name).and_then(Value::as_u64);
            assert!(number("bytes") > Some(0));
            (number("documents").unwrap(), number("documentsMax"), number("bytesMax"))
        })
    };
    let of_g = || Value::from([("of", Value::from("g"))]);
    for account in ["root", "lea", "ada"] {
        assert_eq!(ask(account, of_g()), Some((1, Some(5), None)), "{account}");
    }
    // No member; and one whose token may not write, and may read as any account.
    assert_eq!((ask("out", of_g()), ask("mute", of_g())), (None, None));
    for account in ["out", "mute"] {
        assert_eq!(ask(account, Value::Map(Map::new())), Some((1, None, None)), "the org's is everybody's");
    }
    for wrong in
        [Value::Null, Value::from([("of", Value::from(""))]), Value::from([("off", Value::from("g"))])]
    {
        assert_eq!(lea.code("quota.get", wrong), "bad_value");
    }
}

/// A limit was taken, and never held: nobody counts under a schema without a quota.
#[test]
fn r88_a_limit_that_would_never_hold_is_refused() {
    let args = |of: Option<&str>, name: &'static str, limit: Value| {
        let of = of.map(|of| ("of".to_owned(), Value::from(of)));
        Value::Map(of.into_iter().chain([(name.to_owned(), limit)]).collect())
    };
    let five = || Value::from(5);
    let limits = [
        (args(Some("g"), "documents", five()), "bad_value"),
        (args(Some("g"), "bytes", five()), "bad_value"),
        (args(None, "documents", five()), "bad_value"),
        // The results and the journal of the org count in any case.
        (args(None, "bytes", Value::from(1 << 30)), "ok"),
        (args(Some("g"), "documents", Value::Null), "ok"),
    ];
    for (schema, counts) in [(RIGHTS, false), (COUNTED, true)] {
        let (engine, _) = engine_of(schema);
        let mut root = Client::new(&engine, "o", "root");
        root.caller.is_admin = true;
        for (limit, code) in &limits {
            let expected = if counts { "ok" } else { *code };
            assert_eq!(root.code("quota.set", limit.clone()), expected, "{limit:?}, counts: {counts}");
        }
    }
}

/// Random writes of all kinds, with ends of lives, purges, limits and changes of the schema in between.
#[test]
fn r88_counters_equal_a_recount_after_every_history() {
    let mut chance = Chance::new();
    let rounds = times("ESCALE_QUOTAS", 12) as usize;
    let (mut refused, mut purged) = (0, 0);
    for round in 0..rounds {
        let folder = quick_folder();
        let clock = ManualClock::at(NOON);
        let seal = || if round % 2 == 0 { Seal::clear() } else { Seal::with_key(&[7; 32]) };
        let open = |schema: &str| {
            with_counter(Engine::open(folder.path(), opening(schema, &clock, seal())).unwrap())
        };
        let mut engine = open(COUNTED);
        for step in 0..120 {
            clock.advance(1 + chance.below(1_000));
            let org = chance.pick(&["o", "p"]);
            let mut client = Client::new(&engine, org, "root");
            // A session of its own for each step.
            client.caller.account = format!("root{step}");
            client.caller.is_admin = true;
            let id = chance.below(6).to_string();
            let mut map = doc(&[("id", &id), ("text", &"x".repeat(chance.below(40) as usize))]);
            if chance.is(80) {
                map.insert("owner".into(), chance.pick(&OWNERS).into());
                map.insert("host".into(), chance.pick(&OWNERS).into());
            }
            let class = chance.pick(&["Note", "Note", "Log", "Free"]);
            let code = match chance.below(12) {
                0..5 => {
                    if chance.is(10) {
                        map.insert("maxLife".into(), Value::from((NOON / 60_000 + chance.below(60)) as i64));
                    }
                    client.put(class, map)
                }
                5..7 => client.patch(class, &[&id], map),
                7..9 => client.delete(class, &[&id]),
                9 => {
                    let args = Value::from([
                        ("of", Value::from(chance.pick(&OWNERS))),
                        (
                            "documents",
                            if chance.is(30) { Value::Null } else { Value::from(chance.below(5) as i64) },
                        ),
                        (
                            "bytes",
                            if chance.is(30) { Value::Null } else { Value::from(chance.below(300) as i64) },
                        ),
                    ]);
                    client.code("quota.set", args)
                }
                10 => {
                    if chance.is(30) {
                        clock.advance(DAY + 3_700_000);
                    }
                    purged += engine.purge().unwrap();
                    continue;
                }
                _ => {
                    // Without a quota for a while, and with it again: everything is counted again.
                    drop(client);
                    drop(engine);
                    if chance.is(30) {
                        drop(open(
                            &COUNTED.replace(r#""quota": { "by": "host" }"#, r#""quota": { "by": "owner" }"#),
                        ));
                    }
                    engine = open(COUNTED);
                    continue;
                }
            };
            assert!(["ok", "not_found", "quota_exceeded"].contains(&&*code), "{code}");
            refused += usize::from(code == "quota_exceeded");
            if step % 10 == 9 {
                assert_eq!(counted(&engine), recount(&engine, &seal()), "round {round}, step {step}");
            }
        }
        assert_eq!(counted(&engine), recount(&engine, &seal()), "round {round}");
    }
    assert!(refused > rounds && purged > 0, "{refused} refusals, {purged} purged");
}

#[test]
fn r88_growth_above_a_limit_is_refused_and_shrinking_is_not() {
    let (engine, _) = engine_of(COUNTED);
    let mut root = Client::new(&engine, "o", "root");
    let mut bob = Client::new(&engine, "o", "bob");
    let note = |id: &str, owner: &str, bytes: usize| {
        doc(&[("id", id), ("owner", owner), ("text", &"x".repeat(bytes))])
    };
    let limit = |of: &str, name: &str, n: i64| Value::from([("of", Value::from(of)), (name, Value::from(n))]);
    for id in ["1", "2", "3"] {
        assert_eq!(bob.put("Note", note(id, "bob", 100)), "ok");
    }
    assert_eq!(bob.code("quota.set", limit("bob", "documents", 9)), "forbidden");
    assert_eq!(root.code("quota.set", limit("bob", "documents", 2)), "ok");
    let fault = bob
        .fault("doc.put", Value::from([("class", "Note".into()), ("data", Value::Map(note("4", "bob", 1)))]));
    let fault = fault.unwrap();
    assert_eq!((fault.code.as_str(), fault.kind), ("quota_exceeded", escale::Kind::A));
    assert_eq!(bob.put("Note", note("3", "bob", 200)), "ok", "no more documents than before");
    assert_eq!((bob.delete("Note", &["3"]), bob.delete("Note", &["2"])), ("ok".into(), "ok".into()));
    assert_eq!(
        (bob.put("Note", note("2", "bob", 100)), bob.put("Note", note("3", "bob", 100))),
        ("ok".into(), "quota_exceeded".into())
    );
    // Another owner's counter, and one that a document moves into.
    assert_eq!(bob.put("Note", note("5", "ada", 100)), "ok");
    assert_eq!(bob.patch("Note", &["5"], doc(&[("owner", "bob")])), "quota_exceeded");
    // Bytes: above the limit, only shrinking is allowed.
    assert_eq!(root.code("quota.set", limit("bob", "documents", 10)), "ok");
    assert_eq!(root.code("quota.set", limit("bob", "bytes", 150)), "ok");
    assert_eq!(bob.put("Note", note("1", "bob", 101)), "quota_exceeded");
    assert_eq!(bob.put("Note", note("1", "bob", 99)), "ok");
    assert_eq!(root.code("quota.set", Value::from([("of", "bob".into()), ("bytes", Value::Null)])), "ok");
    assert_eq!(bob.put("Note", note("3", "bob", 300)), "ok");
    // The org's own counter.
    assert_eq!(root.code("quota.set", Value::from([("documents", Value::from(4))])), "ok");
    assert_eq!(bob.put("Note", note("6", "lea", 1)), "quota_exceeded");
    assert_eq!(Client::new(&engine, "p", "bob").put("Note", note("6", "lea", 1)), "ok", "another org");
    // A refused batch counts nothing.
    let one = |id: &str| {
        Value::from([
            ("name", "doc.put".into()),
            ("args", Value::from([("class", "Note".into()), ("data", Value::Map(note(id, "lea", 1)))])),
        ])
    };
    assert_eq!(root.code("quota.set", Value::from([("documents", Value::from(5))])), "ok");
    assert_eq!(
        bob.code("batch", Value::from([("ops", Value::Array(vec![one("6"), one("7")]))])),
        "quota_exceeded"
    );
    assert_eq!(
        (bob.put("Note", note("6", "lea", 1)), bob.put("Note", note("7", "lea", 1))),
        ("ok".into(), "quota_exceeded".into())
    );
}

#[test]
fn r88_wrong_limits_are_bad_values() {
    let (engine, _) = engine_of(COUNTED);
    let mut root = Client::new(&engine, "o", "root");
    for args in [
        Value::Null,
        Value::from([("of", Value::from(7))]),
        Value::from([("of", Value::from(""))]),
        Value::from([("documents", Value::from(-1))]),
        Value::from([("bytes", Value::from("7"))]),
        Value::from([("files", Value::from(7))]),
    ] {
        assert_eq!(root.code("quota.set", args.clone()), "bad_value", "{args:?}");
    }
}

/// The counters are no class: nobody can subscribe to them or write them.
#[test]
fn r88_counters_are_no_documents_of_the_org() {
    let (engine, _) = engine_of(COUNTED);
    let mut root = Client::new(&engine, "o", "root");
    assert_eq!(root.put("Note", doc(&[("id", "1"), ("owner", "bob")])), "ok");
    assert!("#counter".parse::<escale::model::Def>().is_err());
    assert_eq!(root.put("#counter", doc(&[("id", "1")])), "unknown_class");
    assert_eq!(root.rows("Note").map(|rows| rows.len()), Ok(1));
}
