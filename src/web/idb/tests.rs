//! The store in a real browser: the conformance suite, then what only IndexedDB can do to us.

use js_sys::{Array, Function, Promise, Uint8Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use wasm_bindgen_test::wasm_bindgen_test;

use super::IdbDevice;
use crate::error::Code;
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

/// Opens a database as somebody else would, without our locks.
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

/// Undoes what a test replaced, even where it fails.
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
    Batch { puts: vec![(Table::State, RecordKey([n; 16]), vec![n; 10])], ..Batch::default() }
}

async fn fresh(name: &str) -> super::IdbStore {
    let device = IdbDevice::new();
    device.delete(name).await.expect("deleted");
    device.open(name, true).await.expect("opened").expect("made")
}

async fn count(store: &super::IdbStore) -> usize {
    store.scan(Table::State, None, 100).await.expect("scanned").len()
}

#[wasm_bindgen_test]
async fn indexeddb_passes_the_conformance_suite() {
    conformance::all(&IdbDevice::new()).await;
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
async fn what_stands_beside_keeps_no_store_from_opening() {
    let store = fresh("bare-beside").await;
    store.close().await;
    raw("(await raw('bare-beside-mark', 1)).close();", &[]).await;
    let store = IdbDevice::new().open("bare-beside", false).await.expect("opened").expect("there");
    assert_eq!(store.witness().await.expect("nothing"), crate::store::Witness::default());
    store.commit(Batch { mark: Some(vec![7]), ..one(1) }).await.expect("committed");
    assert_eq!(store.witness().await.expect("made anew").mark, Some(vec![7]));
    store.close().await;
    IdbDevice::new().delete("bare-beside").await.expect("deleted");
}

#[wasm_bindgen_test]
async fn a_database_without_our_tables_is_damaged() {
    raw("(await raw('bare', 1)).close();", &[]).await;
    let error = IdbDevice::new().open("bare", true).await.err().expect("refused");
    assert_eq!(error.code(), Code::StoreDamaged);
    IdbDevice::new().delete("bare").await.expect("deleted");
}

/// Aborts each transaction at its second put; `reason` is what the transaction gives as its error.
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
async fn a_lock_held_elsewhere_is_store_in_use() {
    js(
        "globalThis.elsewhere = {}; await new Promise((taken) => {
            elsewhere.free = navigator.locks.request('elsewhere', () => new Promise((release) => {
                elsewhere.release = release; taken(); })); });",
        &[],
    )
    .await;
    let device = IdbDevice::new();
    for _ in 0..2 {
        let error = device.open("elsewhere", true).await.err().expect("refused");
        assert_eq!(error.code(), Code::StoreInUse);
    }
    js("elsewhere.release(); await elsewhere.free; delete globalThis.elsewhere;", &[]).await;
    device.open("elsewhere", true).await.expect("opened").expect("made").close().await;
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
    let error = IdbDevice::new().open("lockless", true).await.err().expect("refused");
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
