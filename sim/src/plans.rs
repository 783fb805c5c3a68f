//! The plans of the seeds. Each seed follows one plan, and each plan strains different promises.

#[allow(clippy::enum_glob_use)] // a plan is a list of them
use escale_testkit::plan::Kind::*;
use escale_testkit::plan::Plan;

/// Actions of the sessions and of the server's own writers, which every plan includes.
macro_rules! weights {
    ($($more:expr),* $(,)?) => {
        &[
            (Op, 70), (Resolve, 6), (Write, 24), (WriteMany, 4), (Delete, 6), (Subscribe, 30), (Unsubscribe, 5),
            (Read, 4), (Query, 10), (Whole, 8), (Wait, 36), (WaitLong, 8), (Skew, 4), (TreeOp, 40), (TreeWrite, 16),
            (TreeWriteMany, 4), (TreeDelete, 6), (TreeSubscribe, 26), (TreeUnsubscribe, 4), (Right, 6), $($more),*
        ]
    };
}

/// Two sessions of one account, and one of another org.
const TENANTS: &[(usize, usize)] = &[(0, 0), (0, 0), (1, 0)];

const PLAN: Plan = Plan {
    name: "",
    clients: 3,
    incognito: false,
    instances: 3,
    actions: 60,
    watches_flicker: false,
    tenants: TENANTS,
    weights: weights![],
};

/// The plans; a seed's remainder chooses one.
const PLANS: &[Plan] = &[
    // Messages are lost, repeated, late, and cut in one direction. Servers are busy, full, restarted.
    Plan {
        name: "network",
        weights: weights![
            (Faults, 20),
            (OneWay, 12),
            (Network, 8),
            (Cut, 8),
            (Mode, 8),
            (Refuse, 6),
            (Contention, 6),
            (RestartServer, 8),
            (FailServer, 6),
        ],
        ..PLAN
    },
    // Processes end at any effect, disks refuse, the power fails.
    Plan {
        name: "crashes",
        weights: weights![
            (CrashAt, 24),
            (Crash, 8),
            (Reopen, 40),
            (FailCommits, 14),
            (PowerLoss, 14),
            (Faults, 8),
            (RestartServer, 6),
            (Past, 4),
            (Sweep, 6),
        ],
        ..PLAN
    },
    // The server is restored from a backup; clocks are set back.
    Plan {
        name: "backups",
        weights: weights![
            (BackUp, 14),
            (Restore, 14),
            (Renew, 6),
            (SetBack, 6),
            (Faults, 10),
            (CrashAt, 8),
            (Reopen, 14),
            (RestartServer, 6),
        ],
        ..PLAN
    },
    // Horizons pass while sessions sleep or are closed.
    Plan {
        name: "horizons",
        weights: weights![
            (Sleep, 24),
            (Days, 4),
            (Forget, 8),
            (Delete, 30),
            (TreeWriteMany, 30),
            (TreeDelete, 50),
            (TreeSubscribe, 40),
            (Reopen, 16),
            (Crash, 4),
            (Mode, 8),
            (Faults, 8),
            (CursorKey, 4),
        ],
        ..PLAN
    },
    // Devices are wiped, and restored from copies.
    Plan {
        name: "devices",
        weights: weights![
            (Wipe, 6),
            (CopyDevice, 16),
            (PutBackDevice, 14),
            (PowerLoss, 10),
            (Reopen, 36),
            (CrashAt, 8),
            (Faults, 8),
            (Mode, 8),
        ],
        ..PLAN
    },
    // Files go up while the server collects, its store is late or fails, and all of it is restored.
    Plan {
        name: "files",
        weights: weights![
            (AddFile, 60),
            (PhotoOp, 50),
            (PhotoWrite, 14),
            (PhotoDelete, 10),
            (PhotoSubscribe, 30),
            (DropFile, 14),
            (LoseChunk, 6),
            (PutLate, 12),
            (DeleteLate, 10),
            (FilesDown, 8),
            (Collect, 40),
            (Sleep, 26),
            (BackUp, 8),
            (Restore, 4),
            (RestoreFiles, 4),
            (Renew, 4),
            (Faults, 8),
            (RestartServer, 8),
            (FailServer, 4),
            (CrashAt, 8),
            (Reopen, 24),
            (Mode, 6),
        ],
        ..PLAN
    },
    // A single session, the only writer, only adds: the counts that it shows never decrease.
    Plan {
        name: "flicker",
        clients: 1,
        watches_flicker: true,
        tenants: &[],
        weights: &[
            (Add, 80),
            (Subscribe, 20),
            (Wait, 60),
            (WaitLong, 6),
            (Faults, 20),
            (OneWay, 6),
            (Mode, 8),
            (Cut, 8),
            (Contention, 8),
            (CrashAt, 6),
            (PowerLoss, 4),
            (Reopen, 20),
            (RestartServer, 6),
        ],
        ..PLAN
    },
    // A little of everything, one session in incognito.
    Plan {
        name: "all",
        incognito: true,
        actions: 64,
        weights: weights![
            (Faults, 12),
            (OneWay, 6),
            (Network, 6),
            (Cut, 6),
            (Mode, 6),
            (Refuse, 4),
            (Contention, 4),
            (RestartServer, 6),
            (FailServer, 4),
            (CrashAt, 10),
            (Crash, 4),
            (Reopen, 30),
            (FailCommits, 8),
            (PowerLoss, 6),
            (Wipe, 2),
            (CopyDevice, 6),
            (PutBackDevice, 4),
            (BackUp, 6),
            (Restore, 5),
            (Renew, 2),
            (SetBack, 4),
            (Sleep, 5),
            (Days, 1),
            (CursorKey, 2),
            (Sweep, 4),
        ],
        ..PLAN
    },
];

/// The plan of a seed.
pub fn plan(seed: u64) -> &'static Plan {
    &PLANS[(seed % PLANS.len() as u64) as usize]
}

/// The plan of that name.
pub fn named(name: &str) -> &'static Plan {
    PLANS.iter().find(|plan| plan.name == name).expect("a plan of the simulator")
}
