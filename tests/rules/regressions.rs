//! Histories that once broke a rule, reduced, and kept by what they showed.

use crate::support::plan::Kind;
use crate::support::{Action, Plan, replay};

const PLAN: Plan = Plan {
    name: "regression",
    clients: 2,
    incognito: false,
    instances: 1,
    actions: 0,
    watches_flicker: false,
    tenants: &[],
    weights: &[(Kind::Wait, 1)],
};

/// The records that knew a page are lost: nothing else would ever have deleted it.
#[test]
fn r14_pages_that_no_record_knows_are_deleted() {
    replay(
        &PLAN,
        6,
        &[
            Action::Write { doc: 6, section: 1, tags: 0, life: 4 },
            Action::Subscribe { client: 0, def: 0 },
            Action::Subscribe { client: 0, def: 5 },
            Action::Wait { ticks: 121 },
            Action::Crash { client: 0 },
            Action::Damage { client: 0, record: 0, how: 2 },
            Action::Damage { client: 0, record: 0, how: 2 },
            Action::Damage { client: 0, record: 0, how: 2 },
        ],
    );
}

/// The last request failed, then the last subscription ended: `offline` for ever, since nothing is asked any more.
#[test]
fn a_session_without_subscriptions_is_not_offline() {
    replay(
        &PLAN,
        7,
        &[
            Action::Subscribe { client: 1, def: 2 },
            Action::Wait { ticks: 100 },
            Action::Faults { loss: 255, twice: 0, late: 0 },
            Action::Subscribe { client: 1, def: 3 },
            Action::WaitLong { seconds: 100 },
            Action::Unsubscribe { client: 1, def: 2 },
            Action::Unsubscribe { client: 1, def: 3 },
        ],
    );
}

/// Between two batches: the marks of the subscription that ended came back at the next opening.
#[test]
fn r2_marks_end_with_their_subscription() {
    replay(
        &PLAN,
        2988,
        &[
            Action::Write { doc: 8, section: 1, tags: 2, life: 1 },
            Action::Subscribe { client: 1, def: 1 },
            Action::Wait { ticks: 140 },
            Action::Subscribe { client: 1, def: 10 },
            Action::Unsubscribe { client: 1, def: 1 },
            Action::Subscribe { client: 1, def: 1 },
        ],
    );
}

/// Pushed before the first load, then deleted and forgotten: a load that ends without `present` kept it.
#[test]
fn r6_what_was_pushed_before_a_whole_load_is_no_member() {
    replay(
        &PLAN,
        491,
        &[
            Action::Faults { loss: 0, twice: 0, late: 255 },
            Action::Push { on: true },
            Action::Subscribe { client: 0, def: 0 },
            Action::Write { doc: 5, section: 1, tags: 1, life: 0 },
            Action::Wait { ticks: 84 },
            Action::Crash { client: 0 },
            Action::Delete { doc: 5 },
            Action::WaitLong { seconds: 20 },
            Action::Forget { seconds: 1 },
        ],
    );
}
