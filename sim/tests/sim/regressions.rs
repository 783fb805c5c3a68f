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

/// A store put back sends under a number that another of its operations had; the server is busy, and tells that it has come
/// past that number: the operation vanished from sight.
#[test]
fn r12_what_meets_contention_after_a_rollback_stays_in_sight() {
    replay(
        "devices",
        8607,
        &[
            Action::Write { doc: 2, section: 1, tags: 0, life: 2 },
            Action::Op { client: 2, what: 81, doc: 4, arg: 23 },
            Action::WriteMany { from: 5, count: 1, section: 0, tags: 6 },
            Action::CopyDevice { client: 2 },
            Action::Wait { ticks: 154 },
            Action::PutBackDevice { client: 2 },
            Action::Write { doc: 7, section: 3, tags: 1, life: 5 },
            Action::Reopen { client: 2 },
            Action::Op { client: 2, what: 186, doc: 1, arg: 227 },
        ],
    );
}

/// A write on SQLite that is slow, while the simulator opens the database beside it.
#[test]
fn a_slow_write_on_sqlite_ends_before_the_cursors_key_changes() {
    let write = Action::Write { doc: 0, section: 0, tags: 2, life: 0 };
    replay("horizons", 10_454, &[write, Action::CursorKey]);
}

/// An operation that kept its number, while what it depends on lost its own behind a refused one, stood before them and
/// waited for them: once the refused one was amended, nothing was sent any more.
#[test]
fn r12_an_operation_that_kept_its_number_waits_for_nothing_behind_it() {
    replay(
        "network",
        1_078,
        &[
            Action::Op { client: 2, what: 24, doc: 7, arg: 199 },
            Action::Network { client: 2 },
            Action::Op { client: 2, what: 49, doc: 7, arg: 182 },
            Action::Op { client: 2, what: 55, doc: 0, arg: 151 },
            Action::Delete { doc: 2 },
            Action::WriteMany { from: 5, count: 7, section: 3, tags: 2 },
            Action::Wait { ticks: 222 },
            Action::WriteMany { from: 6, count: 9, section: 1, tags: 4 },
            Action::Op { client: 2, what: 215, doc: 7, arg: 177 },
        ],
    );
}

/// What a discarded operation had held was sent before the discarding was on the device: the power went, the operation was
/// there again, and was amended after what depends on it had been executed.
#[test]
fn r12_what_a_discarded_operation_held_waits_for_the_device() {
    replay(
        "all",
        54_214,
        &[
            Action::Op { client: 0, what: 251, doc: 4, arg: 254 },
            Action::Op { client: 0, what: 28, doc: 4, arg: 53 },
            Action::Wait { ticks: 131 },
            Action::Resolve { client: 0, amends: false },
            Action::PowerLoss { client: 0, batches: 5 },
        ],
    );
}

/// A device put back to before its application amended a refused operation, which the application then amends again: both
/// are executed, and the check of the order took the second for one that came late.
#[test]
fn r12_an_operation_amended_twice_stands_in_no_order() {
    replay(
        "devices",
        127_754,
        &[
            Action::Op { client: 0, what: 246, doc: 7, arg: 147 },
            Action::WaitLong { seconds: 51 },
            Action::Write { doc: 7, section: 1, tags: 0, life: 0 },
            Action::CopyDevice { client: 0 },
            Action::Resolve { client: 0, amends: true },
            Action::Wait { ticks: 65 },
            Action::PutBackDevice { client: 0 },
        ],
    );
    // Refused once more before it is amended again.
    replay(
        "devices",
        868_662,
        &[
            Action::Op { client: 2, what: 104, doc: 8, arg: 239 },
            Action::Faults { loss: 68, twice: 164, late: 232 },
            Action::Wait { ticks: 110 },
            Action::Faults { loss: 21, twice: 181, late: 128 },
            Action::Write { doc: 8, section: 1, tags: 6, life: 0 },
            Action::CopyDevice { client: 2 },
            Action::Wait { ticks: 37 },
            Action::Resolve { client: 2, amends: true },
            Action::Wait { ticks: 122 },
            Action::PutBackDevice { client: 2 },
        ],
    );
}

/// A device put back to before its application discarded a refused operation, which it then amends: what that one had held
/// was sent meanwhile, and the check of the order took the amended one for late.
#[test]
fn r12_an_operation_discarded_before_its_device_was_put_back_stands_in_no_order() {
    replay(
        "devices",
        901_093,
        &[
            Action::Op { client: 1, what: 171, doc: 8, arg: 159 },
            Action::Op { client: 1, what: 39, doc: 7, arg: 243 },
            Action::Op { client: 1, what: 174, doc: 7, arg: 185 },
            Action::WaitLong { seconds: 168 },
            Action::CopyDevice { client: 1 },
            Action::Resolve { client: 1, amends: false },
            Action::Wait { ticks: 83 },
            Action::PutBackDevice { client: 1 },
        ],
    );
}

/// A sweep takes with it that an operation was accepted; the server is restored, and nobody can tell that it has lost it.
#[test]
fn r8_what_a_sweep_forgot_is_told_by_nobody() {
    replay(
        "all",
        157_352,
        &[
            Action::Write { doc: 6, section: 1, tags: 3, life: 0 },
            Action::BackUp,
            Action::Op { client: 1, what: 227, doc: 6, arg: 66 },
            Action::Wait { ticks: 210 },
            Action::Sweep { client: 1, how: 97, apply: true },
            Action::Op { client: 1, what: 221, doc: 6, arg: 222 },
            Action::Restore,
        ],
    );
}

/// A device that takes nothing holds up nobody: what a discarded operation held is sent though the device knows nothing of
/// the discarding. It crashes, and the application amends what it had discarded.
#[test]
fn r12_a_device_that_fails_holds_up_nobody() {
    replay(
        "crashes",
        649_265,
        &[
            Action::Op { client: 2, what: 151, doc: 5, arg: 48 },
            Action::Op { client: 2, what: 171, doc: 5, arg: 52 },
            Action::CrashAt { client: 2, effects: 19 },
            Action::WaitLong { seconds: 148 },
            Action::FailCommits { client: 2, count: 2, full: false },
            Action::Resolve { client: 2, amends: false },
            Action::WaitLong { seconds: 111 },
        ],
    );
}

/// A document kept for an operation alone, whose subscription had ended: the crash took the operation, and the opening let
/// the document go without its page.
#[test]
fn r7_a_document_that_leaves_at_the_opening_takes_its_page() {
    replay(
        "crashes",
        583_486,
        &[
            Action::Op { client: 1, what: 59, doc: 4, arg: 182 },
            Action::Wait { ticks: 49 },
            Action::Subscribe { client: 0, def: 7 },
            Action::Reopen { client: 0 },
            Action::Wait { ticks: 46 },
            Action::Reopen { client: 0 },
            Action::Op { client: 0, what: 58, doc: 8, arg: 130 },
            Action::Op { client: 0, what: 148, doc: 4, arg: 131 },
            Action::Subscribe { client: 0, def: 3 },
            Action::WriteMany { from: 0, count: 4, section: 3, tags: 2 },
            Action::CrashAt { client: 0, effects: 8 },
            Action::Unsubscribe { client: 0, def: 7 },
        ],
    );
}

/// Both sides deleted a document, and a server put back had once executed the operation: it is told as accepted, at the
/// version of the other side's deletion.
#[test]
fn r11_both_delete_after_a_server_was_put_back() {
    replay(
        "backups",
        785_654,
        &[
            Action::Write { doc: 6, section: 3, tags: 3, life: 0 },
            Action::Write { doc: 3, section: 2, tags: 7, life: 0 },
            Action::Write { doc: 1, section: 1, tags: 3, life: 0 },
            Action::Wait { ticks: 23 },
            Action::Delete { doc: 5 },
            Action::Op { client: 0, what: 228, doc: 7, arg: 44 },
            Action::Op { client: 0, what: 221, doc: 6, arg: 47 },
            Action::CrashAt { client: 0, effects: 12 },
            Action::BackUp,
            Action::Wait { ticks: 145 },
            Action::Restore,
            Action::Delete { doc: 6 },
        ],
    );
}

/// A server that read `now` after its snapshot was open told a session that it had come past a write in between, which no
/// later reply told. Of 2,000 seeds this history alone showed that mistake, planted by hand.
#[test]
fn r4_what_commits_while_a_snapshot_is_open_is_told_later() {
    replay(
        "horizons",
        500,
        &[
            Action::Op { client: 0, what: 50, doc: 7, arg: 142 },
            Action::Op { client: 1, what: 51, doc: 4, arg: 189 },
            Action::Write { doc: 1, section: 0, tags: 7, life: 3 },
            Action::WaitLong { seconds: 3 },
            Action::Op { client: 1, what: 173, doc: 7, arg: 96 },
            Action::Subscribe { client: 0, def: 12 },
            Action::Mode { client: 1 },
            Action::Delete { doc: 4 },
            Action::Wait { ticks: 255 },
            Action::Op { client: 1, what: 152, doc: 2, arg: 67 },
            Action::Faults { loss: 30, twice: 148, late: 79 },
            Action::Reopen { client: 2 },
            Action::Subscribe { client: 2, def: 5 },
            Action::Op { client: 0, what: 178, doc: 5, arg: 39 },
            Action::Delete { doc: 0 },
            Action::Write { doc: 0, section: 3, tags: 4, life: 0 },
            Action::Faults { loss: 15, twice: 131, late: 55 },
            Action::Op { client: 1, what: 131, doc: 2, arg: 190 },
            Action::Mode { client: 1 },
            Action::Op { client: 0, what: 103, doc: 7, arg: 229 },
            Action::Mode { client: 2 },
            Action::Reopen { client: 1 },
            Action::Op { client: 2, what: 242, doc: 4, arg: 167 },
            Action::Op { client: 0, what: 188, doc: 6, arg: 146 },
            Action::Reopen { client: 0 },
            Action::Wait { ticks: 213 },
            Action::Subscribe { client: 2, def: 9 },
            Action::Subscribe { client: 1, def: 5 },
            Action::Mode { client: 1 },
            Action::Mode { client: 2 },
            Action::Op { client: 1, what: 11, doc: 7, arg: 39 },
            Action::Op { client: 1, what: 243, doc: 0, arg: 27 },
            Action::Wait { ticks: 209 },
            Action::Wait { ticks: 141 },
            Action::Op { client: 0, what: 254, doc: 5, arg: 62 },
        ],
    );
}

/// A session that had forgotten its numbers sent one operation of three; the reply counted two, and the second, which was
/// never executed, vanished from sight.
#[test]
fn r12_a_count_beyond_the_results_does_not_hide_what_was_not_sent() {
    replay(
        "all",
        374_520,
        &[
            Action::Subscribe { client: 2, def: 4 },
            Action::Faults { loss: 125, twice: 205, late: 80 },
            Action::Op { client: 0, what: 34, doc: 5, arg: 173 },
            Action::Write { doc: 0, section: 2, tags: 3, life: 4 },
            Action::Op { client: 2, what: 152, doc: 1, arg: 236 },
            Action::SetBack { seconds: 35 },
            Action::Refuse { count: 2, how: 5 },
            Action::Subscribe { client: 1, def: 4 },
            Action::Op { client: 0, what: 76, doc: 5, arg: 152 },
            Action::FailCommits { client: 0, count: 2, full: true },
            Action::Op { client: 0, what: 188, doc: 6, arg: 73 },
            Action::Reopen { client: 2 },
            Action::Subscribe { client: 0, def: 0 },
            Action::Reopen { client: 2 },
            Action::Wait { ticks: 227 },
            Action::FailCommits { client: 0, count: 4, full: false },
            Action::Faults { loss: 70, twice: 166, late: 103 },
            Action::PowerLoss { client: 0, batches: 4 },
            Action::Reopen { client: 0 },
            Action::Op { client: 0, what: 114, doc: 1, arg: 224 },
            Action::Op { client: 0, what: 253, doc: 4, arg: 239 },
            Action::Op { client: 2, what: 106, doc: 4, arg: 191 },
            Action::Wait { ticks: 151 },
            Action::Crash { client: 0 },
            Action::Refuse { count: 2, how: 2 },
            Action::Op { client: 0, what: 162, doc: 6, arg: 93 },
            Action::Reopen { client: 0 },
            Action::Wait { ticks: 173 },
        ],
    );
}
