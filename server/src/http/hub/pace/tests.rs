//! The pace over random histories: every seat has its turn, within a bound, and no second has too many turns.

use std::collections::HashMap;

use escale_testkit::seeds;
use proptest::prelude::*;

use super::*;

const ORGS: usize = 3;
const LANES: usize = 4;

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// These seats begin to wait, in that lane of that org.
    Add(u8, u8, Vec<u64>),
    /// Time passes.
    Pass(u64),
}

fn lane(number: u8) -> Lane {
    match number {
        0 => Lane::Live,
        n => Lane::Def(
            format!("Note@{}", escale::model::Pk::from_key(&[&n.to_string()]).unwrap()).parse().unwrap(),
        ),
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let seats = prop_oneof![
        proptest::collection::vec(0..40u64, 1..6),
        (1..200u64).prop_map(|n| (0..n).collect::<Vec<_>>()),
    ];
    let add =
        (0..ORGS as u8, 0..LANES as u8, seats).prop_map(|(org, lane, seats)| Step::Add(org, lane, seats));
    proptest::collection::vec(prop_oneof![add, (0..400u64).prop_map(Step::Pass)], 1..40)
}

/// The waits of a history, as far as they can be predicted without the order.
#[derive(Default)]
struct Model {
    /// For each that waits: how many may have a turn before it, at the most.
    waiting: HashMap<(String, Lane, u64), usize>,
    turns: Vec<u64>,
}

impl Model {
    fn add(&mut self, org: &str, lane: &Lane, seats: &[u64]) {
        // Those of its lane that wait already, then all 200 seats, if they come before the draw of those begins. In the
        // meantime, each other lane of each org has as many turns.
        for seat in seats {
            self.waiting.entry((org.to_owned(), lane.clone(), *seat)).or_insert(0);
        }
        let in_lane = self.waiting.keys().filter(|(o, l, _)| (o, l) == (&org.to_owned(), lane)).count();
        for seat in seats {
            let before = self.waiting.get_mut(&(org.to_owned(), lane.clone(), *seat)).unwrap();
            if *before == 0 {
                *before = (in_lane + 200) * ORGS * LANES + ORGS * LANES;
            }
        }
    }

    fn take(&mut self, org: &str, lane: &Lane, seat: u64, at_ms: u64) {
        let waited = self.waiting.remove(&(org.to_owned(), lane.clone(), seat));
        assert!(waited.is_some(), "{org} {seat} did not wait");
        for before in self.waiting.values_mut() {
            assert!(*before > 1, "somebody waits too long");
            *before -= 1;
        }
        self.turns.push(at_ms);
    }
}

proptest! {
    #![proptest_config(seeds::config(300))]

    #[test]
    fn r42_each_has_its_turn_in_time_and_no_second_has_too_many(
        steps in steps(),
        rate in 1..500u64,
        seed in any::<u64>(),
    ) {
        let (mut pace, mut model, mut now_ms) = (Pace::new(rate, seed), Model::default(), 0);
        for step in steps {
            match step {
                Step::Add(org, at, seats) => {
                    let (org, lane) = (format!("org-{org}"), lane(at));
                    pace.add(&org, &lane, seats.iter().copied());
                    model.add(&org, &lane, &seats);
                }
                Step::Pass(ms) => now_ms += ms,
            }
            pace.give(now_ms, |org, seat, lane| {
                model.take(org, lane, seat, now_ms);
                true
            });
            prop_assert_eq!(pace.waiting(), model.waiting.len());
        }
        // It says when the next turn is due, and gives it then.
        while let Some(next_ms) = pace.next_ms() {
            prop_assert!(next_ms > now_ms);
            now_ms = next_ms;
            let before = model.turns.len();
            pace.give(now_ms, |org, seat, lane| {
                model.take(org, lane, seat, now_ms);
                true
            });
            prop_assert!(model.turns.len() > before, "a turn that is due is given");
        }
        prop_assert!(model.waiting.is_empty());
        for (n, from) in model.turns.iter().enumerate() {
            let within = model.turns[n..].iter().take_while(|at| **at < from + 1_000).count() as u64;
            prop_assert!(within <= rate + (rate / 4).max(1) + 1, "{} turns within a second", within);
        }
        prop_assert!(pace.orgs.order.is_empty() && pace.orgs.by_key.is_empty(), "nothing is kept for nobody");
    }

    /// A seat that no longer wants its turn costs none.
    #[test]
    fn r42_who_has_gone_takes_no_turn(gone in 0..300u64, there in 1..20u64) {
        let mut pace = Pace::new(20, gone);
        pace.give(0, |_, _, _| unreachable!());
        pace.add("o", &Lane::Live, 0..gone + there);
        let mut taken = 0;
        pace.give(0, |_, seat, _| {
            taken += u64::from(seat >= gone);
            seat >= gone
        });
        prop_assert_eq!(taken, there.min(5));
    }
}
