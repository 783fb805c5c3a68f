//! Histories with files that once broke a promise, reduced. Each test's name says which promise.

use escale_sim::{Action, replay};

/// The only client of an org uploads and writes, and the database is replaced by a copy from before that. The audit passed
/// over the objects of an org without a head.
#[test]
fn r26_an_audit_tells_of_the_objects_of_an_org_that_the_database_does_not_know() {
    replay(
        "files",
        1_000_941,
        &[
            Action::BackUp,
            Action::AddFile { client: 2, doc: 27, files: 208 },
            Action::Wait { ticks: 168 },
            Action::Restore,
        ],
    );
}

/// Two sessions upload the same object. The bytes of the second are of no use, and a purge removed them and the line that
/// remembered them. Hours later the store did the call a second time, and nothing knew of these bytes.
#[test]
fn r26_bytes_of_no_use_that_come_twice_do_not_stay() {
    replay(
        "files",
        155_781,
        &[
            Action::Op { client: 2, what: 12, doc: 27, arg: 252 },
            Action::Mode { client: 2 },
            Action::Op { client: 1, what: 124, doc: 10, arg: 201 },
            Action::Subscribe { client: 0, def: 2 },
            Action::Op { client: 0, what: 206, doc: 3, arg: 85 },
            Action::WaitLong { seconds: 191 },
            Action::Delete { doc: 5 },
            Action::AddFile { client: 2, doc: 26, files: 120 },
            Action::PutLate { minutes: 174, twice: true },
            Action::AddFile { client: 1, doc: 27, files: 241 },
            Action::Subscribe { client: 0, def: 25 },
            Action::Op { client: 1, what: 15, doc: 5, arg: 86 },
            Action::Op { client: 1, what: 111, doc: 25, arg: 22 },
            Action::Op { client: 2, what: 79, doc: 26, arg: 12 },
            Action::Op { client: 2, what: 21, doc: 24, arg: 156 },
            Action::Subscribe { client: 0, def: 28 },
            Action::Write { doc: 17, section: 3, tags: 0, life: 0 },
            Action::Op { client: 0, what: 60, doc: 10, arg: 64 },
            Action::Op { client: 0, what: 211, doc: 14, arg: 118 },
            Action::Op { client: 0, what: 251, doc: 2, arg: 116 },
            Action::Op { client: 1, what: 130, doc: 15, arg: 180 },
            Action::Write { doc: 0, section: 0, tags: 5, life: 1 },
            Action::Op { client: 0, what: 62, doc: 4, arg: 81 },
            Action::Collect { instance: 240 },
            Action::Op { client: 1, what: 33, doc: 7, arg: 10 },
            Action::Op { client: 1, what: 112, doc: 4, arg: 28 },
            Action::AddFile { client: 2, doc: 25, files: 213 },
            Action::Reopen { client: 0 },
            Action::Subscribe { client: 0, def: 27 },
            Action::Collect { instance: 205 },
            Action::Op { client: 2, what: 241, doc: 0, arg: 190 },
            Action::Collect { instance: 201 },
            Action::AddFile { client: 0, doc: 25, files: 182 },
            Action::AddFile { client: 1, doc: 25, files: 122 },
        ],
    );
}

/// An operation with a file was executed, and a crash lost the answer. A week later the server had dropped the file, and the
/// device had lost it. The session then refused the operation by itself, and the application discarded it.
#[test]
fn r11_an_operation_that_may_be_executed_is_not_refused_for_its_files() {
    replay(
        "files",
        307_981,
        &[
            Action::Delete { doc: 16 },
            Action::Delete { doc: 25 },
            Action::Op { client: 0, what: 61, doc: 3, arg: 194 },
            Action::Delete { doc: 25 },
            Action::WaitLong { seconds: 53 },
            Action::AddFile { client: 0, doc: 25, files: 105 },
            Action::CrashAt { client: 0, effects: 5 },
            Action::Write { doc: 24, section: 3, tags: 1, life: 0 },
            Action::Delete { doc: 27 },
            Action::WaitLong { seconds: 45 },
            Action::LoseChunk { client: 0, file: 3 },
            Action::WriteMany { from: 21, count: 7, section: 3, tags: 3 },
            Action::Write { doc: 3, section: 0, tags: 2, life: 1 },
            Action::Write { doc: 4, section: 1, tags: 7, life: 0 },
            Action::Delete { doc: 25 },
            Action::Sleep { hours: 181 },
        ],
    );
}

/// The epoch changed while a confirmation of the earlier one was on its way, and nothing had been confirmed before. The core
/// dropped the confirmation and asked for no other, so the operation waited for ever.
#[test]
fn r24_a_confirmation_of_an_earlier_epoch_is_asked_for_again() {
    replay(
        "files",
        250_397,
        &[
            Action::Collect { instance: 251 },
            Action::AddFile { client: 0, doc: 26, files: 31 },
            Action::Op { client: 1, what: 101, doc: 27, arg: 189 },
            Action::Op { client: 1, what: 190, doc: 7, arg: 152 },
            Action::Subscribe { client: 1, def: 1 },
            Action::Faults { loss: 9, twice: 2, late: 129 },
            Action::Wait { ticks: 123 },
            Action::AddFile { client: 1, doc: 27, files: 212 },
            Action::Op { client: 1, what: 115, doc: 10, arg: 241 },
            Action::Op { client: 0, what: 66, doc: 26, arg: 202 },
            Action::Op { client: 1, what: 29, doc: 8, arg: 181 },
            Action::Op { client: 2, what: 44, doc: 5, arg: 215 },
            Action::Op { client: 1, what: 9, doc: 25, arg: 44 },
            Action::Wait { ticks: 247 },
            Action::BackUp,
            Action::Sleep { hours: 247 },
            Action::AddFile { client: 2, doc: 26, files: 161 },
            Action::Reopen { client: 1 },
            Action::Wait { ticks: 87 },
            Action::Restore,
        ],
    );
}
