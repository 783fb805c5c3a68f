//! Histories that once broke a rule, reduced, and named after their finding.

use escale_testkit::plan::Kind;
use escale_testkit::{Action, Plan, replay};

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

/// The last request failed, then the last subscription ended. The session stayed `offline` for ever, because
/// it asks for nothing any more.
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

/// Between two batches: the removal tombstones of an ended subscription came back at the next opening.
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

/// A document was pushed before the first load, then deleted and forgotten. A load that ends without
/// `present` kept it.
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

/// Two operations depended on a refused one that was amended, and each was listed twice. An operation dropped
/// by a conflict was resolved a second time.
#[test]
fn what_stands_on_an_amended_operation_is_settled_once() {
    replay(
        &Plan { clients: 1, ..PLAN },
        849,
        &[
            Action::Op { client: 1, what: 54, doc: 0, arg: 164 },
            Action::Op { client: 0, what: 74, doc: 0, arg: 232 },
            Action::Wait { ticks: 128 },
            Action::Write { doc: 0, section: 3, tags: 1, life: 1 },
        ],
    );
}

/// One copy of a request was refused for its size, another one was executed. The application saw a
/// refusal.
#[test]
fn r11_what_was_refused_for_its_size_may_have_passed() {
    let actions = [
        Action::Faults { loss: 29, twice: 254, late: 22 },
        Action::Op { client: 1, what: 62, doc: 7, arg: 213 },
        Action::Wait { ticks: 4 },
        Action::Write { doc: 8, section: 0, tags: 5, life: 0 },
        Action::Write { doc: 6, section: 0, tags: 2, life: 0 },
        Action::Op { client: 1, what: 181, doc: 7, arg: 47 },
        Action::Subscribe { client: 1, def: 0 },
        Action::Write { doc: 7, section: 0, tags: 1, life: 0 },
        Action::Push { on: true },
        Action::Wait { ticks: 196 },
        Action::Op { client: 0, what: 126, doc: 7, arg: 162 },
        Action::Refuse { count: 2, how: 2 },
        Action::Op { client: 1, what: 89, doc: 6, arg: 50 },
        Action::Write { doc: 4, section: 2, tags: 1, life: 0 },
        Action::Op { client: 0, what: 61, doc: 3, arg: 5 },
        Action::Wait { ticks: 193 },
    ];
    replay(&Plan { instances: 2, ..PLAN }, 383, &actions);
}

/// A request was refused for its size, and executed all the same. The next request took fewer operations, and
/// the others lost the numbers that they were executed under. Their effects were shown twice.
#[test]
fn what_a_smaller_request_leaves_out_keeps_its_number() {
    let actions = [
        Action::Write { doc: 6, section: 1, tags: 6, life: 3 },
        Action::Write { doc: 6, section: 1, tags: 7, life: 2 },
        Action::Write { doc: 6, section: 3, tags: 6, life: 0 },
        Action::Mode { client: 0 },
        Action::Op { client: 0, what: 134, doc: 7, arg: 66 },
        Action::Subscribe { client: 0, def: 3 },
        Action::Op { client: 2, what: 160, doc: 4, arg: 157 },
        Action::Subscribe { client: 1, def: 4 },
        Action::Network { client: 0 },
        Action::Op { client: 2, what: 209, doc: 6, arg: 213 },
        Action::Faults { loss: 71, twice: 255, late: 142 },
        Action::Op { client: 0, what: 111, doc: 4, arg: 49 },
        Action::Wait { ticks: 237 },
        Action::Network { client: 0 },
        Action::Refuse { count: 2, how: 2 },
        Action::Subscribe { client: 2, def: 0 },
        Action::Mode { client: 0 },
        Action::Wait { ticks: 167 },
    ];
    replay(&Plan { instances: 2, ..PLAN }, 2639, &actions);
}

/// Operations were renumbered after the first of them was refused. A late copy of the request before then
/// used up the last number. The operation sent next under that number was taken for executed when a push gave
/// the server's progress.
#[test]
fn a_number_that_was_on_its_way_before_tells_nothing_of_what_has_it_now() {
    let actions = [
        Action::Faults { loss: 60, twice: 20, late: 222 },
        Action::Op { client: 2, what: 111, doc: 6, arg: 248 },
        Action::Op { client: 2, what: 149, doc: 3, arg: 111 },
        Action::Op { client: 2, what: 202, doc: 6, arg: 23 },
        Action::Op { client: 2, what: 162, doc: 3, arg: 202 },
        Action::Wait { ticks: 228 },
        Action::Subscribe { client: 2, def: 1 },
        Action::Reopen { client: 2 },
        Action::Op { client: 2, what: 130, doc: 5, arg: 41 },
        Action::Faults { loss: 0, twice: 230, late: 102 },
        Action::Push { on: true },
        Action::Reopen { client: 2 },
        Action::WaitLong { seconds: 128 },
        Action::Op { client: 2, what: 43, doc: 2, arg: 64 },
        Action::Op { client: 0, what: 122, doc: 8, arg: 174 },
    ];
    replay(&Plan { clients: 3, incognito: true, instances: 2, ..PLAN }, 2094, &actions);
}
