//! R16 to R22 on random histories, with trees of both clocks: parents and their items are written, deleted and created again, while sessions
//! subscribe to some defs of a tree. A tree that a session shows as whole equals one state of the server.

use escale_testkit::plan::Kind::{self, *};
use escale_testkit::server::ModelServer;
use escale_testkit::world::Figures;
use escale_testkit::{Plan, property};

use super::histories::PLAN;

/// The actions of every history.
macro_rules! weights {
    ($($more:expr),* $(,)?) => {
        &[
            (TreeWrite, 60), (TreeWriteMany, 20), (TreeDelete, 20), (TreeSubscribe, 50), (TreeUnsubscribe, 10), (Wait, 40),
            (WaitLong, 8), (Skew, 4), (Push, 4), $($more),*
        ]
    };
}

const TREES: Plan = Plan { name: "trees", weights: QUIET, actions: 60, ..PLAN };
const QUIET: &[(Kind, u16)] = weights![];

#[test]
fn r22_what_is_withdrawn_leaves_and_nothing_else() {
    let weights = weights![
        (Right, 40),
        (Subscribe, 40),
        (Write, 40),
        (TreeOp, 30),
        (Op, 30),
        (Resolve, 10),
        (Faults, 8),
        (Push, 12),
        (Crash, 4),
        (Reopen, 12),
        (Mode, 6),
        (Cut, 6)
    ];
    property(&Plan { name: "r22", weights, clients: 3, ..TREES }, 300);
}

#[test]
fn r16_items_end_with_their_parent() {
    let weights = weights![(TreeDelete, 40), (TreeOp, 40), (Resolve, 10), (Faults, 8)];
    property(&Plan { name: "r16", weights, ..TREES }, 200);
}

#[test]
fn r17_floors_lose_nothing() {
    let weights = weights![
        (TreeDelete, 40),
        (Faults, 24),
        (Push, 16),
        (Forget, 12),
        (Days, 3),
        (Reopen, 16),
        (Crash, 4),
        (Mode, 8),
        (CursorKey, 4),
        (SetBack, 4)
    ];
    property(&Plan { name: "r17", weights, instances: 3, ..TREES }, 300);
}

const R18: Plan = Plan {
    name: "r18",
    weights: weights![
        (TreeWriteMany, 60),
        (Faults, 16),
        (Push, 16),
        (Crash, 6),
        (Reopen, 12),
        (Cut, 8),
        (Refuse, 6),
        (FailCommits, 6),
        (TreeOp, 20),
        (Write, 20),
        (Subscribe, 10)
    ],
    instances: 2,
    ..TREES
};

#[test]
fn r18_a_whole_tree_is_one_state_of_the_server() {
    property(&R18, 300);
}

#[test]
fn r18_trees_in_other_epochs_and_on_damaged_devices() {
    let weights = weights![
        (BackUp, 10),
        (Restore, 10),
        (Renew, 6),
        (Damage, 12),
        (Crash, 12),
        (Reopen, 30),
        (TreeOp, 16),
        (Faults, 8)
    ];
    property(&Plan { name: "r18_epochs", weights, instances: 2, ..TREES }, 200);
}

const R19: Plan = Plan {
    name: "r19",
    weights: weights![
        (TreeOp, 100),
        (TreeEnd, 50),
        (Resolve, 20),
        (Network, 16),
        (Mode, 10),
        (Faults, 12),
        (Crash, 6),
        (Reopen, 16),
        (Contention, 6)
    ],
    ..TREES
};

#[test]
fn r19_a_pending_deletion_of_a_parent_covers_its_items() {
    property(&R19, 300);
}

/// Otherwise the two properties above would say nothing.
#[test]
fn r18_r19_whole_trees_and_hidden_items_are_met() {
    let met = |plan: &Plan| {
        let mut all = Figures::default();
        for seed in 0..10 {
            let actions = escale_testkit::play::actions(plan, seed);
            all.add(
                &escale_testkit::play::run::<ModelServer>(plan, seed, &actions, false).unwrap_or_default(),
            );
        }
        all
    };
    let (whole, hidden) = (met(&R18).whole, met(&R19).hidden);
    assert!(whole > 100 && hidden > 20, "{whole} whole trees, {hidden} hidden items in ten histories");
}

#[test]
fn r20_numbers_outlast_every_horizon_and_epoch() {
    let weights = weights![
        (TreeDelete, 40),
        (TreeOp, 40),
        (Forget, 16),
        (Days, 3),
        (BackUp, 8),
        (Restore, 8),
        (Renew, 4),
        (Crash, 6),
        (Reopen, 20),
        (CursorKey, 4),
        (SetBack, 6),
        (Faults, 8)
    ];
    property(&Plan { name: "r20", weights, instances: 3, ..TREES }, 300);
}

/// No collection passes a gap: after each event it holds all that its `v` promises, and a whole tree is one state.
#[test]
fn r21_pushes_lost_doubled_and_swapped_pass_no_gap() {
    let weights = weights![
        (Push, 60),
        (Faults, 40),
        (TreeWriteMany, 40),
        (TreeDelete, 20),
        (TreeOp, 60),
        (Network, 6),
        (Cut, 8),
        (OneWay, 6),
        (Crash, 4),
        (Reopen, 12)
    ];
    property(&Plan { name: "r21", weights, instances: 2, actions: 80, ..TREES }, 400);
}
