//! Decisions and requests of a leader that was deposed before it had written them; and batches, readings and
//! openings of the store that fail.

use escale::Code;
use escale::journal::{Policy, Retention};
use escale::memory::Content;
use escale::model::{Def, Value};
use escale::store::MemoryDevice;
use escale::sync::{Event, TabEvent, Write};

use super::ends::{Play, id, open as open_tab, put};
use super::inbox::{FULL, document, issue_twice, whole};
use super::regressions::{NOW, lead, open, open_with, poll, settle};
use super::tab::{Fault, LOCAL, Tab, Task};
use super::told::Told;
use escale_testkit::client::Call;
use escale_testkit::schema::name;

fn ids(tab: &Tab) -> Vec<String> {
    tab.machine.operations().iter().map(|(op, _)| op.state.issued.id.clone()).collect()
}

/// Carries out one request to the device, and passes the answer on.
fn step(tab: &mut Tab, fault: Option<Fault>) {
    tab.work(fault);
    let event = tab.arrived.pop_front().expect("an answer");
    tab.feed(event, NOW);
}

/// The server refuses the operation of a leader, which has not written that yet.
fn receive_refusal(play: &mut Play) {
    while play.leader.machine.refused_op(&id(0)).is_err() {
        play.now += 1_000;
        play.leader.feed(Event::Woke, play.now);
        let Some((number, request)) = play.leader.sent.take() else { continue };
        let reply = Ok(play.answer(&request));
        play.leader.feed(Event::Replied { number, reply }, play.now);
    }
}

/// A tab discarded a refused operation, and led before its request was written. It was deposed before it had
/// written the effect: nobody has discarded the operation, and both tabs show it.
#[test]
fn a_discard_that_a_deposed_leader_could_not_write_is_undone() {
    let mut play = Play::new(256 << 10);
    play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
    poll(&mut play.follower);
    play.follower.feed(Event::Discard(id(0)), NOW);
    step(&mut play.follower, Some(FULL));
    play.follower.tasks.push_back(Task::TakeOver);
    while play.follower.machine.is_following() {
        step(&mut play.follower, None);
    }
    assert_eq!(ids(&play.follower), Vec::<String>::new());
    lead(&mut play.leader);
    settle(&mut play.follower);
    assert!(play.follower.machine.is_following());
    for tab in [&mut play.leader, &mut play.follower] {
        poll(tab);
        assert_eq!(ids(tab), [id(0)]);
    }
}

/// A leader was deposed before it had written a refusal, and its application discarded the operation. It led again,
/// and waited for the server to refuse the operation once more. The next leader carries the discard out.
#[test]
fn a_decision_that_waited_for_a_refusal_is_asked_of_the_next_leader() {
    let mut play = Play::new(256 << 10);
    receive_refusal(&mut play);
    play.leader.feed(Event::Tab(TabEvent::Depose), NOW);
    while !play.leader.machine.is_following() {
        step(&mut play.leader, Some(FULL));
    }
    play.leader.feed(Event::Discard(id(0)), NOW);
    while let Some(task) = play.leader.tasks.front() {
        let fault = matches!(task, Task::Device(Call::Commit(_))).then_some(FULL);
        step(&mut play.leader, fault);
    }
    lead(&mut play.leader);
    assert_eq!(ids(&play.leader), [id(0)], "the discard waits");
    lead(&mut play.follower);
    poll(&mut play.leader);
    assert!(play.leader.machine.is_following());
    play.leader.feed(Event::Woke, NOW + 60_000);
    settle(&mut play.leader);
    poll(&mut play.follower);
    std::mem::swap(&mut play.leader, &mut play.follower);
    play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
    poll(&mut play.leader);
    poll(&mut play.follower);
    assert!(ids(&play.leader).is_empty() && ids(&play.follower).is_empty());
}

/// A leader took operations from the inbox and was deposed before it had written them. Their request was on the
/// device: once it is gone from there, they are over.
#[test]
fn operations_of_the_inbox_are_over_for_a_deposed_leader_once_their_request_is_gone() {
    let mut play = Play::new(256 << 10);
    play.leader.feed(Event::Subscribe(whole()), NOW);
    play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
    play.leader.feed(Event::Discard(id(0)), NOW);
    settle(&mut play.leader);
    poll(&mut play.follower);
    let both = issue_twice(&mut play.follower);
    settle(&mut play.follower);
    play.leader.feed(Event::Tab(TabEvent::Poll), NOW);
    step(&mut play.leader, None);
    assert_eq!(ids(&play.leader), both);
    lead(&mut play.follower);
    std::mem::swap(&mut play.leader, &mut play.follower);
    play.until(|leader| leader.machine.operations().is_empty());
    play.leader.feed(Event::Sweep { ticket: 2, retention: Retention::Count(1), apply: true }, play.now);
    settle(&mut play.leader);
    settle(&mut play.follower);
    assert!(play.follower.machine.is_following());
    assert_eq!(ids(&play.follower), Vec::<String>::new());
}

/// The system has no random bytes: nothing can be sealed. The batch is written later.
#[test]
fn what_could_not_be_sealed_is_written_once_it_can() {
    for leads in [true, false] {
        let device = MemoryDevice::shared();
        let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
        lead(&mut leader);
        let tab = if leads { &mut leader } else { &mut follower };
        tab.feed(Event::Subscribe(document(1)), NOW);
        settle(tab);
        tab.lacks_random.set(true);
        let id = super::copy::issue(tab, 5);
        settle(tab);
        assert!(!tab.saved.contains(&id));
        assert!(tab.machine.status().error.is_some(), "leads: {leads}");
        tab.lacks_random.set(false);
        tab.feed(Event::Woke, NOW + 60_000);
        settle(tab);
        assert!(tab.saved.contains(&id), "leads: {leads}");
        poll(&mut leader);
        assert_eq!(ids(&open(&device, 3)), [id]);
    }
}

/// The handle of the store is dead, and the store cannot be opened again: each reading that waits for it is answered.
#[test]
fn a_history_is_answered_although_the_store_cannot_be_opened_again() {
    let mut play = Play::new(256 << 10);
    let tab = &mut play.leader;
    let closed = Fault { code: Code::StorageClosed, is_written: false };
    tab.feed(Event::History { ticket: 3, key: (0, escale_testkit::schema::key(1).1) }, NOW);
    assert!(matches!(tab.tasks.front(), Some(Task::Device(Call::Journal { .. }))));
    step(tab, Some(closed));
    assert!(tab.past.is_empty(), "it waits for the next handle");
    assert!(matches!(tab.tasks.front(), Some(Task::Device(Call::Reopen(_)))));
    step(tab, Some(closed));
    let ends: Vec<_> = tab.past.iter().map(|past| past.as_ref().map_err(escale::Error::code)).collect();
    assert_eq!(ends, [Err(Code::StorageClosed)]);
}

/// A tab followed when it had the store opened again, and led when the answer came. Another tab had replaced the records that
/// it expected. It took the store for a wiped one, wrote it again, and the documents at rest had to come from the server again.
#[test]
fn r14_a_store_is_not_judged_by_what_a_follower_expected_of_it() {
    let mut play = Play::new(1);
    let put = |size: i64| Write {
        id: id(4),
        name: "doc.put".to_owned(),
        args: Value::from([
            ("class", "Doc".into()),
            ("data", Value::from([("id", Value::from("id4")), ("size", size.into())])),
        ]),
        touches: Vec::new(),
        after: Vec::new(),
    };
    play.leader.feed(Event::Subscribe(Def::class_of(&name("Doc"))), NOW);
    play.leader.feed(Event::Write(put(7)), NOW);
    play.until(|leader| {
        leader.ended.contains_key(&id(4)) && leader.machine.memory().documents().count() == 1
    });
    poll(&mut play.follower);
    let closed = Fault { code: Code::StorageClosed, is_written: false };
    play.follower.feed(Event::Tab(TabEvent::Poll), NOW);
    step(&mut play.follower, Some(closed));
    assert!(matches!(play.follower.tasks.front(), Some(Task::Device(Call::Reopen(_)))));
    // With logs this short, these batches replace the records before them.
    for number in 5..60 {
        super::copy::issue(&mut play.leader, number);
        settle(&mut play.leader);
    }
    play.follower.work(None);
    let answer = play.follower.arrived.pop_front().expect("an answer");
    assert!(matches!(&answer, Event::Reopened(Ok(found)) if !found.is_whole));
    lead(&mut play.follower);
    play.follower.feed(answer, NOW);
    settle(&mut play.follower);
    let tab = open(&play.device, 9);
    let content = tab.machine.memory().documents().map(|(_, document)| document.content.clone()).next();
    assert!(matches!(content, Some(Content::AtRest)), "{content:?}");
}

/// A leader has taken in another tab's amendment of an operation that its own application issued, and has not written it.
fn take_in_an_amendment(play: &mut Play) {
    play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
    poll(&mut play.follower);
    play.follower.feed(Event::Amend { id: id(0), new: id(1), args: Some(put(false)) }, NOW);
    settle(&mut play.follower);
    play.leader.feed(Event::Tab(TabEvent::Poll), NOW);
    step(&mut play.leader, None);
    assert_eq!(ids(&play.leader), [id(1)]);
}

/// The reports to the application of a tab on the end of the first operation.
fn ends(tab: &Tab) -> Vec<Told> {
    let told = tab.told.all().filter(|(of, told)| *of == id(0) && told.is_end());
    told.map(|(_, told)| told.clone()).collect()
}

/// The deposed leader took the amendment for one of its own application: that one waited for ever for the end.
#[test]
fn an_application_learns_of_an_amendment_that_its_leader_took_in_and_could_not_write() {
    let mut play = Play::new(256 << 10);
    take_in_an_amendment(&mut play);
    play.follower.tasks.push_back(Task::TakeOver);
    play.follower.work(None);
    // It reads the state of before the amendment.
    settle(&mut play.leader);
    assert!(play.leader.machine.is_following());
    settle(&mut play.follower);
    poll(&mut play.leader);
    assert_eq!(ends(&play.leader), [Told::Amended(id(1))]);
}

/// Another tab discarded the operation and led next. The deposed leader reported the amendment, the others the discard.
#[test]
fn a_deposed_leader_tells_the_decision_that_the_next_leader_wrote() {
    let mut play = Play::new(256 << 10);
    let mut third = open_tab(&play.device, 3, 256 << 10);
    take_in_an_amendment(&mut play);
    poll(&mut third);
    third.feed(Event::Discard(id(0)), NOW);
    step(&mut third, Some(FULL));
    third.tasks.push_back(Task::TakeOver);
    while third.machine.is_following() {
        step(&mut third, None);
    }
    settle(&mut third);
    settle(&mut play.leader);
    poll(&mut play.leader);
    assert_eq!(ends(&play.leader), [Told::Ended(Err(Code::NotUnique))]);
}

/// The leader took in another tab's batch with a local part, was deposed before it had written that, and led again. It had
/// forgotten whose the batch was, and judged it by the policy of its own release.
#[test]
fn r92_a_deposed_leader_does_not_judge_what_it_had_taken_in_by_its_own_policy() {
    let local = Value::from([("class", LOCAL.into()), ("data", Value::from([("id", "draft".into())]))]);
    let part = |args: Value| Value::from([("name", "doc.put".into()), ("args", args)]);
    let args = Value::from([("ops", Value::Array(vec![part(put(false)), part(local)]))]);
    let device = MemoryDevice::shared();
    let mut leader = open_with(&device, 1, Policy::Merge);
    lead(&mut leader);
    let mut follower = open(&device, 2);
    let (name, touches, after) = ("batch".to_owned(), Vec::new(), Vec::new());
    follower.feed(Event::Write(Write { id: id(0), name, args, touches, after }), NOW);
    settle(&mut follower);
    leader.feed(Event::Tab(TabEvent::Poll), NOW);
    step(&mut leader, None);
    leader.feed(Event::Tab(TabEvent::Depose), NOW);
    while !leader.machine.is_following() {
        step(&mut leader, Some(FULL));
    }
    settle(&mut leader);
    lead(&mut leader);
    let [(op, _)] = leader.machine.operations()[..] else { panic!("one operation") };
    let expected = op.changes.iter().flatten().find_map(|change| change.if_version.clone());
    assert_eq!((&op.state.issued.policies, expected), (&None, None));
}
