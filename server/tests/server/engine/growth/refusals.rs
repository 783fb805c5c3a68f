//! Refusals that follow from the rights of the caller: nothing of them lasts, and each operation has its effect once all the
//! same.

use escale::codec::{Op, SyncReply, SyncRequest};
use escale::model::Value;
use escale_server::engine::Caller;
use escale_server::seal::Seal;
use escale_server::settings::Settings;

use super::stored::*;
use crate::support::operating::{op, put_args, told, with};
use crate::support::world::note;

/// A caller, the operation that it may not run, and the code of the refusal.
fn refused() -> Vec<(Caller, &'static str, Value, &'static str)> {
    let closed = with(put_args("a", "one"), "class", "Closed");
    vec![
        (caller("reader"), "doc.put", large("a", 10), "forbidden"),
        (caller("ann"), "doc.put", closed.clone(), "forbidden"),
        (caller("ann"), "batch", one_of("doc.put", closed), "forbidden"),
        (caller("blocked"), "doc.put", large("a", 10), "blocked"),
        (caller("blocked"), "quota.set", Value::Map([].into()), "blocked"),
        (caller("blocked"), "quota.get", Value::Map([].into()), "ok"),
        (caller("blocked"), "batch", Value::from([("ops", Value::Array(Vec::new()))]), "ok"),
        (caller("blocked"), "batch", one_of("quota.get", Value::Map([].into())), "ok"),
        (caller("blocked"), "nonsense", Value::Null, "blocked"),
        (caller("blocked"), "doc.put", Value::Null, "bad_value"),
        (caller("bob"), "doc.put", of_bob("a"), "quota_exceeded"),
    ]
}

fn of_bob(id: &str) -> Value {
    let data =
        Value::Map([("owner".to_owned(), Value::from("bob"))].into_iter().chain(note(id, "one")).collect());
    with(put_args(id, "one"), "data", data)
}

fn one_of(name: &str, args: Value) -> Value {
    let member = [("name", Value::from(name)), ("args", args)];
    Value::from([("ops", Value::Array(vec![member.into()]))])
}

/// A world in which bob's counter has no room.
fn world() -> Stored {
    let world = stored(Settings::default(), Seal::clear());
    set_limit(&world, "limit", Value::from(0));
    world
}

fn set_limit(world: &Stored, id: &str, documents: Value) {
    let args = Value::from([("of", Value::from("bob")), ("documents", documents)]);
    assert!(world.one("root", id, "quota.set", args).ok.is_some());
}

fn send(world: &Stored, caller: &Caller, session: &str, ops: Vec<Op>) -> SyncReply {
    world.engine.sync("o", caller, &SyncRequest { ops, ..SyncRequest::of(session) }).unwrap()
}

#[test]
fn a_caller_without_the_right_to_write_adds_nothing_that_lasts() {
    for (caller, name, args, code) in refused() {
        let world = world();
        let of = |session: &str| {
            let numbered = |seq| op(&format!("{session}-{seq}-{}", "i".repeat(900)), seq, name, args.clone());
            send(&world, &caller, session, (1..=30).map(numbered).collect())
        };
        let first = of("first");
        assert_eq!(first.seq, 30, "{name} {code}");
        assert!(told(&first).iter().all(|(_, told)| *told == code), "{name} {code}: {:?}", told(&first));
        let before = world.bytes();
        assert_eq!(of("first").results, first.results, "the same answers, judged again");
        assert!(world.bytes() <= before + 1, "{name} {code}: the number of commits may have another digit");
        (1..16).for_each(|n| drop(of(&format!("another {n}"))));
        assert!(world.bytes() < before + 16 * 150, "{name} {code}: the numbers of sessions");
        let before = world.bytes();
        for n in 16..40 {
            let reply = of(&format!("further {n}"));
            assert_eq!((told(&reply).len(), reply.seq), (30, 30), "{name} {code}");
        }
        assert_eq!(world.bytes(), before, "{name} {code}");
    }
}

/// R11: the number is used, and no late copy of the request is executed once the caller has the right.
#[test]
fn r11_a_late_copy_of_an_operation_that_was_refused_by_rights_is_never_executed() {
    for (refused, name, args, code) in refused() {
        let world = world();
        let late = op("late", 1, name, args.clone());
        let reply = send(&world, &refused, "s", vec![late.clone()]);
        assert_eq!((told(&reply), reply.seq), (vec![("late", code)], 1));
        set_limit(&world, "no limit", Value::Null);
        let now =
            Caller { is_admin: true, may_write: true, account: refused.account.clone(), ..Caller::default() };
        let ends = told(&send(&world, &now, "t", vec![op("probe", 1, name, args.clone())]))[0].1.to_owned();
        let before = world.bytes();
        let reply =
            send(&world, &now, "s", vec![late.clone(), op("next", 2, "quota.get", Value::Map([].into()))]);
        assert_eq!((told(&reply), reply.seq), (vec![("late", "session_reused")], 1), "{name} {code}");
        assert_eq!(world.bytes(), before, "{name} {code}");
        // Under the session's next number it is an operation like any other: it never had an effect.
        let reply = send(&world, &now, "s", vec![op("late", 2, name, args)]);
        assert_eq!((told(&reply), reply.seq), (vec![("late", ends.as_str())], 2));
    }
}

#[test]
fn a_session_whose_first_number_is_not_kept_goes_on_within_its_request_and_by_its_next() {
    let world = world();
    let closed =
        |seq: u64| op(&format!("c{seq}"), seq, "doc.put", with(put_args("a", "one"), "class", "Closed"));
    (0..16).for_each(|n| drop(send(&world, &caller("ann"), &format!("{n}"), vec![closed(1)])));
    let put = |id: &str, seq| op(id, seq, "doc.put", put_args(id, "one"));
    // In one request, the order of its numbers counts.
    let reply = send(&world, &caller("ann"), "one", vec![closed(1), closed(2), put("a", 3), put("b", 4)]);
    assert_eq!(
        (told(&reply).iter().map(|(_, code)| *code).collect::<Vec<_>>(), reply.seq),
        (vec!["forbidden", "forbidden", "ok", "ok"], 4)
    );
    assert_eq!(send(&world, &caller("ann"), "one", Vec::new()).seq, 4);
    // In a later one, the reply says from which number on to begin again.
    assert_eq!(send(&world, &caller("ann"), "two", vec![closed(1)]).seq, 1);
    let reply = send(&world, &caller("ann"), "two", vec![put("c", 2)]);
    assert_eq!((told(&reply), reply.seq), (vec![("c", "order_gap")], 0));
    assert_eq!(told(&send(&world, &caller("ann"), "two", vec![put("c", 1)])), [("c", "ok")]);
}
