//! Two releases of an application in two tabs, by hand. The older one knows less, and leads.

use std::collections::BTreeMap;

use escale::Code;
use escale::journal::Policy;
use escale::model::{Def, Value};
use escale::storage::Limits;
use escale::store::{MemoryDevice, Table};
use escale::sync::{Event, Write};

use super::ends::{id, put};
use super::regressions::{NOW, lead, poll, settle};
use super::tab::{LOCAL, Tab, Task};
use super::world::releases::{FEATURES, Release};
use escale_testkit::backend::Write as ServerWrite;
use escale_testkit::schema::{key, name};
use escale_testkit::server::{Habits, ModelServer};

/// The older release lacks a class, a local class, and an index of integers.
const OLDER: [bool; FEATURES] = [false, true, true, false, true, false, true, false];
const NEWER: [bool; FEATURES] = [true, true, true, true, true, true, true, false];

fn open(device: &MemoryDevice, seed: u64, has: &[bool; FEATURES]) -> Tab {
    let (mut tab, damage) =
        Tab::open_as(device, seed, &Release::of(has, Policy::Overwrite, true), Limits::default())
            .expect("a store");
    assert!(!damage.any());
    settle(&mut tab);
    tab
}

/// A tab of the older release that leads, and one of the newer.
fn two(device: &MemoryDevice) -> [Tab; 2] {
    let mut older = open(device, 1, &OLDER);
    lead(&mut older);
    [older, open(device, 2, &NEWER)]
}

fn write(tab: &mut Tab, number: usize, name: &str, args: Value, after: Vec<String>) {
    tab.machine.check_write(name, &args).expect("this release knows it");
    tab.feed(
        Event::Write(Write { id: id(number), name: name.to_owned(), args, touches: vec![], after }),
        NOW,
    );
    settle(tab);
}

fn note() -> Value {
    let data = Value::from([("book", "b".into()), ("page", "1".into())]);
    Value::from([("class", "Note".into()), ("data", data)])
}

fn sized(args: Value) -> Value {
    let Value::Map(mut args) = args else { panic!("a map") };
    if let Some(Value::Map(data)) = args.get_mut("data") {
        data.insert("size".to_owned(), Value::from(7));
    }
    Value::Map(args)
}

/// The server answers all that a leader asks.
fn serve(server: &mut ModelServer, leader: &mut Tab) {
    for round in 1..4 {
        let now = NOW + round * 1_000;
        leader.feed(Event::Woke, now);
        while let Some((number, request)) = leader.sent.take() {
            let (results, _) = server.operate(0, &request, (0, now), &mut || false);
            let told = server.tell_now(0, now);
            let reply = Ok(server.reply(&request, results, told));
            leader.feed(Event::Replied { number, reply }, now);
            settle(leader);
        }
    }
}

/// The older release said that the class was unknown, in the name of a server that was never asked. The write was gone.
#[test]
fn a_write_that_the_leader_does_not_understand_rests_until_one_leads_that_does() {
    let local = {
        let data = Value::from([("id", "draft".into())]);
        Value::from([("class", LOCAL.into()), ("data", data)])
    };
    let part = |args: Value| Value::from([("name", "doc.put".into()), ("args", args)]);
    let batch = Value::from([("ops", Value::Array(vec![part(put(false)), part(note())]))]);
    let changes = [("doc.put", note()), ("doc.put", local), ("doc.put", sized(put(false))), ("batch", batch)];
    for (what, args) in changes {
        let device = MemoryDevice::shared();
        let [mut older, mut newer] = two(&device);
        write(&mut newer, 0, what, args, vec![]);
        assert!(newer.saved.contains(&id(0)), "on the device");
        poll(&mut older);
        poll(&mut newer);
        assert!(
            older.machine.operations().is_empty() && !newer.ended.contains_key(&id(0)),
            "nobody judges it"
        );
        // All tabs end, and one of the older release leads for a while.
        drop((older, newer));
        let mut older = open(&device, 3, &OLDER);
        older.tasks.push_back(Task::TakeOver);
        settle(&mut older);
        assert!(older.machine.is_following(), "it has stepped down");
        drop(older);
        let mut newer = open(&device, 4, &NEWER);
        lead(&mut newer);
        let mut server = ModelServer::new(Habits::of(80), 1, NOW);
        serve(&mut server, &mut newer);
        assert_eq!(newer.ended.get(&id(0)).map(|end| end.is_ok()), Some(true), "{what}");
        assert!(newer.deletes_of(Table::Inbox) == 0 && newer.machine.operations().is_empty());
    }
}

/// It steps down once for each such request: perhaps no other tab understands it either.
#[test]
fn a_leader_steps_down_once_for_what_it_does_not_understand() {
    let device = MemoryDevice::shared();
    let [mut older, mut newer] = two(&device);
    write(&mut newer, 0, "doc.put", note(), vec![]);
    poll(&mut older);
    assert!(older.machine.is_following(), "the next tab in the queue may understand it");
    lead(&mut older);
    poll(&mut older);
    assert!(!older.machine.is_following(), "it has the lead again: no other tab took it");
    newer.feed(Event::Subscribe(Def::class_of(&name("Note"))), NOW);
    settle(&mut newer);
    poll(&mut older);
    assert!(older.machine.is_following(), "a subscription is a request too");
    lead(&mut newer);
    assert_eq!(newer.machine.operations().len(), 1);
    assert!(newer.machine.memory().collection(&Def::class_of(&name("Note"))).is_some());
}

/// Otherwise the server would meet it before the one that it depends on.
#[test]
fn what_depends_on_a_write_that_rests_waits_for_it() {
    let after = |number: usize| vec![id(number)];
    let expecting = |number: usize| {
        let Value::Map(mut args) = put(false) else { panic!("a map") };
        args.insert("ifVersion".to_owned(), Value::from([("op", Value::String(id(number)))]));
        Value::Map(args)
    };
    let dependent = [(put(false), after(0)), (put(false), vec![]), (expecting(0), vec![])];
    for (args, after) in dependent {
        let device = MemoryDevice::shared();
        let [mut older, mut newer] = two(&device);
        write(&mut newer, 0, "doc.put", sized(put(false)), vec![]);
        write(&mut newer, 1, "doc.put", args, after);
        let other = Value::from([("class", "Doc".into()), ("data", Value::from([("id", "other".into())]))]);
        write(&mut newer, 2, "doc.put", other, vec![]);
        poll(&mut older);
        lead(&mut older);
        let ids: Vec<_> =
            older.machine.operations().iter().map(|(op, _)| op.state.issued.id.clone()).collect();
        assert_eq!(ids, [id(2)]);
        lead(&mut newer);
        settle(&mut newer);
        let ids: Vec<_> =
            newer.machine.operations().iter().map(|(op, _)| op.state.issued.id.clone()).collect();
        assert_eq!(ids.iter().filter(|op| **op != id(2)).collect::<Vec<_>>(), [&id(0), &id(1)]);
    }
}

/// The older release failed the new operation, and the application of the newer one knew it as saved.
#[test]
fn an_amendment_that_the_leader_does_not_understand_rests_too() {
    let device = MemoryDevice::shared();
    let [mut older, mut newer] = two(&device);
    let mut server = ModelServer::new(Habits::of(80), 1, NOW);
    write(&mut newer, 0, "doc.put", put(true), vec![]);
    poll(&mut older);
    serve(&mut server, &mut older);
    poll(&mut newer);
    newer.feed(Event::Amend { id: id(0), new: id(1), args: Some(sized(put(false))) }, NOW + 5_000);
    settle(&mut newer);
    poll(&mut older);
    assert!(older.machine.is_following() && !newer.ended.contains_key(&id(1)));
    lead(&mut newer);
    serve(&mut server, &mut newer);
    assert_eq!(newer.ended.get(&id(1)).map(|end| end.is_ok()), Some(true));
}

/// Two releases that differ in `conflicts` alone. The policy of the leading one judged the other's writes: it replaced the
/// work of others without a word, where the release that wrote would have merged.
#[test]
fn r92_the_policy_of_the_release_that_issued_a_write_judges_it() {
    let data = |of: &[(&str, i64)]| -> BTreeMap<String, Value> {
        let id = ("id".to_owned(), Value::from("id1"));
        of.iter().map(|(name, n)| ((*name).to_owned(), Value::from(*n))).chain([id]).collect()
    };
    let before = data(&[("a", 0), ("b", 0), ("c", 0)]);
    let (mine, theirs) = (data(&[("a", 1), ("b", 0), ("c", 0)]), data(&[("a", 0), ("b", 2), ("c", 2)]));
    let merged = Some(data(&[("a", 1), ("b", 2), ("c", 2)]));
    let cases = [
        (Policy::Client, Policy::Merge, &merged),
        (Policy::Overwrite, Policy::Merge, &merged),
        (Policy::Server, Policy::Custom, &None),
        (Policy::Merge, Policy::Ask, &None),
        (Policy::Merge, Policy::Overwrite, &Some(mine.clone())),
        (Policy::Server, Policy::Client, &Some(mine.clone())),
        (Policy::Client, Policy::Server, &Some(theirs.clone())),
    ];
    for (leads, issues, end) in cases {
        let device = MemoryDevice::shared();
        let open = |seed: u64, policy: Policy| {
            let mut tab = Tab::open(&device, seed, policy, Limits::default());
            settle(&mut tab);
            tab
        };
        let mut leader = open(1, leads);
        lead(&mut leader);
        let mut server = ModelServer::new(Habits::of(80), 1, NOW);
        let key = key(1);
        let write_there = |server: &mut ModelServer, data: &BTreeMap<String, Value>| {
            let v = server.db.highest.max(server.db.promised_now).max(NOW) + 1;
            server.db.write(v, &[ServerWrite::Put { key: key.clone(), data: data.clone(), max_life: None }]);
        };
        write_there(&mut server, &before);
        leader.feed(Event::Subscribe(Def::class_of(&name("Doc"))), NOW);
        settle(&mut leader);
        serve(&mut server, &mut leader);
        let mut follower = open(2, issues);
        write_there(&mut server, &theirs);
        let put = Value::from([("class", "Doc".into()), ("data", Value::Map(mine.clone()))]);
        write(&mut follower, 0, "doc.put", put, vec![]);
        poll(&mut leader);
        // A policy may issue it again, and again.
        for _ in 0..3 {
            serve(&mut server, &mut leader);
        }
        let is_refused = leader.machine.operations().iter().any(|(op, _)| op.state.refused.is_some());
        assert_eq!(is_refused, end.is_none(), "{leads:?} leads, {issues:?} issued");
        let there = server.db.living(&key).expect("it is there");
        assert_eq!(there, end.as_ref().unwrap_or(&theirs), "{leads:?} leads, {issues:?} issued");
    }
}

/// The policies stayed with an operation that another release amends. That one's own policy said whether the amendment expects a
/// version: the work of others was replaced without a word.
#[test]
fn r92_an_amendment_by_another_release_is_still_judged_by_the_policy_of_the_first() {
    let device = MemoryDevice::shared();
    let open = |seed: u64, policy: Policy| {
        let mut tab = Tab::open(&device, seed, policy, Limits::default());
        settle(&mut tab);
        tab
    };
    let mut leader = open(1, Policy::Overwrite);
    lead(&mut leader);
    let mut server = ModelServer::new(Habits::of(80), 1, NOW);
    leader.feed(Event::Subscribe(Def::class_of(&name("Doc"))), NOW);
    settle(&mut leader);
    serve(&mut server, &mut leader);
    write(&mut open(2, Policy::Merge), 0, "doc.put", put(true), vec![]);
    poll(&mut leader);
    serve(&mut server, &mut leader);
    assert!(leader.machine.refused_op(&id(0)).is_ok());
    leader.feed(Event::Amend { id: id(0), new: id(1), args: Some(put(false)) }, NOW);
    let [(op, _)] = leader.machine.operations()[..] else { panic!("one operation") };
    assert_eq!(op.state.issued.policies, Some(BTreeMap::from([("Doc".to_owned(), "merge".into())])));
    assert!(op.changes.iter().flatten().all(|change| change.if_version.is_some()), "it expects a version");
}

/// The policies of a refused batch stay with its amendment. A class that the batch did not name was not among them: the amendment
/// replaced the work of others there without a word.
#[test]
fn r92_an_amendment_expects_a_version_in_each_class_that_it_names() {
    let device = MemoryDevice::shared();
    let mut tab = Tab::open(&device, 1, Policy::Merge, Limits::default());
    settle(&mut tab);
    lead(&mut tab);
    let mut server = ModelServer::new(Habits::of(80), 1, NOW);
    for class in ["Doc", "Note"] {
        tab.feed(Event::Subscribe(Def::class_of(&name(class))), NOW);
    }
    settle(&mut tab);
    serve(&mut server, &mut tab);
    let batch = |parts: Vec<Value>| {
        let part = |args: Value| Value::from([("name", "doc.put".into()), ("args", args)]);
        Value::from([("ops", Value::Array(parts.into_iter().map(part).collect()))])
    };
    write(&mut tab, 0, "batch", batch(vec![put(true)]), vec![]);
    serve(&mut server, &mut tab);
    assert!(tab.machine.refused_op(&id(0)).is_ok());
    let args = batch(vec![put(false), note()]);
    tab.feed(Event::Amend { id: id(0), new: id(1), args: Some(args) }, NOW);
    let [(op, _)] = tab.machine.operations()[..] else { panic!("one operation") };
    let changes: Vec<_> = op.changes.iter().flatten().collect();
    assert_eq!(changes.len(), 2);
    assert!(changes.iter().all(|change| change.if_version.is_some()), "{changes:?}");
}

/// Its session opens over a store of an older release, whose tab leads. The driver takes the lead for it.
#[test]
fn a_session_that_knows_more_than_the_leader_is_ahead_of_it() {
    let device = MemoryDevice::shared();
    let less = [false, false, true, false, false, true, true, false];
    let mut older = open(&device, 1, &less);
    lead(&mut older);
    let mut newer = open(&device, 2, &NEWER);
    assert!(newer.machine.is_ahead() && !older.machine.is_ahead());
    lead(&mut newer);
    assert!(!newer.machine.is_ahead(), "it leads");
    assert!(!open(&device, 3, &less).machine.is_ahead() && !open(&device, 4, &NEWER).machine.is_ahead());
    let device = MemoryDevice::shared();
    lead(&mut open(&device, 5, &[true, false, true, true, true, true, true, false]));
    let mut other = NEWER;
    other[2] = false;
    assert!(!open(&device, 6, &other).machine.is_ahead(), "each knows what the other does not");
}

/// The system has no random bytes for a while, and a leader must make an id. A write that was saved failed with that.
#[test]
fn a_saved_write_outlives_a_leader_without_random_bytes() {
    let device = MemoryDevice::shared();
    let mut leader = open(&device, 1, &NEWER);
    lead(&mut leader);
    let mut follower = open(&device, 2, &NEWER);
    let local = |key: &str| {
        let args = Value::from([("class", LOCAL.into()), ("data", Value::from([("id", key.into())]))]);
        Value::from([("name", "doc.put".into()), ("args", args)])
    };
    let two = Value::from([("ops", Value::Array(vec![local("a"), local("b")]))]);
    write(&mut follower, 0, "batch", two, vec![]);
    leader.lacks_random.set(true);
    poll(&mut leader);
    poll(&mut follower);
    assert_eq!(
        follower.ended.get(&id(0)).map(|end| end.clone().map_err(|e| e.code())),
        None::<Result<_, Code>>
    );
    leader.lacks_random.set(false);
    poll(&mut leader);
    poll(&mut follower);
    assert_eq!(follower.ended.get(&id(0)).map(|end| end.is_ok()), Some(true));
}

/// The newer release wrote with no network, and the application was rolled back. Its store was refused, and the cure was a
/// wipe.
#[test]
fn an_application_that_is_rolled_back_sends_what_waits() {
    let device = MemoryDevice::shared();
    let mut newer = open(&device, 1, &[true; FEATURES]);
    lead(&mut newer);
    for (number, args) in [note(), put(false)].into_iter().enumerate() {
        write(&mut newer, number, "doc.put", args, vec![]);
    }
    drop(newer);
    let mut older = open(&device, 2, &OLDER);
    lead(&mut older);
    assert_eq!(older.machine.status().pending, 2);
    let mut server = ModelServer::new(Habits::of(80), 1, NOW);
    serve(&mut server, &mut older);
    let executed: Vec<_> = server.db.operations.executed.iter().map(|(_, id)| id.clone()).collect();
    assert_eq!(executed, [id(0), id(1)]);
    assert_eq!(older.machine.status().pending, 0);
}
