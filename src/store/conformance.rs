//! The suite that every [`Device`] must pass, however it stores its records.
//!
//! It panics at the first broken promise and names it. It runs natively on the twin in memory, and in
//! Chromium and in Firefox on IndexedDB (`src/web/idb/tests.rs`).

use std::future::Future;
use std::task::{Context, Poll, Waker};

use super::{BackupHeader, Batch, Device, Durability, FENCES_KEPT, RecordKey, Store, Table};
use crate::crypto::Sealed;
use crate::error::Code;

/// Runs a future that never waits for an outside event, as those of the twin in memory.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = Box::pin(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a future of the memory twin waits for the outside"),
    }
}

/// Every test for a device whose stores have one holder at a time. Each test has its own store.
pub async fn all<D: Device>(device: &D) {
    every(device).await;
    a_store_has_one_owner(device).await;
    a_store_opened_again_is_still_owned(device).await;
}

/// The tests for any device.
async fn every<D: Device>(device: &D) {
    a_store_that_is_not_there_is_not_made(device).await;
    what_was_written_is_read_back(device).await;
    a_batch_replaces_and_deletes(device).await;
    a_scan_goes_on_in_order_and_keeps_to_its_table(device).await;
    a_lone_holder_leads(device).await;
    what_was_written_outlives_the_holder(device).await;
    a_closed_store_says_so(device).await;
    a_deleted_store_is_gone(device).await;
    batches_sent_at_once_all_settle_in_order(device).await;
    a_batch_that_clears_leaves_nothing_else(device).await;
    what_stands_beside_is_kept_apart(device).await;
    the_copy_of_the_journal_is_kept_beside(device).await;
    what_is_handed_in_is_kept_beside(device).await;
    a_store_opened_again_is_the_same(device).await;
}

/// Every test for a shared device: several sessions have a store open.
pub async fn shared<D: Device>(device: &D) {
    every(device).await;
    a_store_is_shared(device).await;
    a_snapshot_is_of_one_moment(device).await;
    a_later_generation_ends_the_earlier_ones(device).await;
    only_one_takes_over(device).await;
    old_fences_are_pruned_and_still_hold(device).await;
    a_store_deleted_under_its_holder_says_so(device).await;
    what_is_asked_for_outlives_a_batch_that_clears(device).await;
}

async fn fresh<D: Device>(device: &D, name: &str) -> D::Store {
    device.delete(name).await.expect("delete");
    device.open(name, true).await.expect("open").expect("made")
}

fn key(n: u8) -> RecordKey {
    let mut bytes = [7; 16];
    bytes[0] = n;
    RecordKey(bytes)
}

fn put(table: Table, n: u8, byte: u8, len: usize) -> Batch {
    Batch { puts: vec![(table, key(n), Sealed::stand_in(vec![byte; len]))], ..Batch::default() }
}

async fn copies_of<S: Store>(store: &S, table: Table) -> Vec<(RecordKey, Vec<u8>)> {
    let copies = store.copies(table).await.expect("copies").into_iter();
    let mut copies: Vec<_> = copies.map(|(key, sealed)| (key, sealed.into_bytes())).collect();
    copies.sort();
    copies
}

async fn a_store_that_is_not_there_is_not_made<D: Device>(device: &D) {
    device.delete("absent").await.expect("delete");
    assert!(device.open("absent", false).await.expect("open").is_none(), "nothing to open");
    assert!(device.open("absent", false).await.expect("open").is_none(), "and looking did not make it");
}

async fn what_was_written_is_read_back<D: Device>(device: &D) {
    let store = fresh(device, "read-back").await;
    assert_eq!(store.header().await.expect("header"), None, "a new store has no header");
    let batch = Batch { header: Some(vec![1, 2, 3]), ..put(Table::Pages, 1, 9, 100_000) };
    store.commit(batch).await.expect("commit");
    store
        .commit(Batch { durability: Durability::Strict, ..put(Table::Journal, 1, 8, 0) })
        .await
        .expect("strict");
    assert_eq!(store.header().await.expect("header"), Some(vec![1, 2, 3]));
    let got = store.get(Table::Pages, &[key(2), key(1), key(1)]).await.expect("get");
    assert_eq!(got, vec![None, Some(vec![9; 100_000]), Some(vec![9; 100_000])], "in the order asked");
    assert_eq!(
        store.get(Table::Journal, &[key(1)]).await.expect("get"),
        vec![Some(vec![])],
        "empty is not absent"
    );
    assert_eq!(store.get(Table::State, &[key(1)]).await.expect("get"), vec![None], "tables are apart");
    assert!(store.get(Table::State, &[]).await.expect("get").is_empty());
    store.commit(Batch::default()).await.expect("an empty batch");
    store.close().await;
}

async fn a_batch_replaces_and_deletes<D: Device>(device: &D) {
    let store = fresh(device, "replace").await;
    let mut batch = put(Table::State, 1, 1, 4);
    batch.puts.extend(put(Table::State, 2, 2, 4).puts);
    store.commit(batch).await.expect("commit");
    let mut batch = put(Table::State, 2, 5, 2);
    batch.deletes = vec![(Table::State, key(1)), (Table::State, key(9))];
    store.commit(batch).await.expect("commit");
    let got = store.get(Table::State, &[key(1), key(2)]).await.expect("get");
    assert_eq!(got, vec![None, Some(vec![5; 2])]);
    // A record that one batch both deletes and puts is kept.
    let batch = Batch { deletes: vec![(Table::State, key(2))], ..put(Table::State, 2, 6, 1) };
    store.commit(batch).await.expect("commit");
    assert_eq!(store.get(Table::State, &[key(2)]).await.expect("get"), vec![Some(vec![6])]);
    store.close().await;
}

async fn a_scan_goes_on_in_order_and_keeps_to_its_table<D: Device>(device: &D) {
    let store = fresh(device, "scan").await;
    let mut batch = Batch::default();
    for n in [200, 3, 128, 4, 127] {
        batch.puts.extend(put(Table::Pages, n, n, 3).puts);
        batch.puts.extend(put(Table::State, n, 0, 1).puts);
    }
    store.commit(batch).await.expect("commit");
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let found = store.scan(Table::Pages, after, 2).await.expect("scan");
        let Some((last, _)) = found.last() else { break };
        after = Some(*last);
        assert!(found.len() <= 2, "no more than asked");
        seen.extend(found.into_iter().map(|(key, bytes)| (key.0[0], bytes)));
    }
    let want: Vec<(u8, Vec<u8>)> = [3, 4, 127, 128, 200].map(|n| (n, vec![n; 3])).into();
    assert_eq!(seen, want, "ascending by unsigned bytes");
    store.close().await;
}

async fn a_store_has_one_owner<D: Device>(device: &D) {
    let store = fresh(device, "owner").await;
    let error = device.open("owner", true).await.err().expect("refused");
    assert_eq!(error.code(), Code::StoreInUse);
    assert_eq!(device.delete("owner").await.expect_err("refused").code(), Code::StoreInUse);
    store.close().await;
    let again = device.open("owner", false).await.expect("open").expect("there");
    again.close().await;
}

async fn a_lone_holder_leads<D: Device>(device: &D) {
    let store = fresh(device, "alone").await;
    let mut batch = Batch { header: Some(vec![1]), ..put(Table::State, 2, 2, 1) };
    batch.puts.extend([put(Table::State, 1, 1, 1), put(Table::Journal, 3, 3, 1)].map(|b| b.puts).concat());
    store.commit(batch).await.expect("commit");
    let seen = store.generation().await.expect("read");
    let generation = store.take_over(seen).await.expect("nobody else is there");
    assert_eq!(generation, Some(seen + 1));
    store.commit(Batch { generation, ..put(Table::State, 2, 4, 1) }).await.expect("commit");
    let found = store.snapshot().await.expect("snapshot");
    assert_eq!(found.header, Some(vec![1]));
    assert_eq!(found.records[Table::State], vec![(key(1), vec![1]), (key(2), vec![4])]);
    assert_eq!(found.records[Table::Journal], vec![(key(3), vec![3])]);
    assert!(found.records[Table::Inbox].is_empty());
    store.close().await;
}

async fn a_store_is_shared<D: Device>(device: &D) {
    let one = fresh(device, "shared").await;
    let two = device.open("shared", false).await.expect("open").expect("there");
    one.commit(put(Table::State, 1, 1, 1)).await.expect("commit");
    assert_eq!(two.get(Table::State, &[key(1)]).await.expect("get"), vec![Some(vec![1])]);
    two.commit(put(Table::Inbox, 2, 2, 1)).await.expect("commit");
    assert_eq!(one.scan(Table::Inbox, None, 9).await.expect("scan"), vec![(key(2), vec![2])]);
    one.close().await;
    assert_eq!(two.get(Table::State, &[key(1)]).await.expect("get"), vec![Some(vec![1])], "one may go");
    two.close().await;
}

async fn a_snapshot_is_of_one_moment<D: Device>(device: &D) {
    let store = fresh(device, "snapshot").await;
    let empty = store.snapshot().await.expect("snapshot");
    assert!(empty.header.is_none() && empty.generation == 0);
    assert!(Table::ALL.into_iter().all(|table| empty.records[table].is_empty()));
    let mut batch = Batch { header: Some(vec![1, 2]), ..Batch::default() };
    for table in Table::ALL {
        let n = table.name().as_bytes()[0];
        batch.puts.extend([put(table, 255, 1, 2), put(table, n, n, 2)].map(|batch| batch.puts).concat());
    }
    store.commit(batch).await.expect("commit");
    assert_eq!(store.take_over(0).await.expect("taken"), Some(1));
    let found = store.snapshot().await.expect("snapshot");
    assert_eq!(found.header, Some(vec![1, 2]));
    for table in Table::ALL {
        let n = table.name().as_bytes()[0];
        let all = vec![(key(n), vec![n; 2]), (key(255), vec![1; 2])];
        let wanted = if table.is_read_whole() { all } else { Vec::new() };
        assert_eq!(found.records[table], wanted, "in the order of the keys");
    }
    assert_eq!(found.generation, 1);
    store.close().await;
}

async fn a_later_generation_ends_the_earlier_ones<D: Device>(device: &D) {
    let (one, two) = (fresh(device, "fence").await, device.open("fence", true).await.expect("open"));
    let two = two.expect("there");
    let of = |generation, batch| Batch { generation: Some(generation), ..batch };
    one.commit(of(0, put(Table::State, 1, 1, 1))).await.expect("nobody has taken over");
    assert_eq!(one.take_over(0).await.expect("taken"), Some(1));
    one.commit(of(1, put(Table::State, 1, 2, 1))).await.expect("it leads");
    one.commit(of(1, put(Table::State, 1, 3, 1))).await.expect("and goes on");
    assert_eq!(two.generation().await.expect("read"), 1);
    assert_eq!(two.take_over(1).await.expect("taken"), Some(2));
    for generation in [0, 1] {
        let mut batch = of(generation, put(Table::State, 1, 9, 1));
        batch.header = Some(vec![9]);
        batch.deletes = vec![(Table::State, key(2))];
        assert_eq!(one.commit(batch).await.expect_err("deposed").code(), Code::Deposed);
    }
    assert_eq!(one.get(Table::State, &[key(1)]).await.expect("get"), vec![Some(vec![3])]);
    assert_eq!(one.header().await.expect("header"), None, "nothing of it was written");
    two.commit(of(2, put(Table::State, 1, 4, 1))).await.expect("the new one leads");
    one.commit(put(Table::Inbox, 1, 1, 1)).await.expect("the inbox takes from whoever writes");
    two.close().await;
    // A session that opens later sees the same generation.
    assert_eq!(one.generation().await.expect("read"), 2);
    one.close().await;
}

async fn only_one_takes_over<D: Device>(device: &D) {
    let (one, two) = (fresh(device, "race").await, device.open("race", true).await.expect("open"));
    let two = two.expect("there");
    let (mut a, mut b) = (Box::pin(one.take_over(0)), Box::pin(two.take_over(0)));
    let (mut first, mut second) = (None, None);
    // Both calls are started before either is awaited.
    std::future::poll_fn(|context| {
        for (slot, future) in [(&mut first, &mut a), (&mut second, &mut b)] {
            if slot.is_none()
                && let Poll::Ready(taken) = future.as_mut().poll(context)
            {
                *slot = Some(taken.expect("no failure"));
            }
        }
        if first.is_some() && second.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    drop((a, b));
    let mut taken = [first.flatten(), second.flatten()];
    taken.sort_unstable();
    assert_eq!(taken, [None, Some(1)]);
    one.close().await;
    two.close().await;
}

async fn old_fences_are_pruned_and_still_hold<D: Device>(device: &D) {
    let store = fresh(device, "prune").await;
    for seen in 0..FENCES_KEPT + 3 {
        assert_eq!(store.take_over(seen).await.expect("taken"), Some(seen + 1));
    }
    assert_eq!(store.generation().await.expect("read"), FENCES_KEPT + 3);
    let oldest = Batch { generation: Some(3), ..put(Table::State, 1, 1, 1) };
    assert_eq!(store.commit(oldest).await.expect_err("deposed").code(), Code::Deposed);
    store.close().await;
}

async fn a_store_deleted_under_its_holder_says_so<D: Device>(device: &D) {
    let store = fresh(device, "under").await;
    store.commit(put(Table::State, 1, 1, 1)).await.expect("commit");
    device.delete("under").await.expect("delete");
    assert_eq!(store.get(Table::State, &[key(1)]).await.expect_err("gone").code(), Code::Closed);
    assert_eq!(store.commit(put(Table::State, 1, 1, 1)).await.expect_err("gone").code(), Code::Closed);
    assert_eq!(store.reopen().await.expect_err("gone").code(), Code::Closed, "nor is it made anew");
    store.close().await;
    assert!(device.open("under", false).await.expect("open").is_none());
}

async fn what_is_asked_for_outlives_a_batch_that_clears<D: Device>(device: &D) {
    let store = fresh(device, "asked").await;
    store.commit(put(Table::Inbox, 1, 1, 1)).await.expect("commit");
    assert_eq!(store.take_over(0).await.expect("taken"), Some(1));
    store.commit(Batch { clear: true, ..put(Table::State, 2, 2, 1) }).await.expect("commit");
    assert_eq!(store.scan(Table::Inbox, None, 9).await.expect("scan"), vec![(key(1), vec![1])]);
    assert_eq!(store.generation().await.expect("read"), 1, "generations go on");
    store.close().await;
}

async fn what_was_written_outlives_the_holder<D: Device>(device: &D) {
    let store = fresh(device, "outlive").await;
    store.commit(put(Table::State, 1, 1, 1)).await.expect("commit");
    store.close().await;
    let store = device.open("outlive", false).await.expect("open").expect("there");
    assert_eq!(store.get(Table::State, &[key(1)]).await.expect("get"), vec![Some(vec![1])]);
    store.close().await;
}

async fn a_closed_store_says_so<D: Device>(device: &D) {
    let store = fresh(device, "closed").await;
    store.close().await;
    store.close().await;
    assert_eq!(store.header().await.expect_err("closed").code(), Code::Closed);
    assert_eq!(store.get(Table::State, &[key(1)]).await.expect_err("closed").code(), Code::Closed);
    assert_eq!(store.scan(Table::State, None, 1).await.expect_err("closed").code(), Code::Closed);
    assert_eq!(store.commit(put(Table::State, 1, 1, 1)).await.expect_err("closed").code(), Code::Closed);
}

async fn a_deleted_store_is_gone<D: Device>(device: &D) {
    let store = fresh(device, "deleted").await;
    store.commit(Batch { header: Some(vec![1]), ..put(Table::State, 1, 1, 1) }).await.expect("commit");
    store.close().await;
    device.delete("deleted").await.expect("delete");
    device.delete("deleted").await.expect("deleting nothing is no error");
    assert!(device.open("deleted", false).await.expect("open").is_none());
}

async fn batches_sent_at_once_all_settle_in_order<D: Device>(device: &D) {
    let store = fresh(device, "order").await;
    let batches = (1..=3).map(|n| put(Table::State, 1, n, 1));
    let mut commits: Vec<_> = batches.map(|batch| Some(Box::pin(store.commit(batch)))).collect();
    // All commits are started before the first is awaited.
    std::future::poll_fn(|context| {
        for slot in &mut commits {
            let result = slot.as_mut().map(|commit| commit.as_mut().poll(context));
            if let Some(Poll::Ready(result)) = result {
                result.expect("commit");
                *slot = None;
            }
        }
        if commits.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let got = store.get(Table::State, &[key(1)]).await.expect("get");
    assert_eq!(got, vec![Some(vec![3])], "the last one sent is the last one written");
    store.close().await;
}

async fn a_batch_that_clears_leaves_nothing_else<D: Device>(device: &D) {
    let store = fresh(device, "clear").await;
    let leaders = Table::ALL.into_iter().filter(|table| !table.is_shared());
    for table in leaders.clone() {
        store.commit(Batch { header: Some(vec![1]), ..put(table, 1, 1, 3) }).await.expect("commit");
    }
    store.commit(Batch { clear: true, ..put(Table::Pages, 2, 2, 1) }).await.expect("commit");
    assert_eq!(store.header().await.expect("header"), None);
    let mut left = Vec::new();
    for table in leaders {
        left.extend(store.scan(table, None, 10).await.expect("scan").into_iter().map(|(k, _)| (table, k)));
    }
    assert_eq!(left, [(Table::Pages, key(2))]);
    store.close().await;
}

async fn what_stands_beside_is_kept_apart<D: Device>(device: &D) {
    let store = fresh(device, "backup").await;
    assert_eq!(store.backup_header().await.expect("the header"), BackupHeader::default());
    store
        .commit(Batch { header: Some(vec![1]), mark: Some(Sealed::stand_in([2])), ..Batch::default() })
        .await
        .expect("commit");
    store
        .commit(Batch { mark: Some(Sealed::stand_in([3])), ..put(Table::State, 1, 1, 1) })
        .await
        .expect("commit");
    store.commit(Batch { clear: true, ..Batch::default() }).await.expect("commit");
    store.close().await;
    let store = device.open("backup", false).await.expect("open").expect("there");
    let backup_header = BackupHeader { header: Some(vec![1]), mark: Some(vec![3]) };
    assert_eq!(
        store.backup_header().await.expect("the header"),
        backup_header,
        "clearing the store leaves it"
    );
    store.close().await;
    device.delete("backup").await.expect("delete");
    let store = device.open("backup", true).await.expect("open").expect("made");
    assert_eq!(
        store.backup_header().await.expect("the header"),
        BackupHeader::default(),
        "deleting takes it too"
    );
    store.close().await;
}

async fn the_copy_of_the_journal_is_kept_beside<D: Device>(device: &D) {
    let copies = async |store: &D::Store| copies_of(store, Table::Journal).await;
    let marked = |batch: Batch| Batch { mark: Some(Sealed::stand_in([1])), ..batch };
    let store = fresh(device, "copies").await;
    assert_eq!(copies(&store).await, []);
    store.commit(put(Table::Journal, 1, 1, 1)).await.expect("commit");
    assert_eq!(copies(&store).await, [], "without a mark the backup gets nothing");
    store.commit(marked(put(Table::Journal, 2, 2, 1))).await.expect("commit");
    store.commit(marked(put(Table::State, 3, 3, 1))).await.expect("commit");
    assert_eq!(copies(&store).await, [(key(2), vec![2])], "what batches do to the journal");
    store.commit(Batch { recopy: true, ..marked(put(Table::Journal, 4, 4, 1)) }).await.expect("commit");
    let all = [(key(1), vec![1]), (key(2), vec![2]), (key(4), vec![4])];
    assert_eq!(copies(&store).await, all, "all that the store holds");
    let deletes = vec![(Table::Journal, key(1)), (Table::State, key(2)), (Table::Journal, key(4))];
    store.commit(marked(Batch { deletes, ..put(Table::Journal, 4, 5, 1) })).await.expect("commit");
    store.close().await;
    let store = device.open("copies", false).await.expect("open").expect("there");
    assert_eq!(copies(&store).await, [(key(2), vec![2]), (key(4), vec![5])], "what is both is written");
    let batch = Batch { clear: true, recopy: true, ..marked(put(Table::Journal, 6, 6, 1)) };
    store.commit(batch).await.expect("commit");
    assert_eq!(copies(&store).await, [(key(6), vec![6])]);
    store.close().await;
    device.delete("copies").await.expect("delete");
    let store = device.open("copies", true).await.expect("open").expect("made");
    assert_eq!(copies(&store).await, [], "deleting takes it too");
    store.close().await;
}

async fn what_is_handed_in_is_kept_beside<D: Device>(device: &D) {
    let copies = async |store: &D::Store| copies_of(store, Table::Inbox).await;
    let store = fresh(device, "requests").await;
    assert_eq!(copies(&store).await, []);
    let mut batch = put(Table::Inbox, 1, 1, 1);
    batch.puts.extend(put(Table::Inbox, 2, 2, 1).puts);
    store.commit(Batch { hands_in: true, ..batch }).await.expect("commit");
    store.commit(put(Table::Inbox, 3, 3, 1)).await.expect("a sign of life");
    assert_eq!(copies(&store).await, [(key(1), vec![1]), (key(2), vec![2])], "what is to be done alone");
    let deletes = vec![(Table::Inbox, key(1))];
    store
        .commit(Batch { deletes, mark: Some(Sealed::stand_in([1])), ..put(Table::Journal, 1, 1, 1) })
        .await
        .expect("commit");
    assert_eq!(copies(&store).await, [(key(2), vec![2])], "what is carried out goes");
    let deletes = vec![(Table::Inbox, key(2))];
    let batch = Batch { deletes, mark: Some(Sealed::stand_in([2])), recopy: true, ..Batch::default() };
    store.commit(batch).await.expect("commit");
    assert_eq!(copies(&store).await, [(key(3), vec![3])], "made anew, it has what the store has");
    store
        .commit(Batch { clear: true, mark: Some(Sealed::stand_in([3])), ..Batch::default() })
        .await
        .expect("commit");
    assert_eq!(copies(&store).await, [(key(3), vec![3])], "clearing the store leaves it");
    store.close().await;
    device.delete("requests").await.expect("delete");
    let store = device.open("requests", true).await.expect("open").expect("made");
    assert_eq!(copies(&store).await, [], "deleting takes it too");
    store.close().await;
}

async fn a_store_opened_again_is_still_owned<D: Device>(device: &D) {
    let store = fresh(device, "still").await;
    store.reopen().await.expect("reopened");
    let error = device.open("still", true).await.err().expect("refused");
    assert_eq!(error.code(), Code::StoreInUse);
    store.close().await;
}

async fn a_store_opened_again_is_the_same<D: Device>(device: &D) {
    let store = fresh(device, "again").await;
    store
        .commit(Batch { mark: Some(Sealed::stand_in([9])), ..put(Table::State, 1, 1, 1) })
        .await
        .expect("commit");
    store.reopen().await.expect("reopened");
    assert_eq!(store.get(Table::State, &[key(1)]).await.expect("get"), vec![Some(vec![1])]);
    store.commit(put(Table::State, 2, 2, 1)).await.expect("commit");
    assert_eq!(store.backup_header().await.expect("the header").mark, Some(vec![9]));
    store.close().await;
    assert_eq!(store.reopen().await.expect_err("closed").code(), Code::Closed);
    let store = device.open("again", false).await.expect("open").expect("there");
    assert_eq!(store.get(Table::State, &[key(2)]).await.expect("get"), vec![Some(vec![2])]);
    store.close().await;
}
