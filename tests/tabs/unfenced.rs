//! Leaders without a generation: the device takes none for a while.

use escale::Code;
use escale::store::MemoryDevice;
use escale::sync::{Event, StorageState, TabEvent};

use super::inbox::{FULL, document};
use super::regressions::{NOW, lead, open, poll, settle};
use super::roles::{begin, holds};
use super::tab::{Tab, Task};
use escale_testkit::client::Call;

/// The device takes no generation of the tab.
fn fail_to_lead(tab: &mut Tab) {
    tab.tasks.push_back(Task::TakeOver);
    while !matches!(tab.tasks.front(), Some(Task::TakeOver)) {
        tab.work(None);
    }
    tab.work(Some(FULL));
    settle(tab);
}

/// The device takes no generation of a tab that has nothing else to do. The tab has not read the state yet.
fn refuse_generation(tab: &mut Tab) {
    tab.tasks.push_back(Task::TakeOver);
    tab.work(Some(FULL));
    let failed = tab.arrived.pop_front().expect("an answer");
    tab.feed(failed, NOW);
    assert_eq!(tab.machine.status().storage, StorageState::Full);
}

/// The device takes no generation twice. It is a leader without one all the time, and reads the
/// changes that another tab has written in between.
#[test]
fn a_leader_without_a_generation_reads_what_a_later_one_wrote() {
    let device = MemoryDevice::shared();
    let (mut first, mut second) = (open(&device, 1), open(&device, 2));
    fail_to_lead(&mut first);
    assert!(first.machine.is_unfenced() && !first.machine.is_following());
    first.feed(Event::Subscribe(document(3)), NOW);
    fail_to_lead(&mut first);
    assert!(first.machine.is_unfenced() && !first.machine.is_following() && holds(&first, 3));
    lead(&mut second);
    second.feed(Event::Subscribe(document(1)), NOW);
    settle(&mut second);
    fail_to_lead(&mut first);
    assert!(first.machine.is_unfenced() && !first.machine.is_following());
    assert!(holds(&first, 1), "it is read first");
    assert!(holds(&first, 3), "its own command stays");
    assert_eq!(first.machine.status().storage, StorageState::Full);
    assert!(!holds(&open(&device, 3), 3), "nothing is written");
    lead(&mut first);
    settle(&mut first);
    assert!(!first.machine.is_unfenced() && holds(&open(&device, 3), 3));
    assert_eq!(first.machine.status().storage, StorageState::Ok);
}

/// The device took no generation, and takes one before the tab leads: the failure is over.
#[test]
fn a_tab_whose_generation_begins_before_it_leads_without_one_is_well() {
    let device = MemoryDevice::shared();
    let mut tab = open(&device, 1);
    refuse_generation(&mut tab);
    let event = begin(&mut tab);
    tab.feed(event, NOW);
    assert_eq!(tab.machine.status().storage, StorageState::Ok, "before it has read or written anything");
    settle(&mut tab);
    assert!(!tab.machine.is_following() && !tab.machine.is_unfenced());
    assert_eq!(tab.machine.status().storage, StorageState::Ok);
}

/// The device took no generation of this tab, and then one of another tab: the failure is over.
#[test]
fn a_tab_that_gives_up_leading_without_a_generation_is_well() {
    let device = MemoryDevice::shared();
    let (mut first, mut second) = (open(&device, 1), open(&device, 2));
    lead(&mut second);
    second.feed(Event::Subscribe(document(1)), NOW);
    settle(&mut second);
    poll(&mut first);
    refuse_generation(&mut first);
    assert!(
        first.machine.is_unfenced() && matches!(first.tasks.front(), Some(Task::Device(Call::State { .. })))
    );
    lead(&mut second);
    settle(&mut first);
    assert!(first.machine.is_following() && !first.machine.is_unfenced());
    assert_eq!(first.machine.status().storage, StorageState::Ok);
}

/// A leader with a generation has nothing to do with the failure of another one.
#[test]
fn a_leader_with_a_generation_goes_on_although_the_device_takes_no_other() {
    let device = MemoryDevice::shared();
    let mut tab = open(&device, 1);
    lead(&mut tab);
    fail_to_lead(&mut tab);
    assert!(!tab.machine.is_unfenced() && !tab.machine.is_following());
    assert_eq!(tab.machine.status().storage, StorageState::Ok);
    assert!(tab.machine.last_mark().is_ok());
}

/// The generation has begun, and the device could not be read: whether another tab has written stays unknown.
#[test]
fn a_leader_that_cannot_read_whether_another_one_wrote_stays_without_a_generation() {
    let device = MemoryDevice::shared();
    let mut tab = open(&device, 1);
    fail_to_lead(&mut tab);
    tab.feed(Event::Subscribe(document(1)), NOW);
    let event = begin(&mut tab);
    tab.feed(event, NOW);
    tab.work(Some(FULL));
    settle(&mut tab);
    assert!(tab.machine.is_unfenced() && !tab.machine.is_following());
    let status = tab.machine.status();
    assert_eq!(
        (status.storage, status.error.map(|error| error.code())),
        (StorageState::Full, Some(Code::StorageFull))
    );
    // The answer to an earlier poll says nothing.
    tab.feed(Event::Tab(TabEvent::Polled { number: 1, found: Ok(Vec::new()) }), NOW);
    assert!(tab.machine.is_unfenced() && !tab.machine.is_following());
    assert!(!tab.machine.is_about_to_lead());
    lead(&mut tab);
    settle(&mut tab);
    assert!(!tab.machine.is_unfenced() && holds(&open(&device, 2), 1));
}
