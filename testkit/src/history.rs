//! Histories around the model of the server: many seeds, then proptest's own.
//!
//! `ESCALE_SEED=17 cargo test --test rules r9` plays one seed again; `ESCALE_CASES=5000` plays more of them.

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, FileFailurePersistence, RngSeed, TestCaseError, TestError, TestRunner};

use super::plan::{Action, Plan};
use super::play::{Failure, actions};
use super::seeds;
use super::server::ModelServer;

fn run(plan: &Plan, seed: u64, actions: &[Action]) -> Result<(), Failure> {
    super::play::run::<ModelServer>(plan, seed, actions, false).map(drop)
}

fn report(plan: &Plan, escale_seed: u64, seed: u64, actions: Vec<Action>) -> String {
    super::play::report::<ModelServer>((plan, "&PLAN"), escale_seed, seed, actions)
}

/// Plays the histories of a plan: `usual` seeds, always the same ones, and a quarter as many of proptest's,
/// which start from a new seed each time. `ESCALE_SEED` plays that seed's history, and those that proptest
/// makes from it.
pub fn property(plan: &Plan, usual: u32) {
    let seeds = match seeds::given() {
        Some(seed) => seed..seed.saturating_add(1),
        None => 0..u64::from(seeds::cases(usual)),
    };
    for seed in seeds {
        let actions = actions(plan, seed);
        if run(plan, seed, &actions).is_err() {
            panic!("{}", report(plan, seed, seed, actions));
        }
    }
    let start = seeds::start();
    let config = Config {
        cases: seeds::cases(usual).div_ceil(4),
        rng_seed: RngSeed::Fixed(start),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(regressions(plan)))),
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let raw = proptest::collection::vec(proptest::array::uniform5(proptest::num::u8::ANY), 0..plan.actions);
    let strategy = (proptest::num::u64::ANY, raw);
    let result = TestRunner::new(config).run(
        &strategy.prop_map(|(seed, raw)| {
            let actions: Vec<Action> = raw.into_iter().map(|raw| plan.action(raw)).collect();
            (seed, actions)
        }),
        |(seed, actions)| run(plan, seed, &actions).map_err(|failure| TestCaseError::fail(failure.message)),
    );
    match result {
        Ok(()) => {}
        // The shortest failing history is reported like the others: its log, and the lines that replay it.
        Err(TestError::Fail(_, (seed, actions))) => {
            panic!("{}", report(plan, start, seed, actions))
        }
        Err(error) => panic!("plan {}, ESCALE_SEED={start}: {error}", plan.name),
    }
}

/// The file of proptest's findings against a plan, which it plays first. Each plan has its own file, because
/// a seed makes a different history under another plan.
fn regressions(plan: &Plan) -> &'static str {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/proptest-regressions");
    // It exists as long as the process, and once for each plan.
    Box::leak(format!("{folder}/{}.txt", plan.name).into_boxed_str())
}

/// Plays one history: a failure that was found once, kept by name.
pub fn replay(plan: &Plan, seed: u64, actions: &[Action]) {
    if let Err(failure) = super::play::run::<ModelServer>(plan, seed, actions, true) {
        panic!("{}\n\n{}\n\nplan {}, seed {seed}", failure.log.join("\n"), failure.message, plan.name);
    }
}
