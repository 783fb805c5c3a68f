//! What the seeds play: each seed has one of these plans.

use crate::support::plan::Kind::{self, *};
use crate::support::plan::Plan;

/// Everything at once, a little of each.
const ALL: &[(Kind, u16)] = &[
    (Op, 70),
    (Write, 30),
    (WriteMany, 4),
    (Delete, 6),
    (Subscribe, 30),
    (Unsubscribe, 6),
    (Read, 4),
    (Wait, 40),
    (WaitLong, 8),
];

const THREAD: Plan = Plan {
    name: "thread",
    clients: 1,
    incognito: false,
    instances: 1,
    actions: 30,
    watches_flicker: false,
    tenants: &[],
    weights: ALL,
};

/// The plans, by seed.
const PLANS: &[Plan] = &[THREAD];

/// The plan of a seed.
pub fn plan(seed: u64) -> &'static Plan {
    &PLANS[(seed % PLANS.len() as u64) as usize]
}
