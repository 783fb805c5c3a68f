//! R1 to R9 on random histories. R1, R2 and R4 are checked after every event, R7 after every opening, and R9
//! at the end, after recovery.

use escale_testkit::plan::Kind::{self, *};
use escale_testkit::server::ModelServer;
use escale_testkit::{Plan, property};

/// The actions of every history: writes, subscriptions and reads.
macro_rules! weights {
    ($($more:expr),* $(,)?) => {
        &[
            (Write, 60), (WriteMany, 6), (Delete, 16), (Subscribe, 30), (Unsubscribe, 10), (Read, 10), (Wait, 40),
            (WaitLong, 8), (Skew, 4), (Push, 4), $($more),*
        ]
    };
}

pub const PLAN: Plan = Plan {
    name: "",
    clients: 2,
    incognito: false,
    instances: 1,
    actions: 50,
    watches_flicker: false,
    tenants: &[],
    weights: QUIET,
};
const QUIET: &[(Kind, u16)] = weights![];

#[test]
fn r1_version_guard() {
    // Old and new versions of the same documents overtake each other, and arrive twice.
    let weights = weights![(Push, 24), (Faults, 24), (Write, 60), (Crash, 4), (Reopen, 8)];
    property(&Plan { name: "r1", weights, instances: 2, ..PLAN }, 150);
}

#[test]
fn r2_two_way_link() {
    let weights = weights![(Unsubscribe, 30), (Subscribe, 30), (Crash, 4), (Reopen, 8)];
    property(&Plan { name: "r2", weights, ..PLAN }, 100);
}

#[test]
fn r3_link_versions() {
    // Pushed and pulled parts of overlapping collections cross each other.
    let weights = weights![(Push, 16), (Faults, 12), (Write, 40)];
    property(&Plan { name: "r3", weights, clients: 1, ..PLAN }, 150);
}

#[test]
fn r4_delta() {
    let weights = weights![(Skew, 20), (SetBack, 8), (Faults, 8), (WriteMany, 16), (Wait, 20)];
    property(&Plan { name: "r4", weights, instances: 3, ..PLAN }, 150);
}

/// Each query is answered a second time by a filter and a sort of all documents that the session shows.
const QUERIES: Plan = Plan {
    name: "r30_r31",
    weights: weights![
        (Query, 90),
        (Add, 12),
        (Op, 12),
        (Crash, 4),
        (Reopen, 12),
        (Unsubscribe, 20),
        (Faults, 6)
    ],
    ..PLAN
};

#[test]
fn r30_r31_queries() {
    property(&QUERIES, 200);
}

/// A loaded class answers queries within its collections. Subscriptions to it begin and end.
const WHOLE: Plan = Plan {
    name: "whole",
    weights: weights![
        (Whole, 50),
        (Subscribe, 50),
        (Query, 40),
        (Push, 16),
        (Faults, 8),
        (Add, 10),
        (Crash, 3),
        (Reopen, 9),
        (Cut, 6),
        (WaitLong, 12),
        (Skew, 4),
    ],
    instances: 2,
    actions: 70,
    ..PLAN
};

#[test]
fn r30_queries_within_a_loaded_class() {
    property(&WHOLE, 300);
}

#[test]
fn r30_queries_within_a_class_in_another_epoch() {
    let weights =
        weights![(Whole, 50), (Subscribe, 50), (Query, 30), (Renew, 10), (Crash, 3), (Reopen, 9), (Push, 8)];
    property(&Plan { name: "whole_epochs", weights, ..WHOLE }, 150);
}

#[test]
fn r30_queries_within_a_damaged_class() {
    let weights =
        weights![(Whole, 50), (Subscribe, 50), (Query, 30), (Damage, 12), (Crash, 12), (Reopen, 24)];
    property(&Plan { name: "whole_damage", weights, ..WHOLE }, 150);
}

#[test]
fn r30_damaged_documents_are_not_listed() {
    let weights = weights![(Query, 90), (Damage, 12), (Crash, 12), (Reopen, 24)];
    property(&Plan { name: "r30_damage", weights, ..PLAN }, 100);
}

#[test]
fn r30_most_answers_are_compared() {
    let mut answers = 0;
    for seed in 0..10 {
        let actions = escale_testkit::play::actions(&QUERIES, seed);
        let figures = escale_testkit::play::run::<ModelServer>(&QUERIES, seed, &actions, false);
        answers += figures.map(|figures| figures.answers).unwrap_or_default();
    }
    assert!(answers > 50, "{answers} answers of ten histories");
}

#[test]
fn r5_no_resurrection() {
    let weights = weights![(Delete, 30), (Push, 16), (Faults, 20), (Unsubscribe, 16), (Mode, 12), (Cut, 12)];
    property(&Plan { name: "r5", weights, instances: 2, ..PLAN }, 150);
}

#[test]
fn r6_horizon() {
    let weights = weights![(Forget, 30), (Days, 6), (Reopen, 16), (Delete, 30), (Mode, 12), (CursorKey, 4)];
    property(&Plan { name: "r6", weights, instances: 2, ..PLAN }, 150);
}

#[test]
fn r7_atomic_rest() {
    let weights =
        weights![(CrashAt, 30), (Crash, 10), (Reopen, 40), (FailCommits, 20), (Faults, 4), (Read, 20)];
    property(&Plan { name: "r7", weights, ..PLAN }, 200);
}

#[test]
fn r8_epoch() {
    let weights = weights![
        (BackUp, 16),
        (Restore, 16),
        (Renew, 8),
        (Faults, 10),
        (CrashAt, 8),
        (Reopen, 12),
        (Push, 12),
        (Skew, 8)
    ];
    property(&Plan { name: "r8", weights, instances: 3, ..PLAN }, 200);
}

#[test]
fn r9_convergence() {
    let weights = weights![
        (Faults, 16),
        (Crash, 6),
        (CrashAt, 8),
        (Reopen, 16),
        (Mode, 10),
        (Network, 10),
        (Cut, 10),
        (FailCommits, 8),
        (Refuse, 8),
        (CursorKey, 4),
        (SetBack, 4),
        (Forget, 6),
        (Days, 2),
        (BackUp, 4),
        (Restore, 3),
        (Renew, 2)
    ];
    property(
        &Plan { name: "r9", weights, clients: 3, incognito: true, instances: 3, actions: 80, ..PLAN },
        300,
    );
}

#[test]
fn r14_damage_heals() {
    let weights = weights![(Crash, 16), (Damage, 24), (Reopen, 30), (Read, 20), (Mode, 6), (Faults, 4)];
    property(&Plan { name: "r14", weights, ..PLAN }, 150);
}
