//! A follower reads pages that the leader has meanwhile replaced. The readings wait for a poll, and are answered.

use escale::model::Def;
use escale::store::MemoryDevice;
use escale::sync::Event;

use super::regressions::{NOW, lead, look, open, settle};
use super::tab::{Tab, Task};
use crate::support::backend::Backend;
use crate::support::schema::{data, key, name};
use crate::support::server::{Habits, ModelServer, Write};

const DOCS: usize = 3;

/// A tab reads all documents, and the first pages that it asks for are gone.
fn stall(tab: &mut Tab) {
    let ids = tab.machine.list(&Def::class_of(&name("Doc"))).expect("subscribed").0;
    assert_eq!(ids.len(), DOCS);
    tab.feed(Event::Read { ticket: 2, ids }, NOW);
    let Some(Task::Pages(ticket, keys)) = tab.tasks.pop_front() else { panic!("pages are read") };
    assert!(tab.tasks.is_empty());
    tab.feed(Event::PagesRead { ticket, pages: Ok(keys.iter().map(|_| None).collect()) }, NOW);
    assert_eq!(tab.awaited, 1, "it waits for what the leader has written");
}

#[test]
fn a_reading_whose_pages_are_gone_is_answered_after_a_look_whoever_leads_then() {
    for leads in [false, true] {
        let device = MemoryDevice::shared();
        let mut server = ModelServer::new(Habits::of(80), 1, NOW);
        for number in 0..DOCS {
            let data = data(number, None, 0, 0);
            server.db.write(NOW + number as u64, &[Write::Put { key: key(number), data, max_life: None }]);
        }
        let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
        lead(&mut leader);
        leader.feed(Event::Subscribe(Def::class_of(&name("Doc"))), NOW);
        while let Some((number, request)) = leader.sent.take() {
            let (results, _) = server.operate(0, &request, (0, NOW + 10_000), &mut || false);
            let reply = Ok(server.reply(&request, results, server.told().max(NOW + 10_000)));
            leader.feed(Event::Replied { number, reply }, NOW);
            settle(&mut leader);
        }
        look(&mut follower);
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
