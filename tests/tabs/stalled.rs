//! A follower reads pages that the leader has meanwhile replaced. The readings wait for a poll, and are answered.

use escale::model::Def;
use escale::store::{MemoryDevice, Table};
use escale::sync::{Damaged, Event, StorageState, TabEvent};

use super::regressions::{NOW, lead, open, poll, settle};
use super::tab::{Tab, Task, store_name};
use escale_testkit::backend::Backend;
use escale_testkit::client::Call;
use escale_testkit::schema::{data, key, name};
use escale_testkit::server::{Habits, ModelServer, Write};

const DOCS: usize = 3;

/// A tab reads all documents, and the first pages that it asks for are gone.
fn stall(tab: &mut Tab) {
    let ids = tab.machine.list(&Def::class_of(&name("Doc"))).expect("subscribed").0;
    assert_eq!(ids.len(), DOCS);
    tab.feed(Event::Read { ticket: 2, ids }, NOW);
    let Some(Task::Device(Call::Pages { ticket, keys })) = tab.tasks.pop_front() else {
        panic!("pages are read")
    };
    assert!(tab.tasks.is_empty());
    tab.feed(Event::PagesRead { ticket, pages: Ok(keys.iter().map(|_| None).collect()) }, NOW);
    assert_eq!(tab.awaited, 1, "it waits for what the leader has written");
}

/// A message of the leader comes between a poll that found nothing and its answer.
#[test]
fn a_follower_that_hears_of_news_during_a_poll_polls_again() {
    let device = MemoryDevice::shared();
    let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    poll(&mut follower);
    follower.feed(Event::Tab(TabEvent::Poll), NOW);
    follower.work(None);
    let def = Def::class_of(&name("Doc"));
    leader.feed(Event::Subscribe(def.clone()), NOW);
    settle(&mut leader);
    follower.feed(Event::Tab(TabEvent::Poll), NOW);
    settle(&mut follower);
    assert!(follower.machine.memory().collection(&def).is_some());
}

/// A poll failed, and the next one is due in a second. News of the leader are polled at once.
#[test]
fn a_follower_that_hears_of_news_after_a_failed_poll_polls_at_once() {
    let device = MemoryDevice::shared();
    let mut tab = open(&device, 1);
    tab.feed(Event::Tab(TabEvent::Poll), NOW);
    tab.work(Some(super::inbox::FULL));
    let event = tab.arrived.pop_front().expect("an answer");
    tab.feed(event, NOW);
    assert!(tab.tasks.is_empty());
    tab.feed(Event::Tab(TabEvent::Poll), NOW);
    assert!(matches!(tab.tasks.front(), Some(Task::Device(Call::Poll { .. }))));
}

/// A leader with a server that has `DOCS` documents, which it has loaded and written.
fn loaded(device: &MemoryDevice, server: &mut ModelServer) -> Tab {
    for number in 0..DOCS {
        let data = data(number, None, 0, 0);
        server.db.write(NOW + number as u64, &[Write::Put { key: key(number), data, max_life: None }]);
    }
    let mut leader = open(device, 1);
    lead(&mut leader);
    leader.feed(Event::Subscribe(Def::class_of(&name("Doc"))), NOW);
    while let Some((number, request)) = leader.sent.take() {
        let (results, _) = server.operate(0, &request, (0, NOW + 10_000), &mut || false);
        let reply = Ok(server.reply(&request, results, server.promised_now().max(NOW + 10_000)));
        leader.feed(Event::Replied { number, reply }, NOW);
        settle(&mut leader);
    }
    leader
}

/// A deposed leader showed the damage that it had found for ever, even after the next leader had repaired it.
#[test]
fn a_deposed_leader_no_longer_shows_the_damage_that_it_found() {
    let device = MemoryDevice::shared();
    let mut server = ModelServer::new(Habits::of(80), 1, NOW);
    let mut leader = loaded(&device, &mut server);
    device.tamper(&store_name(), |records| {
        for (_, bytes) in records.iter_mut().filter(|((table, _), _)| *table == Table::Pages) {
            bytes[20] ^= 1;
        }
    });
    let ids = leader.machine.list(&Def::class_of(&name("Doc"))).expect("subscribed").0;
    leader.feed(Event::Read { ticket: 2, ids }, NOW);
    settle(&mut leader);
    assert_eq!(leader.machine.status().damaged.documents, DOCS as u64);
    leader.feed(Event::Tab(TabEvent::Depose), NOW);
    settle(&mut leader);
    let status = leader.machine.status();
    assert_eq!((status.damaged, status.storage), (Damaged::default(), StorageState::Ok));
}

#[test]
fn a_reading_whose_pages_are_gone_is_answered_after_a_look_whoever_leads_then() {
    for leads in [false, true] {
        let device = MemoryDevice::shared();
        let mut server = ModelServer::new(Habits::of(80), 1, NOW);
        let (mut leader, mut follower) = (loaded(&device, &mut server), open(&device, 2));
        poll(&mut follower);
        // There is something to look at.
        leader.feed(Event::Subscribe(Def::document(&name("Doc"), &key(1).1)), NOW);
        settle(&mut leader);
        stall(&mut follower);
        if leads {
            // Before the look is answered.
            follower.tasks.push_front(Task::TakeOver);
            settle(&mut follower);
            assert!(!follower.machine.is_following());
        } else {
            settle(&mut follower);
        }
        assert_eq!(follower.awaited, 0, "leads: {leads}");
        assert_eq!(follower.rows.as_ref().map(Vec::len), Some(DOCS));
    }
}
