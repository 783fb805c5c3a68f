//! The browser's side in a dedicated worker, which has no window and no document: the conformance suite on
//! IndexedDB, and each module once.

#![cfg(all(target_family = "wasm", feature = "testing"))]

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use escale::store::conformance;
use escale::web::idb::IdbDevice;
use escale::web::platform::signals::Signals;
use escale::web::platform::timers::Timer;
use escale::web::platform::{clock, kdf, require_secure_context};
use escale::web::transport::address::Address;
use escale::web::transport::socket::Socket;
use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_dedicated_worker);

#[wasm_bindgen_test]
async fn indexeddb_passes_the_conformance_suite_in_a_worker() {
    conformance::shared(&IdbDevice::new()).await;
}

#[wasm_bindgen_test]
async fn the_other_means_work_in_a_worker() {
    require_secure_context().expect("localhost is one");
    let _signals = Signals::listen(|_| {});
    assert!(Socket::is_supported());
    assert!(clock::monotonic_ms() >= 0.0);
    Address::new("http://localhost:7700", "demo").expect("an address");
    kdf::pbkdf2("passphrase", b"salt", 1).await.expect("derived");
    let waker = Rc::new(Cell::new(None::<std::task::Waker>));
    let fired = Rc::new(Cell::new(false));
    let _timer = Timer::after(1, {
        let (waker, fired) = (Rc::clone(&waker), Rc::clone(&fired));
        move || {
            fired.set(true);
            if let Some(waker) = waker.take() {
                waker.wake();
            }
        }
    });
    poll_fn(|context| {
        waker.set(Some(context.waker().clone()));
        if fired.get() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
