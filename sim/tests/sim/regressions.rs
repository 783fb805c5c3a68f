//! Histories that once broke a promise, reduced, and kept by what they showed.

use escale_sim::{Action, replay};

/// Clocks set back keep the highest version where it was: what operations had done since the copy was not missed.
#[test]
fn r8_operations_since_the_copy_are_missed() {
    replay(
        "backups",
        912,
        &[
            Action::Subscribe { client: 1, def: 11 },
            Action::Op { client: 0, what: 170, doc: 7, arg: 24 },
            Action::Subscribe { client: 1, def: 7 },
            Action::WaitLong { seconds: 236 },
            Action::Op { client: 1, what: 173, doc: 3, arg: 209 },
            Action::Subscribe { client: 2, def: 4 },
            Action::Write { doc: 6, section: 2, tags: 4, life: 3 },
            Action::SetBack { seconds: 182 },
            Action::Op { client: 0, what: 121, doc: 2, arg: 95 },
            Action::Op { client: 0, what: 11, doc: 0, arg: 16 },
            Action::Op { client: 2, what: 207, doc: 4, arg: 42 },
            Action::BackUp,
            Action::RestartServer { instance: 231 },
            Action::Wait { ticks: 43 },
            Action::Restore,
        ],
    );
}
