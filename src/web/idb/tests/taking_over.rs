//! Beginning a generation, and looking at the state of that moment in the same transaction.

use wasm_bindgen_test::wasm_bindgen_test;

use super::{fresh, one};
use crate::store::{Device, RecordKey, Store};
use crate::web::idb::IdbDevice;

#[wasm_bindgen_test]
async fn who_takes_over_sees_the_state_in_which_its_generation_began() {
    let store = fresh("taken-over").await;
    let keys = [RecordKey([2; 16]), RecordKey([1; 16])];
    store.commit(one(1)).await.expect("committed");
    let taken = store.take_over_looking(0, &keys).await.expect("taken");
    assert_eq!(taken, Some((1, vec![None, Some(vec![1; 10])])), "in the order of the keys");
    assert_eq!(store.begun(), 1);
    assert_eq!(store.take_over_looking(0, &keys).await.expect("no error"), None, "somebody was first");
    assert_eq!(store.begun(), 1);
    // What an earlier leader sent meanwhile is written before, and seen, or not written at all.
    let (sent, taken) = {
        let other = IdbDevice::new().open("taken-over", false).await.expect("opened").expect("there");
        let mut batch = one(2);
        batch.generation = Some(1);
        let sent = store.commit(batch).await;
        let taken = other.take_over_looking(1, &keys).await.expect("taken");
        other.close().await;
        (sent, taken)
    };
    sent.expect("it led then");
    assert_eq!(taken, Some((2, vec![Some(vec![2; 10]), Some(vec![1; 10])])));
    store.close().await;
    IdbDevice::new().delete("taken-over").await.expect("deleted");
}
