//! How a follower learns of the end of an operation that was refused and decided about elsewhere. It may have
//! read any of the steps in between, by the log or as a whole.

use std::collections::BTreeMap;

use escale::Code;
use escale::codec::{SyncReply, SyncRequest};
use escale::journal::Policy;
use escale::model::{Def, Value};
use escale::storage::Limits;
use escale::store::MemoryDevice;
use escale::sync::{Event, Write};

use super::regressions::{NOW, lead, poll, settle};
use super::tab::Tab;
use super::told::Told;
use escale_testkit::schema::name;
use escale_testkit::server::{Habits, ModelServer};

pub fn open(device: &MemoryDevice, seed: u64, log_bytes_min: usize) -> Tab {
    let limits = Limits { log_bytes_min, ..Limits::default() };
    let mut tab = Tab::open(device, seed, Policy::Overwrite, limits);
    settle(&mut tab);
    tab
}

pub fn put(is_poison: bool) -> Value {
    let mut data = BTreeMap::from([("id".to_owned(), Value::from("id1"))]);
    data.extend(is_poison.then(|| ("poison".to_owned(), true.into())));
    Value::from([("class", "Doc".into()), ("data", Value::Map(data))])
}

pub fn id(number: usize) -> String {
    format!("0190b3c4-0000-7000-8000-00000000000{number}")
}

/// A leader with its server, and a follower.
pub struct Play {
    pub device: MemoryDevice,
    pub server: ModelServer,
    pub leader: Tab,
    pub follower: Tab,
    pub now: u64,
}

impl Play {
    /// The first operation is saved, and the follower knows it.
    pub fn new(log_bytes_min: usize) -> Self {
        let device = MemoryDevice::shared();
        let server = ModelServer::new(Habits::of(80), 1, NOW);
        let [mut leader, mut follower] = [1, 2].map(|seed| open(&device, seed, log_bytes_min));
        lead(&mut leader);
        let (name, touches, after) = ("doc.put".to_owned(), Vec::new(), Vec::new());
        leader.feed(Event::Write(Write { id: id(0), name, args: put(true), touches, after }), NOW);
        settle(&mut leader);
        poll(&mut follower);
        assert_eq!(follower.machine.operations().len(), 1);
        Play { device, server, leader, follower, now: NOW }
    }

    /// The server refuses the operation of that number, or accepts it.
    pub fn until(&mut self, is_done: impl Fn(&Tab) -> bool) {
        while !is_done(&self.leader) {
            self.now += 1_000;
            self.leader.feed(Event::Woke, self.now);
            let Some((number, request)) = self.leader.sent.take() else { continue };
            let reply = Ok(self.answer(&request));
            self.leader.feed(Event::Replied { number, reply }, self.now);
            settle(&mut self.leader);
        }
    }

    pub fn answer(&mut self, request: &SyncRequest) -> SyncReply {
        let (results, _) = self.server.operate(0, request, (0, self.now), &mut || false);
        let told = self.server.tell_now(0, self.now);
        self.server.reply(request, results, told)
    }

    pub fn told(&self, number: usize) -> Vec<Told> {
        let told = self.follower.told.all().filter(|(of, _)| *of == id(number));
        told.map(|(_, told)| told.clone()).collect()
    }
}

/// Every way in which a follower may look between the steps of a chain, and every length of the log.
fn each_way(mut play: impl FnMut(&mut Play, &mut dyn FnMut(&mut Play))) {
    for log_bytes_min in [1, 256 << 10] {
        for looks in 0_u32..32 {
            let mut steps = 0;
            let mut step = |play: &mut Play| {
                if looks >> steps & 1 == 1 {
                    poll(&mut play.follower);
                }
                steps += 1;
            };
            play(&mut Play::new(log_bytes_min), &mut step);
            assert_eq!(steps, 5, "each step has its bit");
        }
    }
}

/// A follower may know only the first of three operations in one place. Its application learns of the last one.
#[test]
fn a_follower_is_told_of_each_amendment_whatever_it_has_read_of_it() {
    each_way(|play, step| {
        for number in 0..2 {
            play.until(|leader| leader.machine.refused_op(&id(number)).is_ok());
            step(play);
            let args = Some(put(number == 0));
            play.leader.feed(Event::Amend { id: id(number), new: id(number + 1), args }, play.now);
            settle(&mut play.leader);
            step(play);
        }
        play.until(|leader| leader.machine.operations().is_empty());
        step(play);
        poll(&mut play.follower);
        let v = play.server.db.operations.results[&(0, id(2))].ok.as_ref().expect("accepted").v;
        let Some(Told::Amended(by)) = play.told(0).last().cloned() else { panic!("{:?}", play.told(0)) };
        let met = if by == id(1) { vec![1] } else { vec![] };
        for number in met {
            assert_eq!(play.told(number).last(), Some(&Told::Amended(id(2))), "{:?}", play.told(number));
        }
        assert_eq!(play.told(2).last(), Some(&Told::Ended(Ok((v, None)))), "{:?}", play.told(2));
        let refusals = (0..3).flat_map(|number| play.told(number));
        let refusals =
            refusals.filter(|told| matches!(told, Told::Refused(code) if *code != Code::NotUnique));
        assert_eq!(refusals.count(), 0);
        assert!(play.follower.machine.operations().is_empty());
    });
}

/// An operation was refused, and discarded in another tab, before its own tab had read the refusal. Its application
/// received `forgotten`, which stands for an operation that was executed.
#[test]
fn a_follower_is_told_why_an_operation_was_discarded_whatever_it_has_read_of_it() {
    each_way(|play, step| {
        play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
        step(play);
        play.leader.feed(Event::Amend { id: id(0), new: id(1), args: None }, play.now);
        settle(&mut play.leader);
        step(play);
        play.until(|leader| leader.machine.refused_op(&id(1)).is_ok());
        step(play);
        play.leader.feed(Event::Discard(id(1)), play.now);
        step(play);
        settle(&mut play.leader);
        step(play);
        poll(&mut play.follower);
        assert_eq!(play.told(0).last(), Some(&Told::Amended(id(1))), "{:?}", play.told(0));
        let end = Told::Ended(Err(Code::NotUnique));
        assert_eq!(play.told(1).last(), Some(&end), "{:?}", play.told(1));
        assert!(play.follower.machine.operations().is_empty());
    });
}

/// Two tabs decided about one refused operation. A follower's amendment was in the same place of the order as the
/// leader's, and one of the two was lost. Or its end was `forgotten`, before the leader had read it.
#[test]
fn a_follower_is_told_that_its_amendment_came_too_late() {
    for (log_bytes_min, amends) in [(1, false), (1, true), (256 << 10, false), (256 << 10, true)] {
        let mut play = Play::new(log_bytes_min);
        play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
        poll(&mut play.follower);
        play.follower.feed(Event::Amend { id: id(0), new: id(2), args: Some(put(false)) }, play.now);
        let decision = if amends {
            Event::Amend { id: id(0), new: id(1), args: Some(put(false)) }
        } else {
            Event::Discard(id(0))
        };
        play.leader.feed(decision, play.now);
        settle(&mut play.leader);
        poll(&mut play.follower);
        let shown = play.follower.machine.operations();
        let shown: Vec<String> = shown.iter().map(|(op, _)| op.state.issued.id.clone()).collect();
        let both = if amends { vec![id(1), id(2)] } else { vec![id(2)] };
        assert_eq!(shown, both, "the leader's amendment comes first");
        assert!(play.told(2).iter().all(|told| !told.is_end()), "{:?}", play.told(2));
        poll(&mut play.leader);
        poll(&mut play.follower);
        assert_eq!(play.told(2).last(), Some(&Told::Ended(Err(Code::NotFound))), "{:?}", play.told(2));
        play.until(|leader| leader.machine.operations().is_empty());
        poll(&mut play.follower);
        assert!(play.follower.machine.operations().is_empty());
    }
}

/// A tab opened, its application decided about a refused operation, and then the tab led without reading the state
/// again. It no longer had that operation: an amendment ended as `not_found`, and a discarded one came back.
#[test]
fn a_decision_made_before_a_tab_leads_is_carried_out() {
    for amends in [false, true] {
        let mut play = Play::new(256 << 10);
        play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
        let Play { device, leader, now, .. } = play;
        drop(leader);
        let mut tab = open(&device, 3, 256 << 10);
        let decision = if amends {
            Event::Amend { id: id(0), new: id(1), args: Some(put(false)) }
        } else {
            Event::Discard(id(0))
        };
        tab.feed(decision, now);
        lead(&mut tab);
        for tab in [tab, open(&device, 4, 256 << 10)] {
            let shown: Vec<String> =
                tab.machine.operations().iter().map(|(op, _)| op.state.issued.id.clone()).collect();
            assert_eq!(shown, if amends { vec![id(1)] } else { Vec::new() });
        }
    }
}

/// One tab subscribed and another one unsubscribed at the same time. The leader carried out both, and the first tab
/// waited for the documents for ever.
#[test]
fn what_another_tab_undoes_at_once_is_undone_in_each_tab() {
    for is_begun in [false, true] {
        let device = MemoryDevice::shared();
        let [mut leader, mut first, mut second] = [1, 2, 3].map(|seed| open(&device, seed, 256 << 10));
        lead(&mut leader);
        let (whole, other) = (Def::class_of(&name("Doc")), Def::document(&name("Doc"), &key(1)));
        if is_begun {
            leader.feed(Event::Subscribe(whole.clone()), NOW);
            settle(&mut leader);
            [&mut first, &mut second].into_iter().for_each(poll);
        }
        let command = |begins: bool| {
            if begins { Event::Subscribe(whole.clone()) } else { Event::Unsubscribe(whole.clone()) }
        };
        first.feed(command(!is_begun), NOW);
        // The second one must know the def to change it back.
        second.feed(command(!is_begun), NOW + 1);
        second.feed(command(is_begun), NOW + 2);
        [&mut first, &mut second, &mut leader].into_iter().for_each(settle);
        leader.feed(Event::Subscribe(other.clone()), NOW + 3);
        poll(&mut leader);
        for tab in [&mut first, &mut second, &mut leader] {
            poll(tab);
            assert!(tab.machine.memory().collection(&other).is_some());
            assert_eq!(tab.machine.memory().collection(&whole).is_some(), is_begun);
        }
    }
}

/// A tab began to lead, and its own later command held against another tab's earlier one. It deleted the earlier
/// one from the inbox and wrote nothing about it: the other tab showed the effect of its command for ever.
#[test]
fn a_command_that_a_later_one_of_the_new_leader_outdates_is_undone_in_its_tab() {
    for is_begun in [false, true] {
        let device = MemoryDevice::shared();
        let [mut before, mut first, mut second] = [1, 2, 3].map(|seed| open(&device, seed, 256 << 10));
        lead(&mut before);
        let (whole, other) = (Def::class_of(&name("Doc")), Def::document(&name("Doc"), &key(1)));
        let begun = [Some(other), is_begun.then(|| whole.clone())];
        begun.into_iter().flatten().for_each(|def| before.feed(Event::Subscribe(def), NOW));
        settle(&mut before);
        drop(before);
        [&mut first, &mut second].into_iter().for_each(poll);
        let command = |begins: bool| {
            if begins { Event::Subscribe(whole.clone()) } else { Event::Unsubscribe(whole.clone()) }
        };
        first.feed(command(!is_begun), NOW);
        second.feed(command(!is_begun), NOW + 1);
        second.feed(command(is_begun), NOW + 2);
        [&mut first, &mut second].into_iter().for_each(settle);
        assert_eq!(first.machine.memory().collection(&whole).is_some(), !is_begun, "it is shown at once");
        lead(&mut second);
        for tab in [&mut first, &mut second] {
            poll(tab);
            assert_eq!(tab.machine.memory().collection(&whole).is_some(), is_begun);
        }
    }
}

fn key(number: usize) -> escale::model::Pk {
    escale_testkit::schema::key(number).1
}

/// The leading tab issued a write, and the following tab decided about its refusal. The leading tab listed the write as
/// refused for ever, and its application never learned of the end.
#[test]
fn a_refused_write_that_a_follower_decides_about_ends_in_the_leading_tab() {
    for is_amended in [false, true] {
        let mut play = Play::new(256 << 10);
        play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
        poll(&mut play.follower);
        let refusal = play.leader.told.all().find(|(of, told)| *of == id(0) && !matches!(told, Told::Saved));
        let Some((_, Told::Refused(code))) = refusal else { panic!("{refusal:?}") };
        let end = if is_amended { Told::Amended(id(1)) } else { Told::Ended(Err(*code)) };
        play.follower.feed(
            if is_amended {
                Event::Amend { id: id(0), new: id(1), args: Some(put(false)) }
            } else {
                Event::Discard(id(0))
            },
            play.now,
        );
        settle(&mut play.follower);
        poll(&mut play.leader);
        play.until(|leader| leader.machine.operations().is_empty());
        let told: Vec<_> = play.leader.told.all().filter(|(of, _)| *of == id(0)).collect();
        assert_eq!(told.last(), Some(&(id(0).as_str(), &end)), "{told:?}");
        let ends = play.leader.told.all().filter(|(of, told)| *of == id(1) && told.is_end());
        assert_eq!(ends.count(), usize::from(is_amended), "the one in its place ends too");
    }
}
