//! No transaction may need its page to end.

use wasm_bindgen_test::wasm_bindgen_test;

use super::{Patch, fresh, js, one};
use crate::crypto::Sealed;
use crate::store::{Batch, Device, RecordKey, Store, Table};
use crate::web::idb::IdbDevice;
use crate::web::idb::ending::is_whole;

/// A frozen page ends no transaction. Chromium keeps one that was not committed explicitly open for a minute,
/// and blocks every tab that writes to its tables.
#[wasm_bindgen_test]
async fn no_transaction_of_a_leader_waits_for_its_page_to_end() {
    const WATCH: &str =
        "const { transaction } = IDBDatabase.prototype, { commit } = IDBTransaction.prototype;
         globalThis.open = new Map();
         IDBDatabase.prototype.transaction = function (...args) {
             const made = transaction.apply(this, args);
             open.set(made, `${made.mode} ${[...made.objectStoreNames]}`);
             return made;
         };
         IDBTransaction.prototype.commit = function () { open.delete(this); return commit.call(this); };
         globalThis.unwatch = () => {
             IDBDatabase.prototype.transaction = transaction; IDBTransaction.prototype.commit = commit;
         };";
    let store = fresh("unended").await;
    store.take_over(0).await.expect("taken");
    store.commit(Batch { mark: Some(Sealed::stand_in([1])), ..one(1) }).await.expect("committed");
    let _patch = Patch::new(WATCH, "unwatch();").await;
    // More requests than one listing gives, and more than were once read at a time. The first ones must not
    // be left out.
    for hundred in 0..11_u8 {
        let request = |n: u8| {
            (
                Table::Inbox,
                RecordKey([[hundred, n]; 8].concat().try_into().expect("16")),
                Sealed::stand_in([n]),
            )
        };
        let puts = (0..100).map(request).collect();
        store.commit(Batch { puts, hands_in: true, ..Batch::default() }).await.expect("handed in");
    }
    let found = store.inbox().await.expect("read");
    assert_eq!(found.len(), 1_100);
    assert!(found.is_sorted() && found.iter().all(|(key, bytes)| key.0[1] == bytes[0]));
    assert_eq!(store.generation().await.expect("read"), 1);
    store.header().await.expect("read");
    store.get(Table::State, &[RecordKey([1; 16])]).await.expect("read");
    store.read_pages(&[RecordKey([1; 16])]).await.expect("read");
    store.backup_header().await.expect("read");
    store
        .commit(Batch { mark: Some(Sealed::stand_in([2])), generation: Some(1), ..one(2) })
        .await
        .expect("committed");
    // If the browser does not write such a transaction whole or not at all, none that writes is committed
    // explicitly.
    let is_whole = is_whole().into();
    let told = js(
        "const all = [...open.values()], reading = all.filter((what) => what.startsWith('readonly'));
         return (args[0] ? all : reading).join('; ');",
        &[&is_whole],
    )
    .await;
    assert_eq!(told.as_string().as_deref(), Some(""));
    store.close().await;
    IdbDevice::new().delete("unended").await.expect("deleted");
}
