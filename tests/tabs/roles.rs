//! The changes of a tab's role, by hand: with a device that takes no generation, and with unwritten commands.

use escale::journal::Retention;
use escale::model::Value;
use escale::store::{MemoryDevice, Table};
use escale::sync::{Event, TabEvent, Write};
use escale::{Code, Error};

use super::ends::{Play, id, put};
use super::inbox::{FULL, document, issue_twice, whole};
use super::regressions::{NOW, lead, open, poll, settle};
use super::tab::{Fault, Tab, Task};
use escale_testkit::client::Call;

/// Begins a generation, and returns the event that says so.
pub fn begin(tab: &mut Tab) -> Event {
    tab.tasks.push_front(Task::TakeOver);
    tab.work(None);
    tab.arrived.pop_back().expect("a generation")
}

pub fn holds(tab: &Tab, number: usize) -> bool {
    tab.machine.memory().collection(&document(number)).is_some()
}

#[test]
fn a_leader_that_takes_over_again_goes_on_leading() {
    let device = MemoryDevice::shared();
    let mut tab = open(&device, 1);
    lead(&mut tab);
    tab.feed(Event::Subscribe(document(1)), NOW);
    settle(&mut tab);
    let before = tab.machine.generation().expect("it leads");
    let event = begin(&mut tab);
    tab.feed(event, NOW);
    assert!(!tab.machine.is_following(), "nobody has led in between");
    assert_eq!(tab.machine.generation(), Some(before + 1));
    // It writes in that generation.
    tab.feed(Event::Subscribe(document(2)), NOW);
    settle(&mut tab);
    assert!(!tab.machine.is_following() && holds(&open(&device, 2), 2));
}

/// A leader ended a subscription, and another one led before that was written: it becomes a command to that leader.
#[test]
fn what_a_deposed_leader_had_not_written_is_asked_of_the_next_one() {
    let device = MemoryDevice::shared();
    let (mut first, mut second) = (open(&device, 1), open(&device, 2));
    lead(&mut first);
    [1, 2].into_iter().for_each(|number| first.feed(Event::Subscribe(document(number)), NOW));
    settle(&mut first);
    first.feed(Event::Unsubscribe(document(1)), NOW + 1);
    first.feed(Event::Subscribe(document(3)), NOW + 1);
    first.feed(Event::Sweep { ticket: 2, retention: Retention::Count(1), apply: true }, NOW + 1);
    lead(&mut second);
    settle(&mut first);
    assert!(first.machine.is_following());
    assert_eq!(
        [1, 2, 3].map(|number| holds(&first, number)),
        [false, true, true],
        "as its application wants"
    );
    assert_eq!([1, 2, 3].map(|number| holds(&second, number)), [true, true, false], "not known yet");
    poll(&mut second);
    poll(&mut first);
    for tab in [&first, &second] {
        assert_eq!([1, 2, 3].map(|number| holds(tab, number)), [false, true, true]);
    }
}

/// A tab that follows ended a subscription, and led before another tab had carried that out. The store kept the
/// subscription, so it came back with the next opening.
#[test]
fn a_subscription_that_a_follower_has_ended_ends_in_the_store_once_it_leads() {
    for is_handed_in in [true, false] {
        let device = MemoryDevice::shared();
        let (mut first, mut second) = (open(&device, 1), open(&device, 2));
        lead(&mut first);
        [1, 2].into_iter().for_each(|number| first.feed(Event::Subscribe(document(number)), NOW));
        settle(&mut first);
        poll(&mut second);
        second.feed(Event::Unsubscribe(document(1)), NOW + 1);
        if is_handed_in {
            settle(&mut second);
        }
        lead(&mut second);
        assert_eq!([1, 2].map(|number| holds(&second, number)), [false, true]);
        let next = open(&device, 3);
        assert_eq!([1, 2].map(|number| holds(&next, number)), [false, true], "handed in: {is_handed_in}");
    }
}

/// A sweep in the batch of a deposed leader did not happen. Its application learns so.
#[test]
fn a_sweep_that_a_deposed_leader_could_not_write_is_told_to_have_failed() {
    let mut play = Play::new(256 << 10);
    play.leader.feed(Event::Subscribe(whole()), NOW);
    play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
    play.leader.feed(Event::Discard(id(0)), play.now);
    issue_twice(&mut play.leader);
    settle(&mut play.leader);
    play.until(|leader| leader.machine.operations().is_empty());
    play.leader.feed(Event::Sweep { ticket: 2, retention: Retention::Count(1), apply: true }, play.now);
    while !matches!(play.leader.tasks.front(), Some(Task::Device(Call::Commit(_)))) {
        assert!(!play.leader.tasks.is_empty(), "it is being written");
        play.leader.work(None);
        while let Some(event) = play.leader.arrived.pop_front() {
            play.leader.feed(event, play.now);
        }
    }
    lead(&mut play.follower);
    settle(&mut play.leader);
    assert!(play.leader.machine.is_following());
    let ends: Vec<_> = play.leader.swept.iter().map(|end| end.as_ref().map_err(Error::code)).collect();
    assert_eq!(ends, [Err(Code::Deposed)]);
}

/// A leader carried out another tab's request, and could not write that. It leads again, and dies before it has read
/// the requests: this one is still on the device.
#[test]
fn a_request_that_a_deposed_leader_carried_out_and_did_not_write_stays() {
    let device = MemoryDevice::shared();
    let [mut first, mut second, mut third] = [1, 2, 3].map(|seed| open(&device, seed));
    lead(&mut first);
    second.feed(Event::Subscribe(document(3)), NOW);
    settle(&mut second);
    first.feed(Event::Tab(TabEvent::Poll), NOW);
    first.work(None);
    let requests = first.arrived.pop_front().expect("the inbox");
    first.feed(requests, NOW);
    assert!(holds(&first, 3) && first.deletes_of(Table::Inbox) == 1, "about to be written");
    begin(&mut third);
    settle(&mut first);
    assert!(first.machine.is_following());
    let event = begin(&mut first);
    first.feed(event, NOW);
    while first.machine.is_following() || !first.tasks.is_empty() {
        // It never comes to read the inbox.
        if !matches!(first.tasks.front(), Some(Task::Device(Call::Inbox { .. }))) {
            first.work(None);
        } else {
            first.tasks.pop_front();
            first.feed(Event::Subscribe(document(1)), NOW);
        }
        while let Some(event) = first.arrived.pop_front() {
            first.feed(event, NOW);
        }
    }
    drop((first, second, third));
    let mut next = open(&device, 4);
    lead(&mut next);
    assert_eq!([1, 3].map(|number| holds(&next, number)), [true, true]);
}

/// A leader whose journal has a record of two actions, of which a sweep removes one: it must read that record first.
fn play_with_a_record_of_two() -> Play {
    let mut play = Play::new(256 << 10);
    play.leader.feed(Event::Subscribe(whole()), NOW);
    play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
    play.leader.feed(Event::Discard(id(0)), play.now);
    let put = |id: &str| {
        let args = Value::from([("class", "Doc".into()), ("data", Value::from([("id", Value::from(id))]))]);
        Value::from([("name", "doc.put".into()), ("args", args)])
    };
    let args = Value::from([("ops", Value::Array(vec![put("id5"), put("id6")]))]);
    let (name, touches, after) = ("batch".to_owned(), Vec::new(), Vec::new());
    play.leader.feed(Event::Write(Write { id: id(7), name, args, touches, after }), play.now);
    super::copy::issue(&mut play.leader, 5);
    settle(&mut play.leader);
    play.until(|leader| leader.machine.operations().is_empty());
    play
}

fn sweep(tab: &mut Tab, ticket: u64) {
    tab.feed(Event::Sweep { ticket, retention: Retention::Count(1), apply: true }, NOW);
}

/// Carries out the tasks of a tab except its readings of the journal. Returns those.
fn journal_readings(tab: &mut Tab) -> Vec<Task> {
    let (readings, others): (Vec<_>, Vec<_>) =
        tab.tasks.drain(..).partition(|task| matches!(task, Task::Device(Call::Journal { .. })));
    tab.tasks.extend(others);
    settle(tab);
    readings
}

#[test]
fn a_sweep_begins_once_the_one_before_has_read_its_records() {
    let mut play = play_with_a_record_of_two();
    sweep(&mut play.leader, 2);
    sweep(&mut play.leader, 4);
    let readings = journal_readings(&mut play.leader);
    assert_eq!((readings.len(), play.leader.swept.len()), (1, 0), "the record is read once");
    play.leader.tasks.extend(readings);
    settle(&mut play.leader);
    assert_eq!(play.leader.swept, [Ok(()), Ok(())]);
}

/// A leader was deposed while it read for a sweep. When it leads again, it sweeps again.
#[test]
fn a_leader_deposed_amid_a_sweep_can_sweep_later() {
    let mut play = play_with_a_record_of_two();
    sweep(&mut play.leader, 2);
    let readings = journal_readings(&mut play.leader);
    assert_eq!(readings.len(), 1);
    lead(&mut play.follower);
    play.leader.feed(Event::Tab(TabEvent::Depose), play.now);
    assert_eq!(play.leader.swept.len(), 1, "its application learns of it");
    play.leader.tasks.extend(readings);
    settle(&mut play.leader);
    lead(&mut play.leader);
    sweep(&mut play.leader, 4);
    settle(&mut play.leader);
    let ends: Vec<_> = play.leader.swept.iter().map(|end| end.as_ref().map_err(Error::code)).collect();
    assert_eq!(ends, [Err(Code::Deposed), Ok(&())]);
}

/// A follower's state is the leader's to write.
#[test]
fn a_tab_that_has_followed_has_nothing_to_write() {
    let device = MemoryDevice::shared();
    let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    leader.feed(Event::Subscribe(document(1)), NOW);
    settle(&mut leader);
    poll(&mut follower);
    follower.feed(Event::Subscribe(document(2)), NOW);
    assert!(holds(&follower, 2) && follower.machine.memory().is_clean());
}

/// The device refused a leader's batches, each after a longer delay. When the tab leads again, that no longer counts.
#[test]
fn the_delays_of_a_leader_begin_again_when_it_leads_again() {
    let device = MemoryDevice::shared();
    let (mut first, mut second) = (open(&device, 1), open(&device, 2));
    lead(&mut first);
    let mut now = NOW;
    let mut delay = |tab: &mut Tab| {
        assert!(matches!(tab.tasks.front(), Some(Task::Device(Call::Commit(_)))));
        tab.work(Some(FULL));
        let refused = tab.arrived.pop_front().expect("an answer");
        tab.feed(refused, now);
        let at = tab.wake_at.expect("it tries again");
        let delay = at - now;
        now = at;
        tab.feed(Event::Woke, now);
        delay
    };
    first.feed(Event::Subscribe(document(1)), NOW);
    assert_eq!([delay(&mut first), delay(&mut first)], [1_000, 2_000]);
    lead(&mut second);
    settle(&mut first);
    assert!(first.machine.is_following());
    lead(&mut first);
    first.feed(Event::Subscribe(document(2)), NOW);
    assert_eq!(delay(&mut first), 1_000);
}

/// The browser put back an earlier store while a tab followed. That tab says so once it leads.
#[test]
fn a_tab_that_leads_over_an_earlier_store_tells_what_was_lost() {
    let device = MemoryDevice::shared();
    let (mut first, mut second) = (open(&device, 1), open(&device, 2));
    lead(&mut first);
    first.feed(Event::Subscribe(document(1)), NOW);
    settle(&mut first);
    poll(&mut second);
    let earlier = device.snapshot();
    super::copy::issue(&mut first, 5);
    settle(&mut first);
    device.put_back(&super::tab::store_name(), &earlier);
    drop(first);
    lead(&mut second);
    assert_eq!(second.machine.status().error.map(|error| error.code()), Some(Code::LocalDataLost));
}

/// New operations of a deposed leader come after all others at once: another session writes from now on.
#[test]
fn the_operations_of_a_deposed_leader_come_after_those_of_the_next_one() {
    let device = MemoryDevice::shared();
    let (mut first, mut second) = (open(&device, 1), open(&device, 2));
    lead(&mut first);
    super::copy::issue(&mut first, 1);
    settle(&mut first);
    lead(&mut second);
    first.feed(Event::Tab(TabEvent::Depose), NOW);
    let own = super::copy::issue(&mut first, 2);
    let theirs = super::copy::issue(&mut second, 3);
    settle(&mut second);
    settle(&mut first);
    let last = |tab: &Tab| tab.machine.operations().last().map(|(op, _)| op.state.issued.id.clone());
    assert_eq!((last(&first), last(&second)), (Some(own.clone()), Some(theirs)));
    poll(&mut second);
    poll(&mut first);
    assert_eq!((last(&first), last(&second)), (Some(own.clone()), Some(own)));
}

/// A leader amended a refused operation, and another one led before that was written. The amendment stays alone.
#[test]
fn an_amendment_that_a_deposed_leader_had_not_written_takes_its_place() {
    let mut play = Play::new(256 << 10);
    play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
    let later = super::copy::issue(&mut play.leader, 5);
    settle(&mut play.leader);
    play.leader.feed(Event::Amend { id: id(0), new: id(1), args: Some(put(false)) }, play.now);
    lead(&mut play.follower);
    settle(&mut play.leader);
    let ids = |tab: &Tab| -> Vec<String> {
        tab.machine.operations().iter().map(|(op, _)| op.state.issued.id.clone()).collect()
    };
    assert_eq!(ids(&play.leader), [id(1), later.clone()], "the refused one is shown no more");
    assert_eq!(ids(&play.follower), [id(0), later.clone()], "not known yet");
    poll(&mut play.follower);
    poll(&mut play.leader);
    for tab in [&play.leader, &play.follower] {
        assert_eq!(ids(tab), [id(1), later.clone()]);
    }
}

/// Nothing has been written since the tab opened: it leads with the state that it has.
#[test]
fn a_tab_that_leads_at_once_does_not_read_all_again() {
    let device = MemoryDevice::shared();
    let mut first = open(&device, 1);
    lead(&mut first);
    first.feed(Event::Subscribe(document(1)), NOW);
    settle(&mut first);
    drop(first);
    let mut tab = open(&device, 2);
    tab.tasks.push_back(Task::TakeOver);
    while tab.machine.is_following() {
        assert!(!matches!(tab.tasks.front(), Some(Task::Device(Call::State { .. }))), "the whole state");
        tab.work(None);
        while let Some(event) = tab.arrived.pop_front() {
            tab.feed(event, NOW);
        }
    }
    assert!(holds(&tab, 1));
}

/// A follower's handle of the store is dead: it opens the store again. Once it leads, the failure is over.
#[test]
fn a_follower_with_a_dead_handle_opens_the_store_again() {
    let device = MemoryDevice::shared();
    let mut tab = open(&device, 1);
    tab.feed(Event::Tab(TabEvent::Poll), NOW);
    tab.work(Some(Fault { code: Code::StorageClosed, is_written: false }));
    let event = tab.arrived.pop_front().expect("an answer");
    tab.feed(event, NOW);
    assert!(tab.tasks.iter().any(|task| matches!(task, Task::Device(Call::Reopen(_)))));
    assert_eq!(tab.machine.status().error.map(|error| error.code()), Some(Code::StorageClosed));
    lead(&mut tab);
    assert_eq!(tab.machine.status().error.map(|error| error.code()), None);
}

/// A leader hears of the next one while its batch is in flight: it follows once the batch has ended.
#[test]
fn a_leader_is_deposed_once_its_batch_has_ended() {
    let device = MemoryDevice::shared();
    let mut tab = open(&device, 1);
    lead(&mut tab);
    tab.feed(Event::Subscribe(document(1)), NOW);
    tab.feed(Event::Tab(TabEvent::Depose), NOW);
    assert!(!tab.machine.is_following(), "not yet");
    tab.work(None);
    let event = tab.arrived.pop_front().expect("an answer");
    tab.feed(event, NOW);
    assert!(tab.machine.is_following());
    settle(&mut tab);
    lead(&mut tab);
    tab.feed(Event::Subscribe(document(2)), NOW);
    settle(&mut tab);
    assert!(!tab.machine.is_following(), "the next batch is of another time");
}

/// A tab began to lead while it still read the inbox for an earlier role, and another tab handed in a request. The
/// backup database may have requests that the store lacks: it is read all the same.
#[test]
fn a_tab_that_leads_again_reads_the_copies_of_requests_too() {
    let device = MemoryDevice::shared();
    let mut tab = open(&device, 1);
    lead(&mut tab);
    tab.feed(Event::Tab(TabEvent::Poll), NOW);
    let reading = tab.tasks.pop_front().expect("the inbox is read");
    assert!(matches!(reading, Task::Device(Call::Inbox { with_copies: false })));
    tab.feed(Event::Tab(TabEvent::Depose), NOW);
    lead(&mut tab);
    tab.feed(Event::Tab(TabEvent::Poll), NOW);
    assert!(tab.tasks.is_empty(), "one reading at a time");
    tab.tasks.push_back(reading);
    tab.work(None);
    let event = tab.arrived.pop_front().expect("an answer");
    tab.feed(event, NOW);
    assert!(matches!(tab.tasks.front(), Some(Task::Device(Call::Inbox { with_copies: true }))));
}

/// A tab began a generation, and another tab the next one before the first had read the state.
#[test]
fn a_tab_that_reads_a_later_generation_does_not_lead() {
    let device = MemoryDevice::shared();
    let (mut first, mut second) = (open(&device, 1), open(&device, 2));
    lead(&mut second);
    second.feed(Event::Subscribe(document(1)), NOW);
    settle(&mut second);
    poll(&mut first);
    let event = begin(&mut first);
    first.feed(event, NOW);
    lead(&mut second);
    while !(first.tasks.is_empty() && first.arrived.is_empty()) {
        first.work(None);
        while let Some(event) = first.arrived.pop_front() {
            first.feed(event, NOW);
            assert!(first.machine.is_following(), "not for a moment");
        }
    }
    assert!(!first.machine.is_about_to_lead());
}

/// A tab hears of a later leader while it reads the state: it goes on following.
#[test]
fn a_tab_that_is_about_to_lead_is_deposed_at_once() {
    for fault in [None, Some(FULL)] {
        let device = MemoryDevice::shared();
        let mut tab = open(&device, 1);
        tab.tasks.push_back(Task::TakeOver);
        tab.work(fault);
        let event = tab.arrived.pop_front().expect("an answer");
        tab.feed(event, NOW);
        assert!(tab.machine.is_about_to_lead() && tab.machine.is_following());
        tab.feed(Event::Tab(TabEvent::Depose), NOW);
        assert!(!tab.machine.is_about_to_lead() && !tab.machine.is_unfenced());
        settle(&mut tab);
        assert!(tab.machine.is_following());
    }
}
