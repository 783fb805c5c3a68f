//! The store in a real browser: the conformance suite, then the failures that only IndexedDB can have.

mod ending;
mod taking_over;

use js_sys::{Array, Function, Promise, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use wasm_bindgen_test::wasm_bindgen_test;

use super::IdbDevice;
use super::backup::{Backup, Change, Copies};
use super::databases::Databases;
use crate::crypto::{AccountKey, Sealed, SeededRandom, StoreKeys};
use crate::error::Code;
use crate::storage::{FoundPage, open_all};
use crate::store::{Batch, Device, Durability, RecordKey, Store, Table, conformance};

/// Runs the body of an asynchronous JavaScript function with these arguments.
async fn js(body: &str, arguments: &[&JsValue]) -> JsValue {
    let function =
        Function::new_with_args("...args", &format!("return (async (...args) => {{ {body} }})(...args)"));
    let arguments: Array = arguments.iter().copied().collect();
    let promise: Promise =
        function.apply(&JsValue::UNDEFINED, &arguments).expect("called").dyn_into().expect("a promise");
    JsFuture::from(promise).await.expect("no exception")
}

/// Opens a database as other code would, without our locks.
const RAW_OPEN: &str = "const raw = (name, version, upgrade) => new Promise((resolve, reject) => {
        const request = indexedDB.open(name, version);
        request.onupgradeneeded = () => upgrade?.(request.result);
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => reject(request.error);
        request.onblocked = () => reject(new Error('blocked'));
    });
    const names = async () => (await indexedDB.databases()).map((info) => info.name);";

async fn raw(body: &str, arguments: &[&JsValue]) -> JsValue {
    js(&format!("{RAW_OPEN} {body}"), arguments).await
}

/// Undoes a test's replacement of browser functions, even if the test fails.
struct Patch(&'static str);

impl Patch {
    async fn new(apply: &str, undo: &'static str) -> Self {
        js(apply, &[]).await;
        Patch(undo)
    }
}

impl Drop for Patch {
    fn drop(&mut self) {
        let _ = Function::new_no_args(self.0).call0(&JsValue::UNDEFINED);
    }
}

fn one(n: u8) -> Batch {
    Batch { puts: vec![(Table::State, RecordKey([n; 16]), Sealed::stand_in([n; 10]))], ..Batch::default() }
}

async fn fresh(name: &str) -> super::IdbStore {
    let device = IdbDevice::new();
    device.delete(name).await.expect("deleted");
    let store = device.open(name, true).await.expect("opened").expect("made");
    // Every page runs this test once. It must not count in any test below.
    store.learn().await;
    store
}

async fn count(store: &super::IdbStore) -> usize {
    store.scan(Table::State, None, 100).await.expect("scanned").len()
}

#[wasm_bindgen_test]
async fn indexeddb_passes_the_conformance_suite() {
    conformance::shared(&IdbDevice::new()).await;
}

#[wasm_bindgen_test]
async fn looking_makes_no_database() {
    let before = raw("return (await names()).length", &[]).await;
    assert!(IdbDevice::new().open("looked-for", false).await.expect("no error").is_none());
    assert_eq!(raw("return (await names()).length", &[]).await, before);
}

#[wasm_bindgen_test]
async fn looking_makes_no_database_where_the_browser_has_no_list() {
    let before = raw("return (await names()).length", &[]).await;
    {
        let _patch = Patch::new("indexedDB.databases = undefined;", "delete indexedDB.databases;").await;
        let device = IdbDevice::new();
        assert!(device.open("looked-for", false).await.expect("no error").is_none());
        let store = device.open("listless", true).await.expect("no error").expect("made");
        store.close().await;
        let store = device.open("listless", false).await.expect("no error").expect("there");
        store.close().await;
        device.delete("listless").await.expect("deleted");
    }
    assert_eq!(raw("return (await names()).length", &[]).await, before);
}

#[wasm_bindgen_test]
async fn a_newer_store_is_refused_and_left_untouched() {
    let name = JsValue::from_str("newer");
    raw(
        "indexedDB.deleteDatabase(args[0]);
         const db = await raw(args[0], 99, (db) => db.createObjectStore('x').put('kept', 1)); db.close();",
        &[&name],
    )
    .await;
    let device = IdbDevice::new();
    for create in [false, true] {
        let error = device.open("newer", create).await.err().expect("refused");
        assert_eq!(error.code(), Code::StoreTooNew, "{error}");
    }
    let left = raw(
        "const db = await raw(args[0]);
         const got = await new Promise((r) => { const q = db.transaction('x').objectStore('x').get(1);
             q.onsuccess = () => r(q.result); });
         const out = `${db.version} ${[...db.objectStoreNames]} ${got}`; db.close(); return out;",
        &[&name],
    )
    .await;
    assert_eq!(left.as_string().as_deref(), Some("99 x kept"));
    device.delete("newer").await.expect("deleted");
}

#[wasm_bindgen_test]
async fn a_leader_that_comes_late_writes_nothing_beside() {
    let store = fresh("late-backup").await;
    let of = |generation, n: u8| {
        let puts = vec![(Table::Journal, RecordKey([n; 16]), Sealed::stand_in([n]))];
        Batch { generation: Some(generation), mark: Some(Sealed::stand_in([n])), puts, ..Batch::default() }
    };
    let rests = vec![(RecordKey([2; 16]), vec![2])];
    let to_copy = async || Ok(Copies { journal: rests.clone(), inbox: Vec::new() });
    let (early, late) =
        (Backup::new("late-backup", Databases::default()), Backup::new("late-backup", Databases::default()));
    early.write(Change::of(of(1, 1)), to_copy).await;
    // The second generation never wrote the backup.
    late.write(Change::of(Batch { recopy: true, ..of(3, 2) }), to_copy).await;
    for generation in [1, 2] {
        early.write(Change::of(of(generation, 9)), to_copy).await;
    }
    assert_eq!(store.backup_header().await.expect("read").mark, Some(vec![2]));
    let copies = store.copies(Table::Journal).await.expect("read").into_iter();
    assert!(copies.map(|(key, sealed)| (key, sealed.into_bytes())).eq(rests.iter().cloned()));
    late.write(Change::of(of(3, 4)), to_copy).await;
    assert_eq!(store.copies(Table::Journal).await.expect("read").len(), 2, "its own goes on");
    assert_eq!(store.generation().await.expect("read"), 3, "a store without fences goes on from there");
    early.close();
    late.close();
    store.close().await;
    IdbDevice::new().delete("late-backup").await.expect("deleted");
}

#[wasm_bindgen_test]
async fn what_stands_beside_keeps_no_store_from_opening() {
    let store = fresh("bare-backup").await;
    store.close().await;
    raw("(await raw('bare-backup-mark', 1)).close();", &[]).await;
    let store = IdbDevice::new().open("bare-backup", false).await.expect("opened").expect("there");
    assert_eq!(store.backup_header().await.expect("nothing"), crate::store::BackupHeader::default());
    store.commit(Batch { mark: Some(Sealed::stand_in([7])), ..one(1) }).await.expect("committed");
    assert_eq!(store.backup_header().await.expect("made anew").mark, Some(vec![7]));
    store.close().await;
    IdbDevice::new().delete("bare-backup").await.expect("deleted");
}

#[wasm_bindgen_test]
async fn a_database_without_our_tables_is_damaged() {
    raw("(await raw('bare', 1)).close();", &[]).await;
    let error = IdbDevice::new().open("bare", true).await.err().expect("refused");
    assert_eq!(error.code(), Code::StoreDamaged);
    IdbDevice::new().delete("bare").await.expect("deleted");
}

#[wasm_bindgen_test]
async fn a_store_that_is_emptied_by_its_leader_keeps_its_generation() {
    let store = fresh("emptied").await;
    for seen in 0..3 {
        assert_eq!(store.take_over(seen).await.expect("taken"), Some(seen + 1));
    }
    assert_eq!(store.begun(), 3);
    // As if the browser had dropped the database, and the leader opened it again.
    store.close().await;
    let store = fresh("emptied").await;
    store.commit(Batch { generation: Some(3), clear: true, ..one(1) }).await.expect("committed");
    assert_eq!(store.generation().await.expect("read"), 3);
    store.close().await;
    IdbDevice::new().delete("emptied").await.expect("deleted");
}

/// Aborts each transaction at its second put; `reason` is the error that the transaction gives.
async fn abort_at_second_put(reason: &str) -> Patch {
    let apply = format!(
        "globalThis.realPut = IDBObjectStore.prototype.put; let n = 0;
         IDBObjectStore.prototype.put = function (...a) {{
             const request = realPut.apply(this, a);
             if (++n === 2) {{
                 const reason = {reason};
                 if (reason) Object.defineProperty(this.transaction, 'error', {{ get: () => reason }});
                 this.transaction.abort();
             }}
             return request;
         }};"
    );
    Patch::new(&apply, "IDBObjectStore.prototype.put = realPut; delete globalThis.realPut;").await
}

#[wasm_bindgen_test]
async fn an_abort_settles_the_commit_and_writes_nothing() {
    let store = fresh("aborted").await;
    let two = || Batch { puts: [one(1).puts, one(2).puts].concat(), ..Batch::default() };
    for (reason, code) in [
        ("new DOMException('', 'QuotaExceededError')", Code::StorageFull),
        ("new DOMException('', 'UnknownError')", Code::StorageClosed),
        ("new DOMException('', 'DataError')", Code::StorageFailed),
        (
            "new Error('Connection to Indexed Database server lost. Refresh the page to try again')",
            Code::StorageClosed,
        ),
        ("null", Code::StorageFailed),
    ] {
        let patch = abort_at_second_put(reason).await;
        let error = store.commit(two()).await.expect_err("aborted");
        drop(patch);
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(count(&store).await, 0, "all or nothing");
    }
    store.commit(two()).await.expect("the store goes on");
    assert_eq!(count(&store).await, 2);
    store.close().await;
}

#[wasm_bindgen_test]
async fn a_request_that_cannot_be_made_undoes_its_batch() {
    let store = fresh("thrown").await;
    let patch = Patch::new(
        "globalThis.realPut = IDBObjectStore.prototype.put; let n = 0;
         IDBObjectStore.prototype.put = function (...a) {
             if (++n === 2) throw new DOMException('', 'DataError');
             return realPut.apply(this, a);
         };",
        "IDBObjectStore.prototype.put = realPut; delete globalThis.realPut;",
    )
    .await;
    let batch = Batch { puts: [one(1).puts, one(2).puts].concat(), ..Batch::default() };
    let error = store.commit(batch).await.expect_err("thrown");
    drop(patch);
    assert_eq!(error.code(), Code::StorageFailed);
    assert!(error.detail().contains("DataError"), "{error}");
    assert_eq!(count(&store).await, 0);
    store.close().await;
}

#[wasm_bindgen_test]
async fn durability_reaches_the_browser() {
    let store = fresh("durable").await;
    let patch = Patch::new(
        "globalThis.realTransaction = IDBDatabase.prototype.transaction; globalThis.asked = [];
         IDBDatabase.prototype.transaction = function (...a) {
             asked.push(`${[...a[0]]} ${a[1]} ${a[2]?.durability}`); return realTransaction.apply(this, a); };",
        "IDBDatabase.prototype.transaction = realTransaction; delete globalThis.realTransaction;",
    )
    .await;
    store.commit(one(1)).await.expect("committed");
    store.commit(Batch { durability: Durability::Strict, ..one(2) }).await.expect("committed");
    drop(patch);
    let asked = js("return asked.join('; ')", &[]).await;
    assert_eq!(asked.as_string().as_deref(), Some("h,s readwrite relaxed; h,s readwrite strict"));
    store.close().await;
}

#[wasm_bindgen_test]
async fn somebody_elses_upgrade_is_let_through_and_told() {
    let store = fresh("upgraded").await;
    store.commit(one(1)).await.expect("committed");
    // Rejects if our connection stays open.
    raw("(await raw('upgraded', 2)).close();", &[]).await;
    let error = store.commit(one(2)).await.expect_err("gone");
    assert_eq!(error.code(), Code::StorageClosed);
    assert_eq!(store.header().await.expect_err("gone").code(), Code::StorageClosed);
    assert_eq!(store.reopen().await.expect_err("upgraded").code(), Code::StoreTooNew);
    store.close().await;
    IdbDevice::new().delete("upgraded").await.expect("deleted");
}

#[wasm_bindgen_test]
async fn a_connection_closed_under_us_is_a_named_error() {
    let patch = Patch::new(
        "globalThis.realTransaction = IDBDatabase.prototype.transaction;
         IDBDatabase.prototype.transaction = function (...a) { this.close(); return realTransaction.apply(this, a); };",
        "IDBDatabase.prototype.transaction = realTransaction; delete globalThis.realTransaction;",
    )
    .await;
    let store = fresh("closed-under-us").await;
    let error = store.commit(one(1)).await.expect_err("closed");
    drop(patch);
    assert_eq!(error.code(), Code::StorageClosed);
    assert!(error.detail().contains("InvalidStateError"), "{error}");
    store.reopen().await.expect("the handle is dropped, another one serves");
    store.commit(one(1)).await.expect("committed");
    assert_eq!(count(&store).await, 1);
    store.close().await;
}

#[wasm_bindgen_test]
async fn a_deletion_that_somebody_blocks_is_store_in_use() {
    raw("globalThis.blocker = await raw('blocked', 1);", &[]).await;
    let error = IdbDevice::new().delete("blocked").await.expect_err("refused");
    assert_eq!(error.code(), Code::StoreInUse);
    js("globalThis.blocker.close(); delete globalThis.blocker;", &[]).await;
    IdbDevice::new().delete("blocked").await.expect("deleted");
}

#[wasm_bindgen_test]
async fn a_store_that_is_open_is_not_deleted_from_outside() {
    let device = IdbDevice::new();
    let (one, two) = (fresh("in-use").await, device.open("in-use", false).await.expect("opened"));
    one.close().await;
    assert_eq!(device.delete_unused("in-use").await.expect_err("refused").code(), Code::StoreInUse);
    two.expect("there").close().await;
    device.delete_unused("in-use").await.expect("deleted");
    // Nor does a session open a store while a tab, this one or another, deletes it.
    js(
        "globalThis.elsewhere = {}; await new Promise((taken) => {
            elsewhere.free = navigator.locks.request('in-use', () => new Promise((release) => {
                elsewhere.release = release; taken(); })); });",
        &[],
    )
    .await;
    assert_eq!(device.open("in-use", true).await.err().expect("refused").code(), Code::StoreInUse);
    js("elsewhere.release(); await elsewhere.free; delete globalThis.elsewhere;", &[]).await;
    device.open("in-use", true).await.expect("opened").expect("made").close().await;
}

#[wasm_bindgen_test]
async fn a_store_let_go_without_closing_can_be_opened_again() {
    let store = fresh("dropped").await;
    store.commit(one(1)).await.expect("committed");
    drop(store);
    let store = IdbDevice::new().open("dropped", false).await.expect("opened").expect("there");
    assert_eq!(count(&store).await, 1);
    store.close().await;
}

#[wasm_bindgen_test]
async fn stores_work_without_web_locks_but_for_other_tabs() {
    let _patch = Patch::new(
        "Object.defineProperty(navigator, 'locks', { value: undefined, configurable: true });",
        "delete navigator.locks;",
    )
    .await;
    let store = fresh("lockless").await;
    let error = IdbDevice::new().delete_unused("lockless").await.expect_err("refused");
    assert_eq!(error.code(), Code::StoreInUse);
    store.close().await;
    store.close().await;
    IdbDevice::new().delete("lockless").await.expect("deleted");
}

#[wasm_bindgen_test]
async fn what_others_put_among_the_records_is_passed_over() {
    let store = fresh("foreign").await;
    store.commit(one(9)).await.expect("committed");
    store.close().await;
    raw(
        "const db = await raw('foreign');
         await new Promise((done) => { const t = db.transaction('s', 'readwrite'), s = t.objectStore('s');
             s.put('a', 1); s.put('b', 'text'); s.put('c', [1]); s.put('d', new Uint8Array(3));
             s.put('e', args[0]); t.oncomplete = done; });
         db.close();",
        &[&Uint8Array::from([1; 16].as_slice()).into()],
    )
    .await;
    let store = IdbDevice::new().open("foreign", false).await.expect("opened").expect("there");
    let mut after = None;
    let mut seen = Vec::new();
    loop {
        let page = store.scan(Table::State, after, 1).await.expect("scanned");
        let Some((key, bytes)) = page.into_iter().next() else { break };
        after = Some(key);
        seen.push((key.0[0], bytes));
    }
    assert_eq!(seen, vec![(1, vec![]), (9, vec![9; 10])], "what is not bytes reads as none");
    assert!(store.scan(Table::State, None, 0).await.expect("scanned").is_empty());
    store.close().await;
}

/// Only the core judges damage: a page that the browser's cipher does not open is returned as it is stored.
#[wasm_bindgen_test]
async fn r14_pages_come_opened_and_damaged_ones_as_they_rest() {
    let store = fresh("opened-pages").await;
    let mut random = SeededRandom::new(1);
    let keys = StoreKeys::derive(&AccountKey::make(&mut random).expect("K"), &[1; 16]);
    let places: Vec<RecordKey> = (0..4).map(|number| keys.record_key(Table::Pages, number)).collect();
    let mut seal = |place: RecordKey| {
        keys.seal(Table::Pages, place, b"a page", &mut random).expect("sealed").into_bytes()
    };
    let whole = seal(places[0]);
    let mut altered = seal(places[1]);
    altered[20] ^= 1;
    let records = [(places[0], whole.clone()), (places[1], altered.clone()), (places[2], whole.clone())];
    let puts = records.into_iter().map(|(key, bytes)| (Table::Pages, key, Sealed::stand_in(bytes))).collect();
    store.commit(Batch { puts, ..Batch::default() }).await.expect("written");
    let told = |page: &Option<FoundPage>| match page {
        Some(FoundPage::Sealed(bytes)) => Some((false, bytes.clone())),
        Some(FoundPage::Opened(bytes)) => Some((true, bytes.clone())),
        None => None,
    };
    let sealed =
        [Some((false, whole.clone())), Some((false, altered.clone())), Some((false, whole.clone())), None];
    let found = store.read_pages(&places).await.expect("read");
    assert_eq!(found.iter().map(told).collect::<Vec<_>>(), sealed, "no key yet");
    store.open_pages_with(keys.seal_key(Table::Pages));
    let found = store.read_pages(&places).await.expect("read");
    let opened = Some((true, b"a page".to_vec()));
    assert_eq!(found.iter().map(told).collect::<Vec<_>>(), [&[opened], &sealed[1..]].concat());
    store.close().await;
    assert_eq!(store.read_pages(&places).await.expect_err("closed").code(), Code::Closed);
}

/// The browser's cipher opens large records, the core small ones. The result must be the same.
#[wasm_bindgen_test]
async fn r14_a_state_of_any_size_opens_alike() {
    let store = fresh("opened-state").await;
    let mut random = SeededRandom::new(2);
    let keys = StoreKeys::derive(&AccountKey::make(&mut random).expect("K"), &[1; 16]);
    for bytes in [10, 20_000] {
        let place = |number| keys.record_key(Table::State, number);
        let mut record = |number| {
            let sealed = keys.seal(Table::State, place(number), &vec![7; bytes], &mut random);
            (place(number), sealed.expect("sealed").into_bytes())
        };
        let (first, (_, elsewhere), mut third) = (record(0), record(1), record(2));
        third.1[bytes] ^= 1;
        let found = [first, (place(3), elsewhere), third];
        let opened = open_all(&store, &keys, Table::State, &found).await;
        assert_eq!(opened, [Some(vec![7; bytes]), None, None], "{bytes}");
    }
    store.close().await;
}
