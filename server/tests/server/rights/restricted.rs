//! R89: schedules bar accounts and orgs from writing, reading and entering, and exempt classes stay.

// A fault is as large as the information that the session needs. Refusals are rare.
#![allow(clippy::result_large_err)]

use std::sync::Arc;

use escale::Code;
use escale::codec::SyncRequest;
use escale::model::Value;
use escale::model::schema::Schema;
use escale_server::clock::ManualClock;
use escale_server::engine::{Engine, Hooks, Opening, Restrictions, Schedule};
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use super::support::*;
use crate::support::base::Base;
use crate::support::chance::Chance;
use crate::support::schedules::*;
use crate::support::world::*;

/// A class of each kind.
const SCHEMA: &str = r#"{
    "Note": { "key": ["id"], "collections": { "owner": { "key": ["owner"] } } },
    "Help": { "key": ["id"], "exempt": 1 },
    "Chat": { "key": ["id"], "exempt": 2, "quota": { "by": "id" } },
    "Shut": { "key": ["id"], "exempt": 2, "rights": { "create": "none", "read": "none" } }
}"#;

const CLASSES: [(&str, u8); 3] = [("Note", 0), ("Help", 1), ("Chat", 2)];

fn opening(clock: &Arc<ManualClock>) -> Opening {
    let schema = Schema::from_json(SCHEMA).unwrap();
    Opening { schema, settings: Settings::default(), seal: Seal::with_key(&[7; 32]), clock: clock.clone() }
}

fn with_operation(engine: Engine) -> Engine {
    engine.operation("own", |tx, _| tx.put("Note", doc(&[("id", "own")])).map(|()| None)).unwrap()
}

fn put_args(class: &str, id: &str) -> Value {
    Value::from([("class", Value::from(class)), ("data", Value::Map(doc(&[("id", id)])))])
}

/// Whether the caller may enter, and the level that the reply tells.
fn enters(client: &Client) -> Result<u64, Code> {
    let asked = client.sync(&SyncRequest::of("look"));
    asked.map(|reply| reply.restriction.unwrap_or(0)).map_err(|error| error.code())
}

/// Checks each kind of request against the table of levels, without the server's code.
fn check(client: &mut Client, level: u8, id: &str) {
    assert_eq!(enters(client), if level == 3 { Err(Code::AccountClosed) } else { Ok(u64::from(level)) });
    if level == 3 {
        return;
    }
    for (class, exempt) in CLASSES {
        let code = if level == 0 || level <= exempt { "ok" } else { "blocked" };
        assert_eq!(client.put(class, doc(&[("id", id)])), code, "a write of {class} at level {level}");
        let part = if level < 2 || level <= exempt { "ok" } else { "blocked" };
        for def in [class.to_owned(), single(class, &["nothing"])] {
            let found = client.rows(&def).err();
            assert_eq!(found.as_deref().unwrap_or("ok"), part, "{def} at level {level}");
        }
        let inner = Value::from([("name", "doc.put".into()), ("args", put_args(class, id))]);
        let batch = Value::from([("ops", Value::Array(vec![inner]))]);
        assert_eq!(client.code("batch", batch), code, "a batch of {class} at level {level}");
    }
    let of_no_class = if level == 0 { "ok" } else { "blocked" };
    assert_eq!(client.code("own", Value::Null), of_no_class);
    // An exemption gives no right.
    assert_eq!(client.put("Shut", doc(&[("id", "1")])), "forbidden");
    assert_eq!(client.rows("Shut"), Err("withdrawn".into()));
}

/// Every level, of the account and of the org, and the end of each.
fn levels(base: &Base) {
    let clock = ManualClock::at(NOON);
    let engine = with_operation(base.open(opening(&clock)).unwrap());
    let (mut root, mut bob) = (Client::new(&engine, "o", "root"), Client::new(&engine, "o", "bob"));
    let mut ada = Client::new(&engine, "o", "ada");
    let mut other = Client::new(&engine, "p", "bob");
    for level in 0..=3 {
        assert_eq!(root.code("account.set", of_account("bob", &[(NOON, level)])), "ok");
        check(&mut bob, level, "a");
        // Nobody else, and the same account in no other org.
        check(&mut ada, 0, "b");
        check(&mut root, 0, "c");
        check(&mut other, 0, "d");
    }
    assert_eq!(root.code("account.set", of_account("bob", &[])), "ok");
    check(&mut bob, 0, "a");
    for level in 0..=3 {
        assert_eq!(root.code("org.set", of_org(&[(NOON, level)])), "ok");
        check(&mut bob, level, "a");
        // An administrator still enters, because nobody else could end it.
        check(&mut root, level.min(2), "b");
    }
    // The higher one counts.
    assert_eq!(root.code("org.set", of_org(&[(NOON, 1)])), "ok");
    assert_eq!(root.code("account.set", of_account("bob", &[(NOON, 2)])), "ok");
    check(&mut bob, 2, "a");
    check(&mut ada, 1, "a");
    assert_eq!(root.code("account.set", of_account("bob", &[(NOON, 0)])), "ok");
    check(&mut bob, 1, "a");
    // Another instance, and this one after a restart, know it.
    let again = with_operation(base.open(opening(&clock)).unwrap());
    check(&mut Client::new(&again, "o", "bob"), 1, "a");
}

#[test]
fn r89_levels_bar_what_they_say_on_sqlite() {
    levels(&Base::folder());
}

#[cfg(feature = "postgres")]
#[test]
fn r89_levels_bar_what_they_say_on_postgres() {
    levels(&Base::postgres(crate::support::postgres::server(), Some(NOON)));
}

#[test]
fn r89_dates_of_a_schedule_begin_and_end_by_the_clock() {
    let (engine, clock) = engine_of(SCHEMA);
    let engine = with_operation(engine);
    let mut root = Client::new(&engine, "o", "root");
    let mut bob = Client::new(&engine, "o", "bob");
    let dated = [(NOON + 1_000, 1), (NOON + 2_000, 3), (NOON + 3_000, 2), (NOON + 4_000, 0)];
    assert_eq!(root.code("account.set", of_account("bob", &dated)), "ok");
    for (at, level) in
        [(0, 0), (999, 0), (1_000, 1), (2_000, 3), (3_000, 2), (3_999, 2), (4_000, 0), (9_000, 0)]
    {
        clock.advance(NOON + at - engine.clock_ms());
        check(&mut bob, level, "a");
    }
}

/// Random schedules and moments, next to a list of them.
#[test]
fn r89_random_schedules_restrict_as_a_list_of_them_does() {
    let mut chance = Chance::new();
    let (engine, clock) = engine_of(SCHEMA);
    let engine = with_operation(engine);
    let mut root = Client::new(&engine, "o", "root");
    let names = ["ada", "bob", "lea"];
    let mut set: [Vec<(u64, u8)>; 4] = Default::default();
    let mut seen = [0; 4];
    for _ in 0..400 {
        let now = engine.clock_ms();
        if chance.is(30) {
            let mut moments: Vec<u64> = (0..chance.below(9)).map(|_| now - 300 + chance.below(900)).collect();
            moments.sort_unstable();
            moments.dedup();
            let schedule: Vec<_> = moments.into_iter().map(|at| (at, chance.below(4) as u8)).collect();
            let place = chance.below(4) as usize;
            let code = match names.get(place) {
                Some(name) => root.code("account.set", of_account(name, &schedule)),
                None => root.code("org.set", of_org(&schedule)),
            };
            assert_eq!(code, "ok");
            set[place] = schedule;
        }
        clock.advance(chance.below(200));
        let now = engine.clock_ms();
        let level =
            |place: usize| set[place].iter().rfind(|(at, _)| *at <= now).map_or(0, |(_, level)| *level);
        let place = chance.below(3) as usize;
        let expected = level(place).max(level(3));
        check(&mut Client::new(&engine, "o", names[place]), expected, "a");
        seen[usize::from(expected)] += 1;
    }
    assert!(seen.iter().all(|count| *count > 5), "every level occurs: {seen:?}");
}

#[test]
fn r89_only_an_administrator_who_is_not_restricted_sets_schedules() {
    let (engine, _) = engine_of(SCHEMA);
    let (mut root, mut bob) = (Client::new(&engine, "o", "root"), Client::new(&engine, "o", "bob"));
    assert_eq!(bob.code("account.set", of_account("bob", &[])), "forbidden");
    assert_eq!(bob.code("org.set", of_org(&[])), "forbidden");
    // He would keep himself out, and no other administrator is known.
    for level in 1..=3 {
        assert_eq!(root.code("account.set", of_account("root", &[(NOON + 9_999, level)])), "last_admin");
    }
    assert_eq!(root.code("account.set", of_account("root", &[(NOON, 0)])), "ok");
    // The org's schedule does not bind these two.
    assert_eq!(root.code("org.set", of_org(&[(NOON, 3)])), "ok");
    assert_eq!(root.code("quota.set", Value::from([("documents", Value::from(1))])), "blocked");
    assert_eq!(root.code("account.set", of_account("bob", &[(NOON, 1)])), "ok");
    assert_eq!(root.code("org.set", of_org(&[])), "ok");
    // The application may restrict an administrator; then he sets nothing.
    let engine = engine
        .operation("bar", |tx, args| {
            let schedule = Schedule::new(vec![(NOON, 1)]).unwrap();
            tx.set_schedule(args.as_str(), schedule).map(|()| None)
        })
        .unwrap();
    let (mut root, mut bob) = (Client::new(&engine, "o", "root"), Client::new(&engine, "o", "ada"));
    assert_eq!(bob.code("bar", Value::from("root")), "ok");
    assert_eq!(root.code("account.set", of_account("bob", &[])), "blocked");
    assert_eq!(root.code("org.set", of_org(&[])), "blocked");
}

#[test]
fn r89_wrong_schedules_are_bad_values() {
    let (engine, _) = engine_of(SCHEMA);
    let mut root = Client::new(&engine, "o", "root");
    let many: Vec<_> = (1..=9).map(|n| (n, 1)).collect();
    assert_eq!(root.code("org.set", of_org(&many[1..])), "ok");
    for wrong in [entries(&many), entries(&[(1, 4)]), entries(&[(2, 1), (2, 1)]), entries(&[(2, 1), (1, 1)])]
    {
        assert_eq!(root.code("org.set", Value::from([("schedule", wrong)])), "bad_value");
    }
    let one = |value: &str| Value::Array(vec![Value::Array(vec![Value::from(1), Value::from(value)])]);
    for wrong in [Value::Null, Value::from(1), one("1"), Value::Array(vec![Value::from(1)])] {
        assert_eq!(root.code("org.set", Value::from([("schedule", wrong)])), "bad_value");
    }
    let args = |name: &str| Value::from([("account", Value::from("bob")), (name, entries(&[]))]);
    assert_eq!(root.code("account.set", args("schedules")), "bad_value");
    assert_eq!(root.code("account.set", args("role")), "bad_value");
    assert_eq!(root.code("org.set", Value::Null), "bad_value");
    let role = Value::from([("account", Value::from("bob")), ("role", Value::from("read"))]);
    assert_eq!(root.code("account.set", role), "not_found", "an account of the file of tokens has no record");
}

#[test]
fn r89_a_function_restricts_in_addition() {
    let (engine, _) = engine_of(SCHEMA);
    let hooks = Hooks::default().restriction(|ask| match ask.caller.account.as_str() {
        "bob" if ask.org == "o" => 2,
        "eve" => 9,
        _ => 0,
    });
    let engine = with_operation(engine.hooked(hooks).unwrap());
    check(&mut Client::new(&engine, "o", "bob"), 2, "a");
    check(&mut Client::new(&engine, "p", "bob"), 0, "a");
    check(&mut Client::new(&engine, "o", "eve"), 3, "a");
    let mut root = Client::new(&engine, "o", "root");
    assert_eq!(root.code("account.set", of_account("bob", &[(NOON, 1)])), "ok");
    check(&mut Client::new(&engine, "o", "bob"), 2, "a");
    let restriction = Restrictions::of(&engine).read("o", &of("bob")).unwrap();
    assert_eq!((restriction.account, restriction.org), (1, 0));
}

/// A blocked operation got its result, of which nothing is kept. It is judged again, and never executed under its number.
#[test]
fn r89_a_blocked_operation_was_refused_and_those_behind_it_run() {
    let (engine, _) = engine_of(SCHEMA);
    let mut root = Client::new(&engine, "o", "root");
    assert_eq!(root.code("org.set", of_org(&[(NOON, 1)])), "ok");
    let op = |seq: u64, class: &str| escale::codec::Op {
        id: format!("op{seq}"),
        seq,
        name: "doc.put".into(),
        args: put_args(class, "x"),
        at: 0,
        after: None,
    };
    let request = SyncRequest {
        ops: vec![op(1, "Note"), op(2, "Help"), op(3, "Note"), op(4, "Chat")],
        ..SyncRequest::of("bobs")
    };
    let bob = Client::new(&engine, "o", "bob");
    let codes = || -> Vec<String> {
        let results = bob.sync(&request).unwrap().results;
        results.into_iter().map(|result| result.fault.map_or("ok".into(), |fault| fault.code)).collect()
    };
    assert_eq!(codes(), ["blocked", "ok", "blocked", "ok"]);
    assert_eq!(codes(), ["blocked", "ok", "blocked", "ok"]);
    assert_eq!(root.code("org.set", of_org(&[])), "ok");
    // Those that were executed are known. Nothing is said of the other blocked one.
    assert_eq!(codes(), ["session_reused", "ok", "ok"]);
    assert_eq!(bob.rows(&single("Note", &["x"])), Ok(Vec::new()));
}
