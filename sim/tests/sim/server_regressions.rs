//! Histories that once broke a promise: those about the server, its copies and its files.

use escale_sim::{Action, replay};

/// The server's clocks were set back, so operations did not raise the highest version. After a restore the
/// server then did not notice that its backup lacked them.
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

/// A slow write on SQLite, while the simulator opens a second connection.
#[test]
fn a_slow_write_on_sqlite_ends_before_the_cursors_key_changes() {
    let write = Action::Write { doc: 0, section: 0, tags: 2, life: 0 };
    replay("horizons", 10_454, &[write, Action::CursorKey]);
}

/// A sweep removes the record that an operation was accepted. After a restore of the server, no session can
/// report that the server lost the operation.
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

/// Both sides deleted a document, and a restored server had already executed the operation. The operation is
/// reported as accepted, at the version of the other side's deletion.
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

/// A server read `now` after its snapshot opened. So its reply claimed to include a write that was committed
/// in between, and no later reply sent that write. Of 2,000 seeds, this history alone found the mistake when
/// it was planted.
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

/// Another author had deleted the document too, so the session's own deletion ended without an effect. The restored server
/// knows neither of them. The deletion was never executed, so it is not listed as lost.
#[test]
fn r8_a_deletion_that_another_one_made_needless_is_not_listed_as_lost() {
    replay(
        "backups",
        5_032_170,
        &[
            Action::Subscribe { client: 0, def: 0 },
            Action::Op { client: 1, what: 202, doc: 3, arg: 104 },
            Action::Wait { ticks: 9 },
            Action::BackUp,
            Action::WriteMany { from: 15, count: 9, section: 2, tags: 4 },
            Action::Write { doc: 5, section: 1, tags: 6, life: 5 },
            Action::WriteMany { from: 5, count: 1, section: 0, tags: 5 },
            Action::Write { doc: 12, section: 0, tags: 0, life: 0 },
            Action::Write { doc: 6, section: 3, tags: 3, life: 0 },
            Action::Write { doc: 13, section: 1, tags: 5, life: 0 },
            Action::WaitLong { seconds: 254 },
            Action::Write { doc: 6, section: 1, tags: 0, life: 0 },
            Action::WriteMany { from: 0, count: 8, section: 0, tags: 6 },
            Action::Op { client: 0, what: 237, doc: 3, arg: 123 },
            Action::Wait { ticks: 67 },
            Action::Wait { ticks: 23 },
            Action::Restore,
        ],
    );
}

/// The database was restored to a copy from before a list was swept. The audit forgot the list, and its chunks stayed for ever.
#[test]
fn r26_an_audit_that_forgets_a_list_gives_its_chunks_a_deadline() {
    replay(
        "files",
        924_301,
        &[
            Action::AddFile { client: 0, doc: 27, files: 97 },
            Action::Wait { ticks: 69 },
            Action::Delete { doc: 26 },
            Action::Delete { doc: 27 },
            Action::Wait { ticks: 154 },
            Action::BackUp,
            Action::Sleep { hours: 174 },
            Action::Sleep { hours: 97 },
            Action::Restore,
        ],
    );
}
