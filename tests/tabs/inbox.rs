//! The inbox, by hand: requests that the leader cannot carry out, or not yet, and the follower's own commands.

use escale::codec::{Data, Fault as Refusal};
use escale::crypto::SeededRandom;
use escale::journal::{Issued, OpId, Request, Retention, Wanted};
use escale::model::{Def, Value};
use escale::store::conformance::block_on;
use escale::store::{MemoryDevice, RecordKey, Store, Table};
use escale::sync::{Event, Mode, Phase, TabEvent, Write};
use escale::{Code, Error, Kind};

use super::ends::{Play, id, put};
use super::regressions::{NOW, lead, open, poll, settle};
use super::tab::{Fault, LOCAL, Tab, Task, store_name};
use escale_testkit::client::Call;
use escale_testkit::schema::{key, name};

pub const FULL: Fault = Fault { code: Code::StorageFull, is_written: false };

pub fn whole() -> Def {
    Def::class_of(&name("Doc"))
}

pub fn document(number: usize) -> Def {
    Def::document(&name("Doc"), &key(number).1)
}

/// Two operations on one document.
pub fn issue_twice(tab: &mut Tab) -> [OpId; 2] {
    let first = super::copy::issue(tab, 5);
    let second = "0190b3c4-0000-7000-8000-0000000000f0".to_owned();
    let set = Value::from([("size", Value::from(1_i64))]);
    let key = Value::Array(vec![Value::from("id5")]);
    let args = Value::from([("class", "Doc".into()), ("key", key), ("set", set)]);
    let (name, touches, after) = ("doc.patch".to_owned(), Vec::new(), Vec::new());
    tab.feed(Event::Write(Write { id: second.clone(), name, args, touches, after }), NOW);
    [first, second]
}

/// A tab hands in a request that its machine would not make.
fn hand_in(tab: &Tab, number: u8, wanted: Wanted) -> RecordKey {
    hand_in_at(tab, number, NOW, wanted)
}

fn hand_in_at(tab: &Tab, number: u8, stamp: u64, wanted: Wanted) -> RecordKey {
    let key = RecordKey([number; 16]);
    let request = Request { stamp, wanted, phase: None };
    let layout = tab.machine.layout().expect("a device");
    let random = &mut SeededRandom::new(u64::from(number));
    let batch = layout.hand_in(&[(key, request)], random).expect("sealed");
    block_on(tab.store.commit(batch)).expect("handed in");
    key
}

fn requests(tab: &Tab) -> Vec<RecordKey> {
    let found = block_on(tab.store.scan(Table::Inbox, None, 100)).expect("read");
    found.into_iter().map(|(key, _)| key).collect()
}

fn ids(tab: &Tab) -> Vec<OpId> {
    tab.machine.operations().iter().map(|(op, _)| op.state.issued.id.clone()).collect()
}

fn write(id: OpId, class: &str) -> Issued {
    let args = Value::from([("class", class.into()), ("data", Value::from([("id", Value::from("id1"))]))]);
    let (name, at) = ("doc.put".to_owned(), NOW);
    let (touches, after) = (Vec::new(), Vec::new());
    Issued {
        id,
        name,
        args,
        at,
        touches,
        after,
        base: None,
        bases: Vec::new(),
        insists: Vec::new(),
        policies: None,
    }
}

#[test]
fn a_request_that_cannot_be_opened_is_told_and_deleted() {
    let device = MemoryDevice::shared();
    let (mut leader, follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    let [damaged, good] = [document(1), document(2)];
    let damaged = hand_in(&follower, 1, Wanted::Subscribe(damaged));
    hand_in(&follower, 2, Wanted::Subscribe(good.clone()));
    device
        .tamper(&store_name(), |records| records.get_mut(&(Table::Inbox, damaged)).expect("there")[20] ^= 1);
    poll(&mut leader);
    assert!(leader.machine.status().error.is_some(), "told");
    assert_eq!(requests(&leader), [], "neither is read again");
    let defs: Vec<&Def> = leader.machine.memory().collections().map(|(def, _)| def).collect();
    assert_eq!(defs, [&good]);
}

/// A tab changed a local document that another one had deleted.
#[test]
fn an_operation_that_the_leader_cannot_issue_is_refused_and_taken_once() {
    let device = MemoryDevice::shared();
    let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    poll(&mut follower);
    let (key, set) = (Value::Array(vec!["gone".into()]), Value::from([("a", Value::from(1))]));
    let args = Value::from([("class", LOCAL.into()), ("key", key), ("set", set)]);
    let patch = Issued { name: "doc.patch".into(), args, touches: vec![], ..write(id(1), "Doc") };
    hand_in(&follower, 1, Wanted::Write(patch));
    poll(&mut leader);
    let end = leader.ended.get(&id(1)).map(|end| end.as_ref().map_err(Error::code).copied());
    assert!(matches!(end, Some(Err(Code::NotFound))), "{end:?}");
    assert_eq!((ids(&leader), requests(&leader)), (vec![], vec![]));
    // Its outcome is stored: the same request again changes nothing.
    hand_in(&follower, 2, Wanted::Write(write(id(1), "Doc")));
    poll(&mut leader);
    assert_eq!((ids(&leader), requests(&leader)), (vec![], vec![]));
}

/// The leader sends an operation with everything that its own tab had noted with it.
#[test]
fn an_operation_keeps_what_its_tab_has_noted_with_it() {
    let device = MemoryDevice::shared();
    let (mut leader, follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    let data = |n: i64| Data::from_map(&[("size".to_owned(), Value::from(n))].into()).expect("data");
    let bases = vec![(name("Doc"), key(2).1, data(2))];
    let wanted = Issued { base: Some(data(1)), bases, insists: vec![7], ..write(id(1), "Doc") };
    hand_in(&follower, 1, Wanted::Write(Issued { at: NOW - 5, ..wanted.clone() }));
    poll(&mut leader);
    let operations = leader.machine.operations();
    let issued = &operations[0].0.state.issued;
    let noted = (issued.at, &issued.base, &issued.bases, &issued.insists);
    assert_eq!(noted, (NOW - 5, &wanted.base, &wanted.bases, &wanted.insists));
}

/// Requests count in the order of their stamps, and not of their keys. The batch that deletes them may fail.
#[test]
fn requests_are_carried_out_in_order_and_deleted_although_a_batch_fails() {
    let device = MemoryDevice::shared();
    let (mut leader, follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    hand_in_at(&follower, 1, NOW + 2, Wanted::Subscribe(whole()));
    hand_in_at(&follower, 2, NOW + 1, Wanted::Unsubscribe(whole()));
    hand_in_at(&follower, 3, NOW + 3, Wanted::Unsubscribe(document(1)));
    leader.feed(Event::Tab(TabEvent::Poll), NOW);
    leader.work(None);
    let event = leader.arrived.pop_front().expect("the inbox");
    leader.feed(event, NOW);
    leader.work(Some(FULL));
    settle(&mut leader);
    assert!(leader.machine.memory().collection(&whole()).is_some());
    assert_eq!(requests(&leader).len(), 3);
    leader.feed(Event::Woke, NOW + 60_000);
    settle(&mut leader);
    assert_eq!(requests(&leader), []);
}

/// A lease that a follower's application gives is that of the store, and so is the one that makes it permanent.
#[test]
fn a_followers_lease_is_the_stores() {
    let device = MemoryDevice::shared();
    let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    follower.feed(Event::Subscribe(whole()), NOW);
    for lease in [7, 8, 0] {
        follower.feed(Event::Lease(whole(), lease), NOW);
        // The same once more is no request.
        follower.feed(Event::Lease(whole(), lease), NOW);
        settle(&mut follower);
        poll(&mut leader);
        assert_eq!(leader.machine.memory().collection(&whole()).map(|held| held.lease), Some(lease));
        assert_eq!(requests(&leader), []);
        let reader = open(&device, 3);
        assert_eq!(reader.machine.memory().collection(&whole()).map(|held| held.lease), Some(lease));
    }
}

/// A follower reports the actions that a sweep would remove as far as it knows, and asks the leader for it.
#[test]
fn a_followers_sweep_is_carried_out_by_the_leader() {
    for apply in [false, true] {
        let mut play = Play::new(256 << 10);
        play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
        play.leader.feed(Event::Discard(id(0)), play.now);
        issue_twice(&mut play.leader);
        settle(&mut play.leader);
        play.until(|leader| leader.machine.operations().is_empty());
        poll(&mut play.follower);
        let records = |tab: &Tab| block_on(tab.store.scan(Table::Journal, None, 100)).expect("read").len();
        let before = records(&play.leader);
        play.follower.feed(Event::Sweep { ticket: 2, retention: Retention::Count(1), apply }, play.now);
        settle(&mut play.follower);
        assert!(matches!(play.follower.swept[..], [Ok(())]), "{:?}", play.follower.swept);
        assert_eq!(requests(&play.leader).len(), usize::from(apply));
        poll(&mut play.leader);
        assert_eq!(records(&play.leader) < before, apply);
        assert_eq!(requests(&play.leader), []);
        // The follower reads no record that it knows to be gone.
        poll(&mut play.follower);
        play.follower.feed(Event::History { ticket: 3, key: (0, key(5).1) }, play.now);
        let Some(Task::Device(Call::Journal { keys, .. })) = play.follower.tasks.front() else {
            panic!("records are read")
        };
        assert_eq!(keys.len(), if apply { 1 } else { 2 });
    }
}

/// A leader learned of a refusal and did not write it. The decision that a follower made about it waits until the
/// server has refused the operation again.
#[test]
fn a_decision_about_an_operation_that_is_not_refused_yet_waits_for_the_refusal() {
    for amends in [false, true] {
        let mut play = Play::new(256 << 10);
        let wanted = if amends {
            Wanted::Amend { id: id(0), new: id(1), args: Some(put(false)) }
        } else {
            Wanted::Discard(id(0))
        };
        hand_in(&play.follower, 1, wanted);
        for _ in 0..2 {
            poll(&mut play.leader);
            assert_eq!(ids(&play.leader), [id(0)]);
            assert_eq!(requests(&play.leader).len(), 1, "it stays there");
        }
        play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
        poll(&mut play.leader);
        assert_eq!(ids(&play.leader), if amends { vec![id(1)] } else { Vec::new() });
        assert_eq!(requests(&play.leader), []);
        play.until(|leader| leader.machine.operations().is_empty());
    }
}

/// The leader's application gave a command while a follower's earlier one was still to be read.
#[test]
fn the_leaders_own_command_holds_against_an_earlier_one_in_the_inbox() {
    for is_begun in [false, true] {
        let device = MemoryDevice::shared();
        let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
        lead(&mut leader);
        let command = |begins: bool| {
            if begins { Event::Subscribe(whole()) } else { Event::Unsubscribe(whole()) }
        };
        leader.feed(command(is_begun), NOW);
        settle(&mut leader);
        poll(&mut follower);
        follower.feed(command(!is_begun), NOW + 5);
        settle(&mut follower);
        leader.feed(Event::Tab(TabEvent::Poll), NOW + 6);
        leader.feed(command(is_begun), NOW + 7);
        settle(&mut leader);
        assert_eq!(leader.machine.memory().collection(&whole()).is_some(), is_begun);
        assert_eq!(requests(&leader), []);
        // A request of a later time counts again.
        follower.feed(command(is_begun), NOW + 8);
        follower.feed(command(!is_begun), NOW + 9);
        settle(&mut follower);
        poll(&mut leader);
        assert_eq!(leader.machine.memory().collection(&whole()).is_some(), !is_begun);
    }
}

/// The device takes the request of a written operation out of the inbox once, with the first record.
#[test]
fn a_request_is_deleted_once() {
    let mut play = Play::new(256 << 10);
    // It is refused, and its record written again.
    let refused = Issued { args: put(true), ..write(id(2), "Doc") };
    hand_in(&play.follower, 1, Wanted::Write(refused));
    poll(&mut play.leader);
    assert_eq!((ids(&play.leader).len(), requests(&play.leader)), (2, vec![]));
    let mut deletes = 0;
    while !play.leader.machine.operations().is_empty() {
        play.now += 1_000;
        play.leader.feed(Event::Woke, play.now);
        let refused: Vec<OpId> =
            ids(&play.leader).into_iter().filter(|id| play.leader.machine.refused_op(id).is_ok()).collect();
        refused.into_iter().for_each(|id| play.leader.feed(Event::Discard(id), play.now));
        deletes += play.leader.deletes_of(Table::Inbox);
        settle(&mut play.leader);
        let Some((number, request)) = play.leader.sent.take() else { continue };
        let reply = play.answer(&request);
        play.leader.feed(Event::Replied { number, reply: Ok(reply) }, play.now);
        deletes += play.leader.deletes_of(Table::Inbox);
        settle(&mut play.leader);
    }
    assert_eq!(deletes, 0);
}

#[test]
fn a_follower_is_at_rest_once_all_its_commands_are_handed_in() {
    let device = MemoryDevice::shared();
    let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    poll(&mut follower);
    let is_at_rest = |tab: &Tab| tab.machine.is_at_rest().map_err(|error| error.code());
    assert_eq!(is_at_rest(&follower), Ok(true));
    follower.feed(Event::Subscribe(document(1)), NOW);
    assert_eq!(is_at_rest(&follower), Ok(false), "it is being handed in");
    // The next one waits for the batch in flight.
    follower.feed(Event::Subscribe(document(2)), NOW);
    follower.work(None);
    let event = follower.arrived.pop_front().expect("an answer");
    follower.feed(event, NOW);
    assert_eq!(is_at_rest(&follower), Ok(false));
    settle(&mut follower);
    assert_eq!(is_at_rest(&follower), Ok(true));
    super::copy::issue(&mut follower, 1);
    assert_eq!(is_at_rest(&follower), Ok(false));
    follower.feed(Event::Subscribe(document(3)), NOW);
    follower.work(Some(FULL));
    let event = follower.arrived.pop_front().expect("an answer");
    follower.feed(event, NOW);
    assert_eq!(is_at_rest(&follower), Err(Code::StorageFull));
    follower.feed(Event::Woke, NOW + 60_000);
    settle(&mut follower);
    assert_eq!(is_at_rest(&follower), Ok(true));
}

/// The application then learns in each tab that a collection cannot come.
#[test]
fn a_follower_shows_the_defs_that_the_server_refuses_to_the_leader() {
    let device = MemoryDevice::shared();
    let mut tab = open(&device, 1);
    let def: Def = "Doc".parse().expect("a def");
    tab.feed(Event::Subscribe(def.clone()), NOW);
    let fault =
        Refusal { code: "no_such_shelf".into(), kind: Kind::A, ..Refusal::new(Code::UnknownDef, "said") };
    tab.feed(Event::Tab(TabEvent::Refused(vec![(def.clone(), fault)], 2, Some("admin"))), NOW);
    let faults = tab.machine.status().faults;
    let told: Vec<_> = faults.iter().map(|(def, error)| (def, error.name(), error.detail())).collect();
    assert_eq!(told, [(&def, "no_such_shelf", "said")]);
    tab.feed(Event::Tab(TabEvent::Refused(Vec::new(), 0, None)), NOW);
    assert!(tab.machine.status().faults.is_empty());
}

/// The leader's report no longer counts once the mode has changed.
#[test]
fn a_follower_shows_the_leaders_phase_until_the_mode_changes() {
    let device = MemoryDevice::shared();
    let mut tab = open(&device, 1);
    tab.feed(Event::Tab(TabEvent::Heard(Phase::Live)), NOW);
    assert_eq!(tab.machine.status().phase, Phase::Live);
    for (mode, phase) in [(Mode::Avion, Phase::Avion), (Mode::Synced, Phase::Opening)] {
        tab.feed(Event::SetMode(mode), NOW);
        assert_eq!((tab.machine.status().mode, tab.machine.status().phase), (mode, phase));
    }
}
