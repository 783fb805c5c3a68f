//! The copy in the backup database, which successive leaders write. It always holds every operation that any
//! tab reported as saved, those in the inbox included, whichever of the two databases the browser drops.

use std::collections::{BTreeMap, BTreeSet};

use escale::model::{Def, Value};
use escale::storage::Limits;
use escale::store::MemoryDevice;
use escale::sync::{Event, Write};
use escale::{Code, Error, journal::Policy};

use super::ends::Play;
use super::regressions::{NOW, lead, open, poll, settle};
use super::tab::{Fault, LOCAL, Tab, Task, store_name};
use escale_testkit::client::Call;
use escale_testkit::schema::name;

/// Writes an operation and waits until it is saved. Returns its id.
fn write(tab: &mut Tab, number: u8) -> String {
    let id = issue(tab, number);
    settle(tab);
    assert!(tab.saved.contains(&id), "told to be saved");
    id
}

/// Issues an operation. Returns its id.
pub fn issue(tab: &mut Tab, number: u8) -> String {
    let id = format!("0190b3c4-0000-7000-8000-0000000000{number:02x}");
    let args = Value::Map(BTreeMap::from([
        ("class".to_owned(), Value::from("Doc")),
        ("data".to_owned(), Value::from([("id", Value::from(format!("id{number}").as_str()))])),
    ]));
    let (name, touches, after) = ("doc.put".to_owned(), Vec::new(), Vec::new());
    tab.feed(Event::Write(Write { id: id.clone(), name, args, touches, after }), NOW);
    id
}

/// The browser reported a batch as failed, but had written it. Another tab led for a while. The first tab
/// then leads again and finds its operation in the journal; it was never reported as saved.
#[test]
fn r10_what_was_written_and_said_to_have_failed_is_told_to_be_saved() {
    let device = MemoryDevice::shared();
    let (mut first, mut second) = (open(&device, 1), open(&device, 2));
    lead(&mut first);
    let id = issue(&mut first, 1);
    first.work(Some(Fault { code: Code::StorageFull, is_written: true }));
    let event = first.arrived.pop_front().expect("settled");
    first.feed(event, NOW);
    assert!(!first.saved.contains(&id));
    lead(&mut second);
    lead(&mut first);
    assert_eq!(pending(&first), BTreeSet::from([id.clone()]));
    assert!(first.saved.contains(&id), "told to be saved");
}

/// The same, and the server accepted it while the other tab led: nothing but its outcome is left.
#[test]
fn r10_what_is_over_and_was_said_to_have_failed_is_told_to_be_saved() {
    let mut play = Play::new(256 << 10);
    let id = issue(&mut play.leader, 5);
    play.leader.work(Some(Fault { code: Code::StorageFull, is_written: true }));
    let event = play.leader.arrived.pop_front().expect("settled");
    play.leader.feed(event, play.now);
    assert!(!play.leader.saved.contains(&id));
    lead(&mut play.follower);
    std::mem::swap(&mut play.leader, &mut play.follower);
    play.until(|leader| !pending(leader).contains(&id));
    lead(&mut play.follower);
    assert!(play.follower.saved.contains(&id) && play.follower.ended[&id].is_ok());
}

/// A tab opens the remaining databases, and leads.
fn reopen(device: &MemoryDevice) -> Tab {
    let (mut tab, _) = Tab::open_damaged(device, 9, Policy::Overwrite, Limits::default());
    settle(&mut tab);
    lead(&mut tab);
    tab
}

/// The leader ends after its batch, and before it has taken the requests out of the copy. The next one meets them all a
/// second time: none of them may undo a later write of the same document, however many they are (R29).
#[test]
fn r29_writes_of_a_local_document_that_come_twice_undo_no_later_one() {
    for count in [1, 2, 16, 17, 40] {
        let device = MemoryDevice::shared();
        let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
        lead(&mut leader);
        poll(&mut follower);
        for number in 1..=count {
            let id = format!("0190b3c4-0000-7000-8000-0000000000{number:02x}");
            let data = Value::from([("id", Value::from("draft")), ("a", Value::from(number))]);
            let args = Value::from([("class", LOCAL.into()), ("data", data)]);
            let (name, touches, after) = ("doc.put".to_owned(), Vec::new(), Vec::new());
            follower.feed(Event::Write(Write { id: id.clone(), name, args, touches, after }), NOW);
            settle(&mut follower);
            assert!(follower.saved.contains(&id), "handed in");
        }
        leader.store.hold_backup();
        poll(&mut leader);
        drop((leader, follower));
        let tab = reopen(&device);
        let key = tab.machine.key_of(LOCAL, &["draft"]).expect("a key");
        let found = tab.machine.find(&name(LOCAL), &key.1).expect("the draft");
        let (_, shown) = tab.machine.memory().shown_by_id(found).expect("an overlay");
        let data = shown.data.as_ref().expect("a living document").to_map().expect("a map");
        assert_eq!(data["a"], Value::from(count), "the last of {count}");
    }
}

/// A follower's batch holds a draft that the leader has deleted meanwhile, a new draft and a note. It was handed in, so
/// nothing of it may be lost but the change of the deleted draft (R10, R29).
#[test]
fn r29_a_batch_that_was_handed_in_holds_although_another_tab_deleted_a_draft_of_it() {
    let of = |class: &str, id: &str| {
        Value::from([("class", class.into()), ("data", Value::from([("id", id.into())]))])
    };
    let delete = |id: &str| Value::from([("class", LOCAL.into()), ("key", Value::Array(vec![id.into()]))]);
    let part = |name: &str, args: Value| Value::from([("name", name.into()), ("args", args)]);
    let shows = |tab: &Tab, class: &str, id: &str| {
        let key = tab.machine.key_of(class, &[id]).expect("a key");
        let found = tab.machine.find(&name(class), &key.1);
        found
            .and_then(|id| tab.machine.memory().shown_by_id(id))
            .is_some_and(|(_, shown)| shown.data.is_some())
    };
    let device = MemoryDevice::shared();
    let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    let say = |tab: &mut Tab, number: u8, name: &str, args: Value| {
        let id = format!("0190b3c4-0000-7000-8000-0000000000{number:02x}");
        let (name, touches, after) = (name.to_owned(), Vec::new(), Vec::new());
        tab.feed(Event::Write(Write { id: id.clone(), name, args, touches, after }), NOW);
        settle(tab);
        assert!(tab.saved.contains(&id));
        id
    };
    say(&mut leader, 1, "doc.put", of(LOCAL, "first"));
    poll(&mut follower);
    assert!(shows(&follower, LOCAL, "first"));
    say(&mut leader, 2, "doc.delete", delete("first"));
    let ops = vec![
        part("doc.delete", delete("first")),
        part("doc.put", of(LOCAL, "second")),
        part("doc.put", of("Doc", "note")),
    ];
    let batch = say(&mut follower, 3, "batch", Value::from([("ops", Value::Array(ops))]));
    let alone = say(&mut follower, 4, "doc.delete", delete("first"));
    for _ in 0..3 {
        poll(&mut leader);
        poll(&mut follower);
    }
    assert_eq!(follower.ended[&alone].as_ref().map_err(Error::code), Err(Code::NotFound));
    for tab in [&leader, &follower, &reopen(&device)] {
        assert!(!shows(tab, LOCAL, "first") && shows(tab, LOCAL, "second") && shows(tab, "Doc", "note"));
        assert_eq!(pending(tab), BTreeSet::from([batch.clone()]), "the note is on its way");
    }
    assert!(!follower.ended.contains_key(&batch));
}

fn pending(tab: &Tab) -> BTreeSet<String> {
    tab.machine.operations().iter().map(|(op, _)| op.state.issued.id.clone()).collect()
}

/// A way in which a browser repairs a damaged database that no tab has open.
type Mending = (&'static str, fn(&MemoryDevice));

fn mendings() -> [Mending; 3] {
    [
        ("the store is emptied", |device| device.put_back(&store_name(), &MemoryDevice::new())),
        ("the store is gone", |device| device.vanish(&store_name())),
        ("its backup is gone", |device| device.vanish_backup(&store_name())),
    ]
}

/// When a database is dropped, the inbox still holds the operation of a follower, because no leader has taken
/// it yet.
#[test]
fn r10_what_is_handed_in_outlives_either_database() {
    for (how, mend) in mendings() {
        let device = MemoryDevice::shared();
        let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
        lead(&mut leader);
        poll(&mut follower);
        let own = write(&mut leader, 1);
        drop(leader);
        let handed_in = write(&mut follower, 2);
        drop(follower);
        mend(&device);
        let mut tab = reopen(&device);
        assert_eq!(pending(&tab), BTreeSet::from([own, handed_in]), "{how}");
        // And once more, with an operation written now.
        let third = write(&mut tab, 3);
        drop(tab);
        mend(&device);
        assert_eq!(pending(&reopen(&device)).len(), 3, "{how}, again: {third}");
    }
}

/// A leader's device is recovered while the leader is open. The followers' operations in the inbox were lost
/// with the database before the leader took them.
#[test]
fn r10_what_is_handed_in_outlives_a_store_that_goes_under_its_tabs() {
    let device = MemoryDevice::shared();
    let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    poll(&mut follower);
    let id = write(&mut follower, 1);
    device.put_back(&store_name(), &MemoryDevice::new());
    // The follower comes first, and has nothing to repair.
    for tab in [&mut follower, &mut leader] {
        tab.feed(Event::DeviceClosed(Error::new(Code::StorageClosed, "by the test")), NOW);
        settle(tab);
    }
    assert_eq!(pending(&leader), BTreeSet::from([id.clone()]), "the leader has it from the copy");
    poll(&mut follower);
    assert_eq!(pending(&follower), BTreeSet::from([id]));
    assert!(follower.ended.is_empty(), "nobody is told that it is over");
}

/// A leader is frozen between the write to the store and the write to the copy. Meanwhile another tab leads
/// and goes on, so the first one's write is too late.
#[test]
fn r10_a_leader_that_comes_late_writes_nothing_beside() {
    let device = MemoryDevice::shared();
    let (mut first, mut second) = (open(&device, 1), open(&device, 2));
    lead(&mut first);
    poll(&mut second);
    first.store.hold_backup();
    let late = write(&mut first, 1);
    lead(&mut second);
    let id = write(&mut second, 2);
    first.store.release_backup();
    drop((first, second));
    device.vanish(&store_name());
    assert_eq!(pending(&reopen(&device)), BTreeSet::from([late, id]));
}

/// The same if the next leader ends before it has written anything: the leader after it rewrites the copy.
#[test]
fn r10_a_leader_that_comes_late_finds_the_fence_of_whoever_led_since() {
    let device = MemoryDevice::shared();
    let (mut first, mut second, mut third) = (open(&device, 1), open(&device, 2), open(&device, 3));
    lead(&mut first);
    poll(&mut third);
    first.store.hold_backup();
    let late = write(&mut first, 1);
    second.tasks.push_back(Task::TakeOver);
    second.work(None);
    drop(second);
    lead(&mut third);
    let id = write(&mut third, 2);
    first.store.release_backup();
    drop((first, third));
    device.vanish(&store_name());
    assert_eq!(pending(&reopen(&device)), BTreeSet::from([late, id]));
}

/// A tab led, did not notice that another one led, and began a generation after that one's. It continued from
/// its own state, and overwrote journal records that were reported as saved.
#[test]
fn r10_a_leader_that_begins_again_reads_what_another_wrote() {
    for is_writing in [false, true] {
        let device = MemoryDevice::shared();
        let (mut first, mut second) = (open(&device, 1), open(&device, 2));
        lead(&mut first);
        lead(&mut second);
        let saved = write(&mut second, 1);
        first.tasks.push_back(Task::TakeOver);
        first.work(None);
        if is_writing {
            first.feed(Event::Subscribe(Def::class_of(&name("Doc"))), NOW);
        }
        settle(&mut first);
        assert_eq!(pending(&first), BTreeSet::from([saved.clone()]));
        let own = write(&mut first, 2);
        assert!(!first.machine.is_following());
        drop((first, second));
        assert_eq!(pending(&reopen(&device)), BTreeSet::from([saved, own]));
    }
}

/// A store was made again while its leader was frozen. Generations continued, so that the old leader does not
/// lead in parallel with the new one.
#[test]
fn a_leader_of_a_store_that_began_again_follows() {
    let device = MemoryDevice::shared();
    let mut first = open(&device, 1);
    lead(&mut first);
    let id = write(&mut first, 1);
    device.put_back(&store_name(), &MemoryDevice::new());
    let second = reopen(&device);
    assert!(second.machine.generation() > first.machine.generation());
    first.feed(Event::DeviceClosed(Error::new(Code::StorageClosed, "by the test")), NOW);
    settle(&mut first);
    assert!(first.machine.is_following() && !second.machine.is_following());
    assert_eq!(pending(&first), BTreeSet::from([id]));
}

/// A leader is deposed with a write that it had not stored, and cannot read the whole state. It once continued with the log
/// from the state that it had shown. The other leader's operation took its own operation's position, and that was lost.
#[test]
fn r10_a_deposed_leader_that_cannot_read_the_state_does_not_go_on_without_it() {
    let device = MemoryDevice::shared();
    let (mut first, mut second) = (open(&device, 1), open(&device, 2));
    lead(&mut first);
    settle(&mut first);
    let own = issue(&mut first, 1);
    second.tasks.push_back(Task::TakeOver);
    second.work(None);
    settle(&mut second);
    let theirs = write(&mut second, 2);
    let mut failures = 3;
    while !(first.tasks.is_empty() && first.arrived.is_empty()) {
        let is_reading = matches!(first.tasks.front(), Some(Task::Device(Call::State { .. })));
        let fails = is_reading && failures > 0;
        first.work(fails.then_some(Fault { code: Code::StorageFailed, is_written: false }));
        while let Some(event) = first.arrived.pop_front() {
            first.feed(event, NOW);
        }
        if fails {
            failures -= 1;
            first.feed(Event::Tab(escale::sync::TabEvent::Poll), NOW);
        }
    }
    assert_eq!(failures, 0, "it asks for the whole state each time");
    assert!(first.machine.is_following() && first.saved.contains(&own));
    poll(&mut second);
    for tab in [&mut first, &mut second] {
        poll(tab);
        assert_eq!(pending(tab), BTreeSet::from([own.clone(), theirs.clone()]));
    }
}
