//! The promises that must hold after a fault, once everything has recovered.

use std::collections::{BTreeMap, BTreeSet};

use escale::Code;
use escale::model::{Def, Pk};
use escale::store::Table;
use escale::sync::StorageState;

use crate::client::Client;
use crate::scenarios::Scenario;
use escale_testkit::backend::{Backend, Tenant};

/// Lets the session continue until it is in step, then checks every promise.
pub fn check(client: &mut Client, scenario: Scenario, destroys: bool, what: &str) {
    client.is_offline = false;
    client.settle();
    // Everything that the server has is pulled once more.
    client.wait(300_000);
    client.settle();
    check_operations(client, what);
    check_documents(client, what);
    let status = client.machine().status();
    let is_told = client.told_lost > 0 || scenario.damages();
    let is_fine = status.storage == StorageState::Ok || (is_told && status.storage == StorageState::Lost);
    assert!(is_fine, "{what}: the storage is {:?}, {:?}", status.storage, status.error);
    // A store that was behind its mark is of interest until the server has sent everything again.
    let shown = status.error.as_ref().filter(|error| error.code() != Code::LocalDataLost);
    assert!(shown.is_none(), "{what}: nothing is wrong any more, and {shown:?} is shown");
    assert!(client.machine().memory().is_clean(), "{what}: something is not at rest");
    check_rest(client, what);
    // The stored state is consistent and complete.
    let before = state(client);
    client.close();
    client.open();
    let damage = client.damage;
    assert!(!damage.any(), "{what}: {damage:?} after all has healed");
    assert_eq!(state(client), before, "{what}: what rests is not what was shown");
    assert!(destroys || scenario.damages() || client.told_lost == 0, "{what}: told of a loss that was none");
}

/// R10 and R11: every operation reported as saved is executed once, or its loss is reported.
fn check_operations(client: &Client, what: &str) {
    let executed = &client.server.db.operations.executed;
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for (_, id) in executed {
        *counts.entry(id).or_default() += 1;
    }
    assert!(counts.values().all(|count| *count == 1), "{what}: executed twice");
    let waiting: BTreeSet<&str> =
        client.machine().operations().into_iter().map(|(op, _)| op.state.issued.id.as_str()).collect();
    let mut lost = 0;
    for (id, _) in client.issued.iter().filter(|(_, saved)| **saved) {
        let is_known = !client.server.results(Tenant::default(), id).is_empty();
        if !is_known && !client.left.contains(id) && !waiting.contains(id.as_str()) {
            lost += 1;
        }
    }
    assert!(lost <= client.told_lost, "{what}: {lost} saved operations are lost, {} told", client.told_lost);
    assert!(lost == 0 || client.was_told, "{what}: a loss was not told as one");
}

type Shown = BTreeMap<Def, BTreeMap<Pk, u64>>;

fn state(client: &Client) -> Shown {
    let memory = client.machine().memory();
    let members = |def: &Def| {
        let collection = memory.collection(def).expect("listed");
        let pks = collection.set.keys().map(|pk| {
            let key = memory.doc_key(def.class(), pk).expect("a class");
            (pk.clone(), memory.document(&key).map_or(0, |document| document.at.v))
        });
        pks.collect()
    };
    memory.collections().map(|(def, _)| (def.clone(), members(def))).collect()
}

/// R9: each collection equals the server's, and each of its documents can be read.
fn check_documents(client: &mut Client, what: &str) {
    for (def, members) in state(client) {
        let theirs: BTreeMap<Pk, u64> = client
            .server
            .db
            .members(&def, client.now)
            .map(|(key, stored)| (key.1.clone(), stored.v))
            .collect();
        assert_eq!(members, theirs, "{what}: {def} is not the server's");
        client.read(&def);
        let answer = client.answers.pop().expect("an answer");
        let hidden = client.machine().operations().len();
        let count = answer.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(count + hidden >= theirs.len(), "{what}: {count} of {} documents of {def}", theirs.len());
    }
}

/// Nothing unreferenced is stored: no page, no finished operation.
fn check_rest(client: &Client, what: &str) {
    let (mut pages, mut journal, mut state) = (0, 0, 0);
    client.device.inner.tamper(&Client::store_name(), |records| {
        for (table, _) in records.keys() {
            match table {
                Table::Pages => pages += 1,
                Table::Journal => journal += 1,
                Table::State => state += 1,
                Table::Inbox => panic!("{what}: a session alone hands nothing in"),
            }
        }
    });
    let rest = client.machine().layout().expect("a device");
    assert_eq!(pages, rest.page_counts().0, "{what}: pages that nobody knows, or none that are known");
    let summary = rest.journal_summary();
    assert_eq!(journal, summary.records, "{what}: journal records that nobody knows");
    assert!(state > 0, "{what}: no state at rest");
}
