//! Findings of the histories, played by hand.

use std::collections::BTreeMap;

use escale::Code;
use escale::crypto::SeededRandom;
use escale::journal::{Policy, Request, Signal, Wanted};
use escale::model::{Def, Value};
use escale::storage::Limits;
use escale::store::conformance::block_on;
use escale::store::{MemoryDevice, RecordKey, Store, Table};
use escale::sync::{Event, Mode, Phase, StorageState, TabEvent, Write};

use super::tab::{Fault, Tab, Task};
use escale_testkit::client::Call;
use escale_testkit::schema::name;
use escale_testkit::server::{Habits, ModelServer};

pub const NOW: u64 = 1_700_000_000_000;

pub fn open(device: &MemoryDevice, seed: u64) -> Tab {
    open_with(device, seed, Policy::Overwrite)
}

pub fn open_with(device: &MemoryDevice, seed: u64, policy: Policy) -> Tab {
    let mut tab = Tab::open(device, seed, policy, Limits::default());
    settle(&mut tab);
    tab
}

/// Carries out every request of a tab to the device.
pub fn settle(tab: &mut Tab) {
    while !(tab.tasks.is_empty() && tab.arrived.is_empty()) {
        while tab.work(None) {}
        if let Some(event) = tab.arrived.pop_front() {
            tab.feed(event, NOW);
        }
    }
}

pub fn lead(tab: &mut Tab) {
    tab.tasks.push_back(Task::TakeOver);
    settle(tab);
    assert!(!tab.machine.is_following() && !tab.machine.is_about_to_lead());
}

pub fn poll(tab: &mut Tab) {
    tab.feed(Event::Tab(TabEvent::Poll), NOW);
    settle(tab);
}

fn subscribe(tab: &mut Tab, def: &Def) {
    tab.feed(Event::Subscribe(def.clone()), NOW);
}

/// A tab began a generation, and learned of it only after another tab had begun the next one. With nothing to
/// write it never met the fence, and led for ever in parallel with the other tab, without that tab's
/// subscriptions. The same happened to a tab that had led and thawed.
#[test]
fn a_leader_with_nothing_to_write_finds_a_later_generation() {
    for leads_before in [false, true] {
        let device = MemoryDevice::shared();
        let (mut first, mut second) = (open(&device, 1), open(&device, 2));
        first.tasks.push_back(Task::TakeOver);
        first.work(None);
        if leads_before {
            settle(&mut first);
        }
        lead(&mut second);
        settle(&mut first);
        assert_eq!(first.machine.is_following(), !leads_before);
        let def = Def::class_of(&name("Doc"));
        subscribe(&mut second, &def);
        settle(&mut second);
        poll(&mut first);
        assert!(first.machine.is_following() && !second.machine.is_following());
        assert!(first.machine.memory().collection(&def).is_some());
    }
}

/// A leader's commit was reported as failed, but was written. The leader wrote another record under the same
/// number. A tab that had read the first record missed the additions of the second.
#[test]
fn a_record_written_twice_under_one_number_is_followed() {
    let device = MemoryDevice::shared();
    let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    let (whole, section) =
        (Def::class_of(&name("Doc")), Def::document(&name("Doc"), &escale_testkit::schema::key(1).1));
    subscribe(&mut leader, &whole);
    let fault = Fault { code: Code::StorageFailed, is_written: true };
    assert!(leader.work(Some(fault)), "told to have failed, and written");
    poll(&mut follower);
    assert!(follower.machine.memory().collection(&whole).is_some(), "it has read that record");
    subscribe(&mut leader, &section);
    settle(&mut leader);
    leader.feed(Event::Woke, NOW + 60_000);
    settle(&mut leader);
    poll(&mut follower);
    assert!(follower.machine.memory().collection(&section).is_some());
}

/// A version expected by a follower's session may be resolved by its policy in the leading tab too. A version
/// expected by its application may not.
#[test]
fn a_leader_knows_which_versions_a_followers_application_expects() {
    for expects in [false, true] {
        let device = MemoryDevice::shared();
        let (mut leader, mut follower) =
            (open_with(&device, 1, Policy::Client), open_with(&device, 2, Policy::Client));
        lead(&mut leader);
        poll(&mut follower);
        let mut args = BTreeMap::from([
            ("class".to_owned(), Value::from("Doc")),
            ("data".to_owned(), Value::from([("id", Value::from("id0"))])),
        ]);
        args.extend(expects.then(|| ("ifVersion".to_owned(), Value::from(0_i64))));
        let (id, name) = ("0190b3c4-0000-7000-8000-000000000001".to_owned(), "doc.put".to_owned());
        let (args, touches, after) = (Value::Map(args), Vec::new(), Vec::new());
        follower.feed(Event::Write(Write { id, name, args, touches, after }), NOW);
        settle(&mut follower);
        poll(&mut leader);
        let [(op, _)] = leader.machine.operations()[..] else { panic!("taken in") };
        assert!(op.expected().next().is_some(), "the session expects a version in any case");
        assert_eq!(op.state.issued.insists, if expects { vec![0] } else { Vec::new() });
    }
}

/// A tab with a newer schema sent a command about a class that the leader does not know. Commands of other
/// tabs from the same time, reported as saved, were never carried out while that leader led.
#[test]
fn a_request_that_cannot_be_carried_out_holds_up_no_other() {
    let device = MemoryDevice::shared();
    let (mut leader, follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    let (unknown, known) = (Def::class_of(&name("Unknown")), Def::class_of(&name("Doc")));
    let request = |n: u8, def: &Def| {
        let wanted = Wanted::Subscribe(def.clone());
        (RecordKey([n; 16]), Request { stamp: u64::from(n), wanted, phase: None })
    };
    let rest = follower.machine.layout().expect("a device");
    let random = &mut SeededRandom::new(3);
    let batch = rest.hand_in(&[request(1, &unknown), request(2, &known)], random).expect("sealed");
    block_on(follower.store.commit(batch)).expect("handed in");
    poll(&mut leader);
    assert!(leader.machine.memory().collection(&known).is_some());
}

/// A device had no room for another generation. A tab that opened there waited for a leader for ever,
/// reported nothing, and never asked the server.
#[test]
fn a_device_that_takes_no_generation_is_told_and_led_in_memory() {
    let device = MemoryDevice::shared();
    let mut tab = open(&device, 1);
    tab.tasks.push_back(Task::TakeOver);
    tab.work(Some(Fault { code: Code::StorageFull, is_written: false }));
    settle(&mut tab);
    let def = Def::class_of(&name("Doc"));
    subscribe(&mut tab, &def);
    settle(&mut tab);
    let status = tab.machine.status();
    assert!(status.leads && tab.machine.is_unfenced());
    assert!(tab.sent.is_some(), "the server is asked");
    assert_eq!(status.storage, StorageState::Full);
    assert_eq!(status.error.expect("told").code(), Code::StorageFull);
    assert_eq!(tab.machine.is_at_rest().expect_err("nothing is written").code(), Code::StorageFull);
    let id = super::copy::issue(&mut tab, 1);
    settle(&mut tab);
    assert!(!tab.saved.contains(&id));
    // Nobody has written meanwhile: the memory stays, and is written.
    tab.tasks.push_back(Task::TakeOver);
    while !tab.saved.contains(&id) {
        assert!(!tab.machine.is_following() && tab.machine.memory().collection(&def).is_some());
        assert!(tab.work(None) || !tab.arrived.is_empty(), "it is saved in the end");
        while let Some(event) = tab.arrived.pop_front() {
            tab.feed(event, NOW);
        }
    }
    settle(&mut tab);
    assert!(!tab.machine.is_unfenced());
    assert_eq!((tab.machine.status().storage, tab.machine.is_at_rest().ok()), (StorageState::Ok, Some(true)));
    drop(tab);
    assert!(open(&device, 2).machine.memory().collection(&def).is_some());
}

/// The same, but an earlier leader thaws and writes before the generation begins. The stored state wins, and
/// the operations written here are written again.
#[test]
fn what_was_written_while_a_device_took_no_generation_is_read_first() {
    let device = MemoryDevice::shared();
    let (mut first, mut second) = (open(&device, 1), open(&device, 2));
    lead(&mut first);
    second.tasks.push_back(Task::TakeOver);
    second.work(Some(Fault { code: Code::StorageFull, is_written: false }));
    settle(&mut second);
    assert!(second.machine.is_unfenced());
    let def = Def::class_of(&name("Doc"));
    subscribe(&mut first, &def);
    settle(&mut first);
    let id = super::copy::issue(&mut second, 1);
    settle(&mut second);
    assert!(second.machine.memory().collection(&def).is_none() && !second.saved.contains(&id));
    lead(&mut second);
    settle(&mut second);
    assert!(second.machine.memory().collection(&def).is_some() && second.saved.contains(&id));
    poll(&mut first);
    assert!(first.machine.is_following());
}

/// A follower's subscription goes to the inbox. If the follower leads before another leader has written it, it writes it
/// itself: the process may end before the server answers.
#[test]
fn a_subscription_of_a_follower_is_stored_once_it_leads() {
    for is_handed_in in [false, true] {
        let device = MemoryDevice::shared();
        let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
        lead(&mut leader);
        // Once there are records, a batch adds its changes to them.
        subscribe(&mut leader, &Def::document(&name("Doc"), &escale_testkit::schema::key(1).1));
        settle(&mut leader);
        drop(leader);
        poll(&mut follower);
        let def = Def::class_of(&name("Doc"));
        if is_handed_in {
            subscribe(&mut follower, &def);
            settle(&mut follower);
            lead(&mut follower);
        } else {
            follower.tasks.push_back(Task::TakeOver);
            follower.work(None);
            subscribe(&mut follower, &def);
            settle(&mut follower);
        }
        assert!(!follower.machine.is_following() && follower.machine.memory().collection(&def).is_some());
        drop(follower);
        let reopened = open(&device, 3);
        assert!(reopened.machine.memory().collection(&def).is_some(), "handed in: {is_handed_in}");
        let requests = block_on(reopened.store.scan(Table::Inbox, None, 10)).expect("read");
        assert!(requests.is_empty(), "the inbox is not needed for it");
    }
}

/// Until the new leader reports its phase, a deposed session shows the phase of its own mode.
#[test]
fn a_deposed_session_shows_its_mode_until_its_leader_speaks() {
    for (mode, phase) in [(Mode::Synced, Phase::Opening), (Mode::Avion, Phase::Avion)] {
        let device = MemoryDevice::shared();
        let mut tab = open(&device, 1);
        tab.feed(Event::Tab(TabEvent::Heard(Phase::Live)), NOW);
        lead(&mut tab);
        tab.feed(Event::SetMode(mode), NOW);
        settle(&mut tab);
        tab.feed(Event::Tab(TabEvent::Depose), NOW);
        settle(&mut tab);
        assert!(tab.machine.is_following());
        assert_eq!(tab.machine.status().phase, phase);
    }
}

/// A follower whose device could not be read looks again a second later, once. If that fails as well, it waits again.
#[test]
fn a_follower_that_could_not_read_looks_again_at_its_time_and_once() {
    let device = MemoryDevice::shared();
    let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    poll(&mut follower);
    let def = Def::class_of(&name("Doc"));
    subscribe(&mut leader, &def);
    settle(&mut leader);
    let fault = Fault { code: Code::StorageFailed, is_written: false };
    let mut now = NOW;
    follower.feed(Event::Tab(TabEvent::Poll), now);
    for _ in 0..3 {
        follower.work(Some(fault));
        let event = follower.arrived.pop_front().expect("an answer");
        follower.feed(event, now);
        assert!(follower.tasks.is_empty());
        let at = follower.wake_at.expect("it looks again");
        assert!(at > now && at <= now + 1_000);
        follower.feed(Event::Woke, at - 1);
        assert!(follower.tasks.is_empty(), "not yet");
        now = at;
        follower.feed(Event::Woke, now);
        assert_eq!(follower.tasks.len(), 1);
        follower.feed(Event::Woke, now);
        assert_eq!(follower.tasks.len(), 1, "once");
    }
    follower.work(None);
    let event = follower.arrived.pop_front().expect("an answer");
    follower.feed(event, now);
    assert!(follower.machine.memory().collection(&def).is_some());
}

/// All sessions can open a signal, under its own key only. A beat holds the leader's phase.
#[test]
fn what_a_session_says_to_all_is_opened_by_all() {
    let device = MemoryDevice::shared();
    let (mut leader, follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    for signal in [Signal::Lock, Signal::Wipe, Signal::Synced, Signal::Avion, Signal::Beat] {
        let batch = leader.machine.signal(signal).expect("a device");
        assert_eq!(batch.generation.is_some(), signal == Signal::Beat, "only the beat is the leader's");
        let [beat, word] = follower.machine.signal_keys().expect("a device");
        let (own, other) = if signal == Signal::Beat { (beat, word) } else { (word, beat) };
        let [(Table::Inbox, key, sealed)] = &batch.puts[..] else { panic!("one record in the inbox") };
        assert_eq!(*key, own);
        assert_eq!(follower.machine.open_signal(own, sealed), Some(signal));
        assert_eq!(follower.machine.open_signal(other, sealed), None, "in its own place alone");
        let phase = (signal == Signal::Beat).then(|| leader.machine.status().phase);
        assert_eq!(follower.machine.open_beat(own, sealed), phase);
    }
}

/// A follower's decision about a refused operation is shown in its own tab at once, and by the leader once it has read it.
#[test]
fn a_followers_decision_is_shown_at_once() {
    for amends in [false, true] {
        let device = MemoryDevice::shared();
        let mut server = ModelServer::new(Habits::of(80), 1, NOW);
        let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
        lead(&mut leader);
        let mut data = BTreeMap::from([("id".to_owned(), Value::from("id1"))]);
        data.insert("poison".to_owned(), true.into());
        let put = |data| Value::from([("class", "Doc".into()), ("data", Value::Map(data))]);
        let id = "0190b3c4-0000-7000-8000-000000000001".to_owned();
        let (name, touches, after) = ("doc.put".to_owned(), Vec::new(), Vec::new());
        leader
            .feed(Event::Write(Write { id: id.clone(), name, args: put(data.clone()), touches, after }), NOW);
        settle(&mut leader);
        let mut now = NOW;
        while leader.machine.refused_op(&id).is_err() {
            now += 1_000;
            leader.feed(Event::Woke, now);
            let Some((number, request)) = leader.sent.take() else { continue };
            let (results, _) = server.operate(0, &request, (0, now), &mut || false);
            let told = server.tell_now(0, now);
            let reply = Ok(server.reply(&request, results, told));
            leader.feed(Event::Replied { number, reply }, now);
            settle(&mut leader);
        }
        poll(&mut follower);
        assert!(follower.machine.refused_op(&id).is_ok());
        data.remove("poison");
        let new = "0190b3c4-0000-7000-8000-000000000002".to_owned();
        let (decision, left) = if amends {
            (Event::Amend { id: id.clone(), new: new.clone(), args: Some(put(data)) }, vec![new])
        } else {
            (Event::Discard(id.clone()), Vec::new())
        };
        follower.feed(decision, now);
        let ids = |tab: &Tab| -> Vec<String> {
            tab.machine.operations().iter().map(|(op, _)| op.state.issued.id.clone()).collect()
        };
        assert_eq!(ids(&follower), left, "at once");
        settle(&mut follower);
        // Read as a whole, or by the log, before the leader has seen to it.
        poll(&mut follower);
        assert_eq!(ids(&follower), left);
        poll(&mut leader);
        assert_eq!(ids(&leader), left);
        poll(&mut follower);
        assert_eq!(ids(&follower), left);
    }
}

/// A leader failed to store its changes. Once it is deposed, it no longer shows that failure: the next leader stores them.
#[test]
fn a_deposed_leaders_full_device_is_forgotten() {
    let device = MemoryDevice::shared();
    let mut tab = open(&device, 1);
    lead(&mut tab);
    subscribe(&mut tab, &Def::class_of(&name("Doc")));
    tab.work(Some(Fault { code: Code::StorageFull, is_written: false }));
    let event = tab.arrived.pop_front().expect("an answer");
    tab.feed(event, NOW);
    let status = tab.machine.status();
    assert_eq!(
        (status.storage, status.error.map(|error| error.code())),
        (StorageState::Full, Some(Code::StorageFull))
    );
    tab.feed(Event::Tab(TabEvent::Depose), NOW);
    let status = tab.machine.status();
    assert_eq!((status.storage, status.error), (StorageState::Ok, None));
    assert!(
        tab.tasks.iter().any(|task| matches!(task, Task::Device(Call::Commit(_)))),
        "what it wants is handed in at once"
    );
}

/// A follower that could not hand anything in says so until it could.
#[test]
fn a_followers_full_device_is_seen_until_it_takes_something() {
    let device = MemoryDevice::shared();
    let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    poll(&mut follower);
    let id = super::copy::issue(&mut follower, 1);
    let mut now = NOW;
    for failures in 1..4 {
        follower.work(Some(Fault { code: Code::StorageFull, is_written: false }));
        let event = follower.arrived.pop_front().expect("an answer");
        follower.feed(event, now);
        let status = follower.machine.status();
        assert_eq!(
            (status.storage, status.error.map(|error| error.code())),
            (StorageState::Full, Some(Code::StorageFull))
        );
        assert!(follower.tasks.is_empty() && !follower.saved.contains(&id));
        let at = follower.wake_at.expect("it is tried again");
        assert!(
            at >= now + (500 << failures) && at <= now + 31_000,
            "later each time: {failures}, {} ms",
            at - now
        );
        now = at;
        follower.feed(Event::Woke, now);
    }
    settle(&mut follower);
    let status = follower.machine.status();
    assert_eq!((status.storage, status.error), (StorageState::Ok, None));
    assert!(follower.saved.contains(&id));
}

/// A follower reads the records that were added, and not the whole state, for as long as the log goes on.
#[test]
fn a_follower_goes_on_by_the_log() {
    let device = MemoryDevice::shared();
    let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    subscribe(&mut leader, &Def::class_of(&name("Doc")));
    settle(&mut leader);
    poll(&mut follower);
    for number in 0..5 {
        let def = Def::document(&name("Doc"), &escale_testkit::schema::key(number).1);
        subscribe(&mut leader, &def);
        settle(&mut leader);
        follower.feed(Event::Tab(TabEvent::Poll), NOW);
        while !(follower.tasks.is_empty() && follower.arrived.is_empty()) {
            assert!(
                !matches!(follower.tasks.front(), Some(Task::Device(Call::State { .. }))),
                "record {number} is next in the log"
            );
            follower.work(None);
            while let Some(event) = follower.arrived.pop_front() {
                follower.feed(event, NOW);
            }
        }
        assert!(follower.machine.memory().collection(&def).is_some());
    }
}
