//! The hub: orgs are kept apart, hints are merged, and nobody misses one.

mod storms;

use std::collections::BTreeMap;

use escale_testkit::seeds;
use proptest::prelude::*;

use super::*;

#[test]
fn orgs_are_kept_apart_and_hints_are_merged() {
    let hub = Arc::new(Hub::new(400, 1));
    let def: Def = "A".parse().unwrap();
    let mut here = hub.join("o");
    let mut there = hub.join("p");
    here.listen([def.clone()].into());
    there.listen([def.clone()].into());
    hub.hint("o", &def, 6);
    assert_eq!([&here, &there].map(|seat| seat.waiting.turn()), [Some(Turn::Live), Some(Turn::Live)]);
    hub.hint("o", &def, 7);
    hub.hint("o", &def, 5);
    hub.hint("o", &"B".parse().unwrap(), 9);
    assert_eq!(here.waiting.turn(), Some(Turn::Hints(vec![(def.clone(), 7)])));
    assert_eq!(there.waiting.turn(), None);
    hub.hint("o", &def, 8);
    here.listen(HashSet::new());
    assert_eq!(here.waiting.turn(), None, "a def that nobody listens to any more is forgotten");
    hub.hint("o", &def, 9);
    assert_eq!(here.waiting.turn(), None);
    drop((here, there));
    assert!(lock(&hub.inner).orgs.is_empty());
}

/// One write must not cost a decision over each def of each socket that follows it: nine small writes then took all of a
/// server for twenty seconds.
#[test]
fn r86_a_document_that_decides_over_one_def_makes_no_socket_look_at_its_others() {
    let hub = Arc::new(Hub::new(400, 1));
    let defs: Vec<Def> = (0..1_000).map(|n| format!("A@{n}").parse().unwrap()).collect();
    let mut seats: Vec<Seat> = (0..3).map(|_| hub.join("o")).collect();
    for seat in &mut seats {
        seat.listen(defs.iter().cloned().collect());
    }
    assert!(seats.iter().all(|seat| seat.waiting.turn() == Some(Turn::Live)));
    hub.doubt_def("o", &defs[7]);
    hub.doubt_def("o", &defs[7]);
    hub.doubt_def("o", &"B".parse().unwrap());
    let one = || Some(Turn::Rights(Doubt::Defs([defs[7].clone()].into())));
    assert!(seats.iter().all(|seat| seat.waiting.turn() == one() && seat.waiting.turn().is_none()));
    hub.doubt_def("o", &defs[1]);
    hub.doubt_all("o");
    hub.doubt_def("o", &defs[2]);
    assert!(seats.iter().all(|seat| seat.waiting.turn() == Some(Turn::Rights(Doubt::All))));
}

/// One that is not confirmed pulls later, and one that does not read is only hinted.
#[test]
fn r41_pushes_wait_in_bounded_room_for_those_who_follow() {
    let hub = Arc::new(Hub::new(4, 1));
    let def: Def = "A".parse().unwrap();
    let mut seats = [hub.join("o"), hub.join("o")];
    for seat in &mut seats {
        seat.listen([def.clone()].into());
    }
    assert!(hub.is_crowded("o", &def) && !hub.is_crowded("p", &def));
    assert_eq!(seats[0].waiting.turn(), Some(Turn::Live));
    let pks = (0..5_000).map(|n: u64| escale::model::Pk::from_key(&[&n.to_string()]).unwrap());
    let part = escale::codec::Part {
        left: pks.map(|pk| (pk, 7)).collect(),
        ..escale::codec::Part::empty(def.clone())
    };
    let push = || {
        let (epoch, part) = (escale::model::Epoch::default(), part.clone());
        let pushed = crate::engine::Pushed { epoch, now: 9, delta: 1, part, seqs: vec![3] };
        Hub::push(hub.followers("o", &def), pushed).unwrap()
    };
    assert_eq!([push(), push(), push()], [1, 1, 0]);
    let Some(Turn::Pushes(frames)) = seats[0].waiting.turn() else { panic!("pushes") };
    assert_eq!(frames.len(), 2);
    assert_eq!(push(), 1);
    seats[0].listen(HashSet::new());
    assert_eq!(seats[0].waiting.turn(), None, "it does not follow the def any more");
    assert_eq!(push(), 0);
}

/// A step of a history, of a seat by its place among those that are there.
#[derive(Clone, Debug)]
enum Step {
    Join(u8),
    Listen(usize, Vec<u8>),
    Hint(u8, u8),
    HintAll(u8),
    Take(usize),
    Pass(u64),
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let defs = proptest::collection::vec(0..6u8, 0..6);
    prop_oneof![
        3 => (0..2u8).prop_map(Step::Join),
        4 => (0..20usize, defs).prop_map(|(seat, defs)| Step::Listen(seat, defs)),
        8 => (0..2u8, 0..6u8).prop_map(|(org, def)| Step::Hint(org, def)),
        1 => (0..2u8).prop_map(Step::HintAll),
        8 => (0..20usize).prop_map(Step::Take),
        3 => (0..200u64).prop_map(Step::Pass),
        1 => (0..20usize).prop_map(Step::Leave),
    ]
}

fn def(number: u8) -> Def {
    ["A", "B", "C", "D", "E", "F"][usize::from(number)].parse().unwrap()
}

/// A session: it knows a version of each def that it follows, by its pulls.
struct Session {
    org: String,
    seat: Seat,
    known: BTreeMap<Def, u64>,
    is_confirmed: bool,
}

/// The last version of each def of each org.
type Latest = HashMap<(String, Def), u64>;

impl Session {
    /// Takes a turn, if there is one, and pulls.
    fn take(&mut self, latest: &Latest) {
        let now = |org: &str, def: &Def| latest.get(&(org.to_owned(), def.clone())).copied().unwrap_or(0);
        match self.seat.waiting.turn() {
            None => {}
            Some(Turn::Live) => {
                assert!(!self.is_confirmed, "confirmed once");
                self.is_confirmed = true;
                self.known.iter_mut().for_each(|(def, known)| *known = now(&self.org, def));
            }
            Some(Turn::Rights(_)) => panic!("nobody has rights"),
            Some(Turn::Pushes(frames)) => panic!("nobody pushes: {frames:?}"),
            Some(Turn::Hints(hints)) => {
                assert!(self.is_confirmed, "a hint before the confirmation");
                for (def, v) in hints {
                    let known = self.known.get_mut(&def).expect("a hint of a def that it follows");
                    assert!(v <= now(&self.org, &def));
                    *known = v.max(*known);
                }
            }
        }
    }

    fn listen(&mut self, defs: &[u8], latest: &Latest) {
        let defs: HashSet<Def> = defs.iter().map(|number| def(*number)).collect();
        self.known.retain(|def, _| defs.contains(def));
        for def in &defs {
            // It is confirmed at once, and the session pulls the new defs.
            let pulled = latest.get(&(self.org.clone(), def.clone())).copied().unwrap_or(0);
            self.known.entry(def.clone()).or_insert(if self.is_confirmed { pulled } else { 0 });
        }
        self.seat.listen(defs);
    }
}

proptest! {
    #![proptest_config(seeds::config(300))]

    #[test]
    fn r42_nobody_misses_a_version_however_long_hints_wait(
        steps in proptest::collection::vec(step(), 1..150),
        rate in 1..50u64,
        seed in any::<u64>(),
    ) {
        let hub = Arc::new(Hub::new(rate, seed));
        let (mut sessions, mut latest, mut v, mut now_ms) = (Vec::<Session>::new(), Latest::new(), 0, 0);
        for step in steps {
            let count = sessions.len().max(1);
            match step {
                Step::Join(org) => {
                    let org = format!("org-{org}");
                    let seat = hub.join(&org);
                    sessions.push(Session { org, seat, known: BTreeMap::new(), is_confirmed: false });
                }
                Step::Listen(at, defs) => {
                    if let Some(session) = sessions.get_mut(at % count) {
                        session.listen(&defs, &latest);
                    }
                }
                Step::Hint(org, number) => {
                    v += 1;
                    let org = format!("org-{org}");
                    latest.insert((org.clone(), def(number)), v);
                    hub.hint(&org, &def(number), v);
                }
                Step::HintAll(org) => {
                    v += 1;
                    let org = format!("org-{org}");
                    for number in 0..6 {
                        latest.insert((org.clone(), def(number)), v);
                    }
                    hub.hint_all(&org, v);
                }
                Step::Take(at) => {
                    if let Some(session) = sessions.get_mut(at % count) {
                        session.take(&latest);
                    }
                }
                Step::Pass(ms) => {
                    now_ms += ms;
                    hub.give_at(&mut lock(&hub.inner), now_ms);
                }
                Step::Leave(at) => {
                    if at < sessions.len() {
                        sessions.swap_remove(at);
                    }
                }
            }
        }
        // All turns come in the end.
        loop {
            for session in &mut sessions {
                session.take(&latest);
            }
            let next_ms = lock(&hub.inner).pace.next_ms();
            let Some(next_ms) = next_ms else { break };
            hub.give_at(&mut lock(&hub.inner), next_ms);
        }
        for session in &sessions {
            prop_assert!(session.is_confirmed || session.known.is_empty());
            for (def, known) in &session.known {
                let last = latest.get(&(session.org.clone(), def.clone())).copied().unwrap_or(0);
                prop_assert_eq!(*known, last, "{}", def);
            }
        }
        drop(sessions);
        prop_assert!(lock(&hub.inner).orgs.is_empty());
    }
}
