//! A session that led, was deposed, and leads again continues from the stored state.

use escale::Code;
use escale::codec::{Fault as Refusal, SyncReply};
use escale::model::{Def, Value};
use escale::store::MemoryDevice;
use escale::sync::{Event, Phase, TabEvent, Write as Issued};

use super::regressions::{NOW, lead, open, settle};
use super::tab::{Fault, Tab, Task};
use escale_testkit::backend::Backend;
use escale_testkit::client::Call;
use escale_testkit::schema::{data, key, name};
use escale_testkit::server::{Habits, ModelServer, Write};

const DOCS: usize = 4;

fn all() -> Def {
    Def::class_of(&name("Doc"))
}

/// A server that gives its documents one by one.
fn server() -> ModelServer {
    let mut server = ModelServer::new(Habits::of(80), 1, NOW);
    for number in 0..DOCS {
        let data = data(number, None, 0, 0);
        server.db.write(NOW + number as u64, &[Write::Put { key: key(number), data, max_life: None }]);
    }
    server
}

/// The server answers the request of a tab. The device has not written the effect yet.
fn answer(tab: &mut Tab, server: &mut ModelServer) {
    let (number, request) = tab.sent.take().expect("a request");
    let (results, _) = server.operate(0, &request, (0, NOW + 10_000), &mut || false);
    let reply: SyncReply = server.reply(&request, results, server.promised_now().max(NOW + 10_000));
    tab.feed(Event::Replied { number, reply: Ok(reply) }, NOW);
}

/// A leader received a page and was deposed before it had stored it. When it led again, it took the same page for a
/// load without end, and blamed the server.
#[test]
fn r9_a_load_continues_from_the_stored_page_if_its_session_leads_again() {
    let (device, mut server) = (MemoryDevice::shared(), server());
    let (mut first, mut second) = (open(&device, 1), open(&device, 2));
    lead(&mut first);
    first.feed(Event::Subscribe(all()), NOW);
    settle(&mut first);
    for _ in 0..2 {
        answer(&mut first, &mut server);
        settle(&mut first);
    }
    answer(&mut first, &mut server);
    lead(&mut second);
    settle(&mut first);
    assert!(first.machine.is_following());
    lead(&mut first);
    while first.sent.is_some() {
        answer(&mut first, &mut server);
        settle(&mut first);
    }
    let status = first.machine.status();
    assert_eq!((status.phase, status.error, status.faults.len()), (Phase::Live, None, 0));
    assert_eq!(first.machine.list(&all()).expect("subscribed").0.len(), DOCS);
}

/// A deposed leader showed for ever that the server had refused a def, even after the next leader had received it.
#[test]
fn a_deposed_leader_no_longer_shows_the_defs_that_the_server_refused() {
    let (device, server) = (MemoryDevice::shared(), server());
    let mut leader = open(&device, 1);
    lead(&mut leader);
    leader.feed(Event::Subscribe(all()), NOW);
    settle(&mut leader);
    let (number, request) = leader.sent.take().expect("a request");
    let mut reply = server.reply(&request, Vec::new(), NOW + 10_000);
    for part in &mut reply.parts {
        part.rows.clear();
        part.fault = Some(Refusal::new(Code::Forbidden, "by the test"));
    }
    leader.feed(Event::Replied { number, reply: Ok(reply) }, NOW);
    settle(&mut leader);
    assert_eq!(leader.machine.status().faults.len(), 1);
    leader.feed(Event::Tab(TabEvent::Depose), NOW);
    settle(&mut leader);
    assert_eq!(leader.machine.status().faults.len(), 0);
}

/// A poll found records, and reading their journal failed after a tab had begun to lead with another poll. The failure
/// ended that poll too, and the tab led a second later.
#[test]
fn a_poll_that_failed_does_not_end_a_later_one() {
    let device = MemoryDevice::shared();
    let (mut leader, mut follower) = (open(&device, 1), open(&device, 2));
    lead(&mut leader);
    let data = Value::from([("id", Value::from("id1"))]);
    let args = Value::from([("class", "Doc".into()), ("data", data)]);
    let (id, name) = ("0190b3c4-0000-7000-8000-000000000001".to_owned(), "doc.put".to_owned());
    leader.feed(Event::Write(Issued { id, name, args, touches: Vec::new(), after: Vec::new() }), NOW);
    settle(&mut leader);
    follower.feed(Event::Tab(TabEvent::Poll), NOW);
    follower.work(None);
    let looked = follower.arrived.pop_front().expect("a poll");
    follower.feed(looked, NOW);
    assert!(
        matches!(follower.tasks.front(), Some(Task::Device(Call::Journal { .. }))),
        "it reads the journal"
    );
    follower.work(Some(Fault { code: Code::StorageFull, is_written: false }));
    let failed = follower.arrived.pop_front().expect("a reading");
    follower.tasks.push_back(Task::TakeOver);
    follower.work(None);
    let leads = follower.arrived.pop_front().expect("a generation");
    follower.feed(leads, NOW);
    follower.feed(failed, NOW);
    settle(&mut follower);
    assert!(!follower.machine.is_following(), "{:?}", follower.machine.status());
}
