//! A follower reads the whole state again because the log does not go on. Its commands that the leader has not
//! carried out yet stay, and its applications learn of everything that ended meanwhile.

use escale::Code;
use escale::journal::{Policy, Retention};
use escale::model::Def;
use escale::storage::Limits;
use escale::store::{MemoryDevice, Table};
use escale::sync::{Event, StorageState, TabEvent};

use super::ends::{self, Play, id, put};
use super::inbox::{FULL, document, issue_twice, whole};
use super::regressions::{NOW, lead, poll, settle};
use super::tab::{Tab, Task, store_name};
use super::told::Told;
use escale_testkit::backend::Backend;
use escale_testkit::client::Call;

/// The leader writes until a checkpoint has replaced the log. It takes nothing from the inbox.
fn churn(leader: &mut Tab) {
    for _ in 0..12 {
        leader.feed(Event::Subscribe(document(5)), NOW);
        settle(leader);
        leader.feed(Event::Unsubscribe(document(5)), NOW);
        settle(leader);
    }
}

/// Settles a tab, and returns whether it has read the whole state.
fn reads_all(tab: &mut Tab) -> bool {
    let mut reads = false;
    while !(tab.tasks.is_empty() && tab.arrived.is_empty()) {
        reads |= matches!(tab.tasks.front(), Some(Task::Device(Call::State { .. })));
        tab.work(None);
        while let Some(event) = tab.arrived.pop_front() {
            tab.feed(event, NOW);
        }
    }
    reads
}

fn reload(play: &mut Play) {
    churn(&mut play.leader);
    play.follower.feed(Event::Tab(TabEvent::Poll), NOW);
    assert!(reads_all(&mut play.follower), "the log does not go on");
}

fn ids(tab: &Tab) -> Vec<String> {
    tab.machine.operations().iter().map(|(op, _)| op.state.issued.id.clone()).collect()
}

fn holds(tab: &Tab, def: &Def) -> bool {
    tab.machine.memory().collection(def).is_some()
}

/// R2: no document stays that nothing holds.
fn assert_lets_go(tab: &mut Tab) {
    let defs: Vec<Def> = tab.machine.memory().collections().map(|(def, _)| def.clone()).collect();
    defs.into_iter().for_each(|def| tab.feed(Event::Unsubscribe(def), NOW));
    assert_eq!(tab.machine.memory().documents().count(), 0, "R2: nothing holds them");
}

#[test]
fn a_followers_command_holds_until_the_leader_has_carried_it_out() {
    for case in 0..8 {
        let [is_begun, is_reloaded, is_handed_in] = [1, 2, 4].map(|bit| case & bit != 0);
        let device = MemoryDevice::shared();
        let [mut leader, mut follower] = [1, 2].map(|seed| ends::open(&device, seed, 1));
        lead(&mut leader);
        if is_begun {
            leader.feed(Event::Subscribe(whole()), NOW);
            settle(&mut leader);
        }
        poll(&mut follower);
        let command = |begins: bool| {
            if begins { Event::Subscribe(whole()) } else { Event::Unsubscribe(whole()) }
        };
        follower.feed(command(!is_begun), NOW);
        follower.work((!is_handed_in).then_some(FULL));
        settle(&mut follower);
        if is_reloaded {
            churn(&mut leader);
        } else {
            leader.feed(Event::Subscribe(document(1)), NOW);
            settle(&mut leader);
        }
        for _ in 0..2 {
            follower.feed(Event::Tab(TabEvent::Poll), NOW);
            reads_all(&mut follower);
            assert_eq!(holds(&follower, &whole()), !is_begun, "case {case}: shown at once, and still");
            assert_eq!(holds(&leader, &whole()), is_begun, "case {case}");
        }
        follower.feed(Event::Woke, NOW + 60_000);
        settle(&mut follower);
        poll(&mut leader);
        poll(&mut follower);
        assert_eq!([&leader, &follower].map(|tab| holds(tab, &whole())), [!is_begun; 2], "case {case}");
        // The command is over: the opposite one, of another tab, counts.
        leader.feed(command(is_begun), NOW + 60_000);
        settle(&mut leader);
        if is_reloaded {
            churn(&mut leader);
        }
        poll(&mut follower);
        assert_eq!([&leader, &follower].map(|tab| holds(tab, &whole())), [is_begun; 2], "case {case}");
    }
}

/// An amendment takes the place of the refused operation, although the stored state does not have it yet.
#[test]
fn an_amendment_keeps_its_place_when_all_is_read_again() {
    let mut play = Play::new(1);
    play.leader.feed(Event::Subscribe(whole()), NOW);
    settle(&mut play.leader);
    play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
    poll(&mut play.follower);
    play.follower.feed(Event::Amend { id: id(0), new: id(2), args: Some(put(false)) }, NOW);
    settle(&mut play.follower);
    let later = super::copy::issue(&mut play.leader, 5);
    reload(&mut play);
    assert_eq!(ids(&play.follower), [id(2), later.clone()]);
    poll(&mut play.leader);
    assert_eq!(ids(&play.leader), [id(2), later]);
    play.until(|leader| leader.machine.operations().is_empty());
    poll(&mut play.follower);
    assert!(matches!(play.told(2).last(), Some(Told::Ended(Ok(_)))), "{:?}", play.told(2));
    [&mut play.leader, &mut play.follower].into_iter().for_each(assert_lets_go);
}

#[test]
fn an_amendment_that_ended_meanwhile_is_told_when_all_is_read_again() {
    let mut play = Play::new(1);
    play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
    play.leader.feed(Event::Amend { id: id(0), new: id(1), args: Some(put(false)) }, play.now);
    settle(&mut play.leader);
    play.until(|leader| leader.machine.operations().is_empty());
    reload(&mut play);
    assert_eq!(play.told(0).last(), Some(&Told::Amended(id(1))), "{:?}", play.told(0));
    assert!(matches!(play.told(1)[..], [Told::Ended(Ok(_))]), "{:?}", play.told(1));
    assert!(ids(&play.follower).is_empty());
    assert_lets_go(&mut play.follower);
}

#[test]
fn an_operation_that_was_refused_meanwhile_is_told_when_all_is_read_again() {
    let mut play = Play::new(1);
    play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
    play.leader.feed(Event::Amend { id: id(0), new: id(3), args: None }, play.now);
    settle(&mut play.leader);
    play.until(|leader| leader.machine.refused_op(&id(3)).is_ok());
    reload(&mut play);
    assert!(matches!(play.told(3)[..], [Told::Refused(_)]), "{:?}", play.told(3));
    // Once.
    reload(&mut play);
    assert_eq!(play.told(3).len(), 1);
}

/// The leader repairs the damage. Until then, a follower has nothing better than the state that it shows. If it is
/// about to lead, it repairs the damage itself.
#[test]
fn a_follower_that_reads_damage_keeps_its_state_and_reads_again() {
    let mut play = Play::new(1);
    play.leader.feed(Event::Subscribe(whole()), NOW);
    settle(&mut play.leader);
    poll(&mut play.follower);
    churn(&mut play.leader);
    device_damages_journal(&play.device);
    play.follower.feed(Event::Tab(TabEvent::Poll), NOW);
    assert!(reads_all(&mut play.follower));
    let follower = &mut play.follower;
    assert!(holds(follower, &whole()));
    assert_eq!(ids(follower), [id(0)], "it is shown still");
    assert_eq!(follower.machine.status().storage, StorageState::Ok);
    let at = follower.wake_at.expect("it reads again");
    assert!(at > NOW && at <= NOW + 1_000);
    follower.feed(Event::Woke, at);
    assert!(matches!(follower.tasks.front(), Some(Task::Device(Call::State { .. }))));
    lead(follower);
    assert_eq!(ids(follower), [id(0)], "a leader takes it from the copy");
}

fn device_damages_journal(device: &MemoryDevice) {
    let is_journal = |table: &Table| *table == Table::Journal;
    device.tamper(&store_name(), |records| {
        records.iter_mut().filter(|((table, _), _)| is_journal(table)).for_each(|(_, bytes)| bytes[20] ^= 1);
    });
}

/// A record was swept before a follower had read it: nothing tells any more how that operation ended.
#[test]
fn an_operation_whose_record_was_swept_is_told_to_be_forgotten() {
    for is_own in [false, true] {
        let mut play = Play::new(256 << 10);
        play.leader.feed(Event::Subscribe(whole()), NOW);
        settle(&mut play.leader);
        play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
        play.leader.feed(Event::Discard(id(0)), NOW);
        let issuer = if is_own { &mut play.follower } else { &mut play.leader };
        let [old, new] = issue_twice(issuer);
        settle(issuer);
        poll(&mut play.leader);
        poll(&mut play.follower);
        assert_eq!(ids(&play.follower), [old.clone(), new.clone()]);
        let shown = |tab: &Tab| tab.machine.list(&whole()).map(|(ids, ..)| ids.len());
        assert_eq!(
            [shown(&play.leader), shown(&play.follower)],
            [Some(1); 2],
            "its document is there at once"
        );
        play.until(|leader| leader.machine.operations().is_empty());
        play.leader.feed(Event::Sweep { ticket: 2, retention: Retention::Count(1), apply: true }, play.now);
        settle(&mut play.leader);
        assert!(matches!(play.leader.swept[..], [Ok(())]), "{:?}", play.leader.swept);
        play.follower.feed(Event::Tab(TabEvent::Poll), NOW);
        assert!(!reads_all(&mut play.follower), "the log goes on");
        let end = play.follower.ended[&old].as_ref().map_err(escale::Error::code);
        assert_eq!(end, Err(Code::Forgotten), "own: {is_own}");
        assert!(play.follower.ended[&new].is_ok());
        assert_lets_go(&mut play.follower);
    }
}

/// The pages that a follower reads are gone, and the log does not go on: it reads them again after the reload.
#[test]
fn a_reading_whose_pages_are_gone_is_answered_after_a_reload() {
    let mut play = Play::new(1);
    play.leader.feed(Event::Subscribe(whole()), NOW);
    play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
    play.leader.feed(Event::Amend { id: id(0), new: id(1), args: Some(put(false)) }, play.now);
    play.until(|leader| leader.machine.operations().is_empty());
    poll(&mut play.follower);
    let (shown, ..) = play.follower.machine.list(&whole()).expect("subscribed");
    assert_eq!(shown.len(), 1);
    churn(&mut play.leader);
    play.follower.feed(Event::Read { ticket: 2, ids: shown }, NOW);
    let Some(Task::Device(Call::Pages { ticket, keys })) = play.follower.tasks.pop_front() else {
        panic!("pages are read")
    };
    let pages = Ok(keys.iter().map(|_| None).collect());
    play.follower.feed(Event::PagesRead { ticket, pages }, NOW);
    assert_eq!(play.follower.awaited, 1, "it waits for the leader's changes");
    assert!(reads_all(&mut play.follower), "the log does not go on");
    assert_eq!((play.follower.awaited, play.follower.rows.as_ref().map(Vec::len)), (0, Some(1)));
}

/// Damage sends collections back to the server, and the status counts them: at an opening, and before a tab leads.
#[test]
fn r14_the_collections_that_damage_sends_back_are_counted() {
    for leads in [false, true] {
        let mut play = Play::new(1);
        play.leader.feed(Event::Subscribe(whole()), NOW);
        play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
        assert!(play.leader.machine.list(&whole()).expect("subscribed").2 > 0);
        settle(&mut play.leader);
        let mut tab = play.follower;
        poll(&mut tab);
        assert_eq!(tab.machine.status().damaged.collections, 0);
        play.device.tamper(&store_name(), |records| {
            let states = records.iter_mut().filter(|((table, _), _)| *table == Table::State);
            states.for_each(|(_, bytes)| bytes[20] ^= 1);
        });
        device_damages_journal(&play.device);
        if !leads {
            (tab, _) = Tab::open_damaged(&play.device, 9, Policy::Overwrite, Limits::default());
        }
        lead(&mut tab);
        let memory = tab.machine.memory();
        let restarted = memory.collections().filter(|(_, held)| held.v(memory.epoch().1) == 0).count();
        assert_eq!(tab.machine.status().damaged.collections, restarted as u64, "leads: {leads}");
    }
}

/// R8: a later epoch does not hold an accepted operation. A follower learns of it by the log, and by a reload.
#[test]
fn r8_a_follower_knows_which_operations_the_server_has_lost() {
    for is_reloaded in [false, true] {
        let mut play = Play::new(if is_reloaded { 1 } else { 256 << 10 });
        play.leader.feed(Event::Subscribe(whole()), NOW);
        settle(&mut play.leader);
        play.until(|leader| leader.machine.refused_op(&id(0)).is_ok());
        let before = play.server.db.clone();
        play.leader.feed(Event::Amend { id: id(0), new: id(1), args: Some(put(false)) }, play.now);
        play.until(|leader| leader.machine.operations().is_empty());
        poll(&mut play.follower);
        play.server.db = before;
        play.server.renew(play.now);
        super::copy::issue(&mut play.leader, 6);
        play.until(|leader| !leader.machine.lost_by_server().is_empty());
        if is_reloaded {
            reload(&mut play);
        } else {
            poll(&mut play.follower);
        }
        assert_eq!(play.follower.machine.lost_by_server(), [id(1)], "reloaded: {is_reloaded}");
    }
}
