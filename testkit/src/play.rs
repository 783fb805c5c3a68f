//! Plays one history in the world around a server, and reduces a failing one to the actions that matter.

use std::panic::{AssertUnwindSafe, catch_unwind};

use escale::crypto::{Random, SeededRandom};

use super::backend::Backend;
use super::plan::{Action, Plan};
use super::world::{Figures, World};

/// The failure of a history: the broken promise, and the log.
pub struct Failure {
    pub message: String,
    pub log: Vec<String>,
}

/// Plays a history. The log is written only with `logs`.
pub fn run<S: Backend>(plan: &Plan, seed: u64, actions: &[Action], logs: bool) -> Result<Figures, Failure> {
    let mut world: World<S> = World::with_log(plan, seed, logs);
    let played = catch_unwind(AssertUnwindSafe(|| world.play(actions)));
    played.map(|()| world.figures).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let message = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Failure { message: message.unwrap_or_default(), log: std::mem::take(&mut world.log) }
    })
}

/// The history of a seed.
pub fn actions(plan: &Plan, seed: u64) -> Vec<Action> {
    let mut random = SeededRandom::new(seed);
    (0..plan.actions)
        .map(|_| {
            let mut raw = [0; 5];
            random.fill(&mut raw).expect("a seed gives bytes");
            plan.action(raw)
        })
        .collect()
}

/// Leaves out the actions that the failure does not need.
pub fn reduce<S: Backend>(plan: &Plan, seed: u64, mut actions: Vec<Action>) -> Vec<Action> {
    let mut size = actions.len() / 2;
    while size > 0 {
        let mut from = 0;
        while from < actions.len() {
            let mut fewer = actions.clone();
            fewer.drain(from..(from + size).min(actions.len()));
            if run::<S>(plan, seed, &fewer, false).is_err() {
                actions = fewer;
            } else {
                from += size;
            }
        }
        size /= 2;
    }
    actions
}

/// The report of a failure, under the plan's name in a test: the log, the broken promise, the `ESCALE_SEED`
/// that plays it again, and the reduced history.
pub fn report<S: Backend>(plan: (&Plan, &str), escale_seed: u64, seed: u64, actions: Vec<Action>) -> String {
    let (plan, called) = plan;
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let actions = reduce::<S>(plan, seed, actions);
    let failure = run::<S>(plan, seed, &actions, true).err();
    std::panic::set_hook(hook);
    let Some(failure) = failure else { return "not the same twice".into() };
    let list: Vec<String> = actions.iter().map(|action| format!("    Action::{action:?},")).collect();
    format!(
        "{}\n\n{}\n\nplan {}, ESCALE_SEED={escale_seed}, reduced to\nreplay({called}, {seed}, &[\n{}\n]);\n",
        failure.log.join("\n"),
        failure.message,
        plan.name,
        list.join("\n")
    )
}
