//! Histories that once broke a promise: those about the session, and about the checks of it.

use escale_sim::{Action, replay};

/// A restored store sends an operation under a number that another of its operations had. The server is busy,
/// and reports a higher number. The operation then disappeared from the session's view.
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

/// An operation had kept its number. Its dependencies had lost theirs behind a refused operation, and now
/// came after it in the order, so it waited for them. Once the refused one was amended, nothing was sent any
/// more.
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

/// An operation blocked by a discarded one was sent before the discard was on the device. Then the power
/// failed, the discarded operation was there again, and the application amended it: the dependent had run
/// first.
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

/// A device is restored to a state before its application amended a refused operation. The application amends
/// it again. Both amendments are executed, and the check of the order rejected the second one as late.
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

/// A device is restored to a state before its application discarded a refused operation. The application then
/// amends it. Operations that it had blocked were sent meanwhile, and the check of the order rejected the
/// amended one as late.
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

/// If a device rejects all writes, no operation waits for it. An operation blocked by a discarded one is
/// sent, though the discard is not on the device. After a crash the application amends the discarded
/// operation.
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

/// A document was kept only for an operation; its subscription had ended. The crash removed the operation,
/// and the opening dropped the document but not its page.
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

/// A session had forgotten its numbers and sent one operation of three. The reply's count was two. So the
/// second operation, which was never executed, disappeared from the session's view.
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

/// An operation was executed, its answer was lost, and a copy of it was refused as too large. The empty `batch` that
/// probes its id is refused because the id is known under another name, which does not say whether it was executed. The
/// parts of the same reply contained its effect, and the session showed it twice.
#[test]
fn a_probe_under_another_name_leaves_its_operation_in_doubt() {
    replay(
        "all",
        14_020,
        &[
            Action::Op { client: 0, what: 164, doc: 1, arg: 41 },
            Action::CursorKey,
            Action::Write { doc: 1, section: 0, tags: 5, life: 0 },
            Action::Op { client: 2, what: 253, doc: 6, arg: 100 },
            Action::Faults { loss: 16, twice: 147, late: 169 },
            Action::Network { client: 1 },
            Action::Subscribe { client: 0, def: 5 },
            Action::PutBackDevice { client: 2 },
            Action::Wait { ticks: 62 },
            Action::Crash { client: 0 },
            Action::Refuse { count: 3, how: 2 },
            Action::Wait { ticks: 112 },
            Action::Reopen { client: 0 },
            Action::Wait { ticks: 165 },
        ],
    );
}

/// A socket had closed, and the server was back. Then nothing was subscribed, so no socket was opened again. The phase stayed
/// `opening`, because an operation waited behind a refused one, and changed later although nothing happened.
#[test]
fn the_phase_waits_for_no_socket_without_a_subscription() {
    replay(
        "network",
        64_992,
        &[
            Action::Refuse { count: 2, how: 4 },
            Action::Subscribe { client: 2, def: 0 },
            Action::CutSocket { client: 2, silent: false },
            Action::Op { client: 2, what: 167, doc: 2, arg: 240 },
            Action::Unsubscribe { client: 2, def: 0 },
            Action::Wait { ticks: 118 },
            Action::Wait { ticks: 111 },
            Action::Op { client: 2, what: 93, doc: 2, arg: 222 },
            Action::Wait { ticks: 240 },
            Action::Wait { ticks: 57 },
        ],
    );
}

/// An operation on an unknown item is refused. The item arrives, and its parent is deleted here. The refused operation did
/// not change the item, so this session does not know whose it is.
#[test]
fn r19_a_refused_operation_that_changed_nothing_does_not_tell_the_parent_of_an_item() {
    replay(
        "horizons",
        110_915,
        &[
            Action::Delete { doc: 18 },
            Action::Write { doc: 0, section: 3, tags: 4, life: 0 },
            Action::Op { client: 2, what: 0, doc: 11, arg: 183 },
            Action::Delete { doc: 1 },
            Action::WaitLong { seconds: 244 },
            Action::Delete { doc: 12 },
            Action::WriteMany { from: 18, count: 3, section: 0, tags: 4 },
            Action::Write { doc: 5, section: 0, tags: 4, life: 0 },
            Action::WriteMany { from: 9, count: 3, section: 0, tags: 4 },
            Action::Subscribe { client: 2, def: 20 },
            Action::Op { client: 2, what: 157, doc: 9, arg: 213 },
        ],
    );
}

/// A session showed an item by itself, and deleted its parent, which it did not hold. Then the list of the parent's items came,
/// and the item was hidden with them. The session did not report that to the view of the item itself.
#[test]
fn r19_an_item_that_joins_a_hidden_list_is_hidden_wherever_it_is_shown() {
    replay(
        "horizons",
        827_979,
        &[
            Action::Delete { doc: 9 },
            Action::WriteMany { from: 9, count: 6, section: 1, tags: 6 },
            Action::Subscribe { client: 0, def: 20 },
            Action::Wait { ticks: 21 },
            Action::Subscribe { client: 0, def: 14 },
            Action::Op { client: 0, what: 205, doc: 9, arg: 128 },
        ],
    );
}

/// The session no longer held a photo when it put it, and its patch of the photo was still on the way. The put was executed on
/// the result of that patch, which nobody here knew, and took the property away that the patch had set.
#[test]
fn r92_a_put_of_a_document_that_is_not_held_is_merged_with_the_patch_before_it() {
    replay(
        "files",
        608_653,
        &[
            Action::Reopen { client: 2 },
            Action::Subscribe { client: 2, def: 5 },
            Action::Sleep { hours: 201 },
            Action::AddFile { client: 2, doc: 27, files: 134 },
            Action::AddFile { client: 2, doc: 26, files: 179 },
            Action::Faults { loss: 30, twice: 35, late: 207 },
            Action::Wait { ticks: 179 },
            Action::Sleep { hours: 145 },
            Action::Op { client: 2, what: 217, doc: 26, arg: 68 },
            Action::Wait { ticks: 229 },
            Action::AddFile { client: 2, doc: 26, files: 205 },
        ],
    );
}

/// The server executed a put, and its answer was lost. The document came with the next pull, and the device alone had its data
/// when its class was subscribed to. The put was still laid over it, so the new list showed it at once. It belongs there.
#[test]
fn r12_an_overlay_that_equals_its_base_is_in_a_list_that_is_still_loading() {
    replay(
        "network",
        629_368,
        &[
            Action::Op { client: 0, what: 19, doc: 0, arg: 207 },
            Action::Faults { loss: 16, twice: 247, late: 199 },
            Action::Op { client: 0, what: 28, doc: 2, arg: 202 },
            Action::Subscribe { client: 0, def: 4 },
            Action::Wait { ticks: 132 },
            Action::Wait { ticks: 132 },
            Action::Refuse { count: 1, how: 2 },
            Action::Op { client: 0, what: 131, doc: 13, arg: 31 },
            Action::Wait { ticks: 141 },
            Action::Subscribe { client: 0, def: 0 },
        ],
    );
}

/// The server executed a put, and the answer was lost. The put was too large for the requests of that line, so it lost its number
/// to another operation. A later patch was answered first, with a document that contained both. The put was laid over it all
/// the same, and hid the patch.
#[test]
fn r12_an_operation_that_lost_its_number_is_in_doubt_until_it_is_answered() {
    replay(
        "network",
        426_416,
        &[
            Action::Subscribe { client: 1, def: 15 },
            Action::Faults { loss: 26, twice: 164, late: 160 },
            Action::Subscribe { client: 1, def: 5 },
            Action::Subscribe { client: 1, def: 0 },
            Action::CutSocket { client: 1, silent: false },
            Action::Op { client: 1, what: 206, doc: 0, arg: 76 },
            Action::Mode { client: 0 },
            Action::Op { client: 1, what: 61, doc: 19, arg: 128 },
            Action::Wait { ticks: 124 },
            Action::WriteMany { from: 23, count: 7, section: 1, tags: 7 },
            Action::Op { client: 1, what: 198, doc: 1, arg: 179 },
            Action::Op { client: 1, what: 24, doc: 7, arg: 197 },
            Action::OneWay { client: 1, mute: false, deaf: true },
            Action::Op { client: 1, what: 175, doc: 17, arg: 249 },
            Action::Wait { ticks: 191 },
            Action::Subscribe { client: 1, def: 20 },
            Action::CutSocket { client: 1, silent: false },
            Action::WaitLong { seconds: 198 },
            Action::Unsubscribe { client: 1, def: 5 },
            Action::Refuse { count: 2, how: 2 },
            Action::WaitLong { seconds: 231 },
        ],
    );
}

/// A policy left out a part of a batch whose document the server had deleted, too. The check went on to hold the batch to
/// its place among the writes of that document.
#[test]
fn r12_an_amended_batch_has_no_place_among_the_writes_of_a_document_that_it_left_out() {
    replay(
        "files",
        994_373,
        &[
            Action::Op { client: 0, what: 107, doc: 11, arg: 99 },
            Action::Op { client: 0, what: 202, doc: 1, arg: 52 },
            Action::Op { client: 0, what: 110, doc: 0, arg: 32 },
            Action::Op { client: 0, what: 38, doc: 25, arg: 14 },
            Action::Op { client: 0, what: 222, doc: 25, arg: 125 },
            Action::Subscribe { client: 0, def: 18 },
            Action::AddFile { client: 1, doc: 26, files: 120 },
            Action::Op { client: 0, what: 234, doc: 25, arg: 30 },
        ],
    );
}
