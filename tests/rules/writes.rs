//! R10 to R12 on random histories: the overlay is checked after every event, R10 at every request, R11 at the
//! end.

use super::histories;
use escale_testkit::plan::Kind::{self, *};
use escale_testkit::{Plan, property};

/// The actions of every history: operations, subscriptions, and writes of others.
macro_rules! weights {
    ($($more:expr),* $(,)?) => {
        &[(Op, 80), (Write, 24), (Subscribe, 30), (Unsubscribe, 4), (Wait, 40), (WaitLong, 6), (Resolve, 8), $($more),*]
    };
}

const PLAN: Plan = Plan { clients: 1, weights: QUIET, ..histories::PLAN };
const QUIET: &[(Kind, u16)] = weights![];

#[test]
fn overlay_is_the_base_with_pending_operations() {
    property(&Plan { name: "overlay", ..PLAN }, 400);
}

#[test]
fn overlay_under_faults() {
    let weights =
        weights![(Faults, 20), (Push, 12), (Mode, 10), (Cut, 8), (Contention, 8), (Network, 8), (Refuse, 6)];
    property(&Plan { name: "overlay-faults", weights, clients: 2, instances: 2, ..PLAN }, 400);
}

#[test]
fn r10_durable_before_sent() {
    let weights = weights![
        (CrashAt, 30),
        (Crash, 10),
        (Reopen, 40),
        (FailCommits, 20),
        (Faults, 6),
        (Past, 8),
        (Sweep, 8)
    ];
    property(&Plan { name: "r10", weights, ..PLAN }, 400);
}

#[test]
fn r11_exactly_once_always() {
    let weights = weights![
        (Faults, 24),
        (CrashAt, 16),
        (Crash, 6),
        (Reopen, 30),
        (Contention, 8),
        (Mode, 8),
        (Network, 8),
        (Push, 8),
        (Sweep, 6),
        (FailCommits, 6),
    ];
    property(
        &Plan { name: "r11", weights, clients: 3, incognito: true, instances: 2, actions: 80, ..PLAN },
        200,
    );
}

#[test]
fn r8_operations_of_a_restored_server() {
    let weights = weights![
        (BackUp, 16),
        (Restore, 16),
        (Renew, 8),
        (Faults, 10),
        (CrashAt, 8),
        (Reopen, 14),
        (Push, 12)
    ];
    property(&Plan { name: "r8-operations", weights, clients: 2, instances: 2, ..PLAN }, 400);
}

/// Only this client writes, and only to counters: a value that it sees never goes back.
#[test]
fn no_flicker() {
    let weights = &[
        (Add, 80),
        (Subscribe, 20),
        (Wait, 60),
        (WaitLong, 6),
        (Faults, 20),
        (Push, 10),
        (Mode, 8),
        (Cut, 8),
        (Contention, 8),
        (CrashAt, 6),
        (Reopen, 20),
    ];
    property(&Plan { name: "flicker", weights, watches_flicker: true, ..PLAN }, 400);
}
