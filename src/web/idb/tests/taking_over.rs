//! Beginning a generation, and reading the state in the same transaction.

use wasm_bindgen_test::wasm_bindgen_test;

use super::{fresh, one};
use crate::crypto::Sealed;
use crate::store::{Batch, Device, RecordKey, Store, Table};
use crate::web::idb::IdbDevice;

#[wasm_bindgen_test]
async fn who_takes_over_sees_the_state_in_which_its_generation_began() {
    let store = fresh("taken-over").await;
    let keys = [RecordKey([2; 16]), RecordKey([1; 16])];
    store.commit(one(1)).await.expect("committed");
    let taken = store.take_over_peeking(0, &keys).await.expect("taken");
    assert_eq!(taken, Some((1, vec![None, Some(vec![1; 10])])), "in the order of the keys");
    assert_eq!(store.begun(), 1);
    assert_eq!(store.take_over_peeking(0, &keys).await.expect("no error"), None, "somebody was first");
    assert_eq!(store.begun(), 1);
    // A batch that the earlier leader sent meanwhile is either written before, and then seen, or not written.
    let (sent, taken) = {
        let other = IdbDevice::new().open("taken-over", false).await.expect("opened").expect("there");
        let mut batch = one(2);
        batch.generation = Some(1);
        let sent = store.commit(batch).await;
        let taken = other.take_over_peeking(1, &keys).await.expect("taken");
        other.close().await;
        (sent, taken)
    };
    sent.expect("it led then");
    assert_eq!(taken, Some((2, vec![Some(vec![2; 10]), Some(vec![1; 10])])));
    store.close().await;
    IdbDevice::new().delete("taken-over").await.expect("deleted");
}

/// Chromium stores values over 64 KiB separately, and may end the transaction before it has read them.
#[wasm_bindgen_test]
async fn who_takes_over_sees_large_records_as_well() {
    let store = fresh("taken-over-large").await;
    let keys: Vec<RecordKey> = (1..=4).map(|n| RecordKey([n; 16])).collect();
    let records = [3_000_000, 10, 200_000, 1_000_000];
    let puts = keys
        .iter()
        .zip(records)
        .map(|(key, size)| (Table::State, *key, Sealed::stand_in(vec![key.0[0]; size])))
        .collect();
    store.commit(Batch { puts, ..Batch::default() }).await.expect("committed");
    for seen in 0..10 {
        let (generation, found) =
            store.take_over_peeking(seen, &keys).await.expect("no error").expect("nobody was first");
        assert_eq!(generation, seen + 1);
        let sizes: Vec<usize> = found.iter().flatten().map(Vec::len).collect();
        assert_eq!(sizes, records);
    }
    store.close().await;
    IdbDevice::new().delete("taken-over-large").await.expect("deleted");
}
