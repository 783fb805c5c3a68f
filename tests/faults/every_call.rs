//! Plays each scenario with the k-th call to the store failing, for k from 1 until the scenario passes
//! without a fault.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::check::check;
use crate::device::{Fault, Plan};
use crate::scenarios::{Scenario, all};

/// More calls than any scenario makes.
const CALLS_MAX: u64 = 2_000;

/// Plays a scenario under a plan. Returns whether the fault has happened.
fn play(scenario: Scenario, plan: Plan) -> bool {
    let what = format!("{} under {plan:?}", scenario.name());
    let mut client = scenario.client(plan);
    client.has_lost_tail = plan.fault == Fault::TailDropped;
    for step in scenario.steps() {
        client.take(step);
    }
    let fired = client.device.has_fired();
    client.device.heals();
    check(&mut client, scenario, false, &what);
    fired
}

/// Plays a scenario with each fault at each call. Returns how many faults happened.
fn play_all(scenario: Scenario) -> u64 {
    play(scenario, Plan::NONE);
    let faults = |way: &Plan| {
        let fails = |call: &u64| {
            assert!(*call < CALLS_MAX, "{}: it never passes untouched", scenario.name());
            play(scenario, Plan { call: *call, ..*way })
        };
        (1..).take_while(fails).count() as u64
    };
    ways().iter().map(faults).sum()
}

/// Each fault in each variant. A destructive fault is met by an open session, or by none. An interrupted call
/// is carried out, or not.
fn ways() -> Vec<Plan> {
    let mut ways = Vec::new();
    for fault in Fault::ALL {
        ways.push(Plan { fault, ..Plan::NONE });
        if fault.destroys() {
            ways.push(Plan { fault, dies: true, ..Plan::NONE });
        }
        if fault.leaves_in_doubt() {
            ways.push(Plan { fault, does: true, ..Plan::NONE });
        }
    }
    ways
}

#[test]
fn every_call_to_the_store_may_fail() {
    let began = Instant::now();
    let scenarios = all();
    assert!(scenarios.len() >= 60);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut faults = 0;
        while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
            faults += play_all(*scenario);
        }
        faults
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let faults: u64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("no violation")).sum()
    });
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "proof: faults | each call to the store fails once, in each way | {} scenarios x 6 kinds, {faults} faults | \
         violations 0 | {seconds:.1} s",
        scenarios.len()
    );
}
