use js_sys::{Array, Object, Promise, Reflect};
use wasm_bindgen::prelude::*;
use wasm_bindgen_test::wasm_bindgen_test;

use super::*;
use crate::crypto::{DerivedKey, SystemRandom, WrapKind, store_name};
use crate::journal::Signal;
use crate::limits::KDF_ROUNDS;
use crate::model::schema::Schema;
use crate::storage::{AccountOptions, open_account};
use crate::store::Device;
use crate::sync::{Config, Mode};
use crate::web::idb::IdbDevice;
use crate::web::transport::adapter::Adapter;

struct Silent;

impl Host for Silent {
    fn changed(&self, _: &[String], _: &[u32]) {}
    fn status(&self) {}
    fn closed(&self, _: Signal) {}
    fn operation(&self, _: &News<'_>) {}
    fn token(&self, _: bool) -> Promise {
        Promise::resolve(&JsValue::UNDEFINED)
    }
}

/// A server that never answers, and the list of the requests that it received.
fn server() -> (Server, Array) {
    let (object, asked) = (Object::new(), Array::new());
    let sync = Closure::<dyn Fn(JsValue) -> Promise>::new({
        let asked = asked.clone();
        move |request: JsValue| {
            asked.push(&request);
            Promise::new(&mut |_, _| {})
        }
    });
    let listen = Closure::<dyn Fn(JsValue)>::new({
        let asked = asked.clone();
        move |defs: JsValue| {
            asked.push(&defs);
        }
    });
    Reflect::set(&object, &"sync".into(), &sync.into_js_value()).expect("set");
    Reflect::set(&object, &"listen".into(), &listen.into_js_value()).expect("set");
    (Server::Adapter(Rc::new(Adapter::new(object.into()).expect("an adapter"))), asked)
}

/// A session on a new store of that account.
async fn open(account: &str) -> (Rc<Driver>, Array) {
    let options = AccountOptions {
        org: "driver",
        account,
        by: WrapKind::Passphrase,
        rounds: KDF_ROUNDS.0,
        create: true,
    };
    IdbDevice::new().delete(&store_name("driver", account)).await.expect("deleted");
    let schema = Schema::from_json(r#"{"A":{"key":["id"]},"B":{"key":["id"]}}"#).expect("a schema");
    let derive = async |_| Ok(DerivedKey::from_bytes([7; 32]));
    let opened =
        open_account(&IdbDevice::new(), &options, schema, derive, &mut SystemRandom).await.expect("open");
    let config = Config {
        mode: Mode::Synced,
        has_live: true,
        watches_silence: false,
        has_token: false,
        has_files: false,
        poll_every_ms: crate::limits::PULL_EVERY_MS,
    };
    let machine = Machine::new(
        config,
        opened.memory,
        Some(opened.layout),
        opened.damage,
        "s".into(),
        Box::new(SystemRandom),
    );
    let (server, asked) = server();
    let driver = Driver::new(machine, Some(Rc::new(opened.store)), Some(server), Box::new(Silent));
    driver.start(None);
    (driver, asked)
}

fn subscribe(driver: &Rc<Driver>, def: &str) {
    driver.post(Event::Subscribe(def.parse().expect("a def")));
}

#[wasm_bindgen_test]
async fn closing_twice_during_a_commit_ends_both_calls() {
    let (driver, _) = open("twice").await;
    subscribe(&driver, "A");
    assert!(driver.with(Machine::is_committing).expect("open"));
    futures_util::future::join(driver.close(), driver.close()).await;
    // Both ended once the store was free.
    let store = IdbDevice::new().open(&store_name("driver", "twice"), false).await.expect("free");
    store.expect("a store").close().await;
}

#[wasm_bindgen_test]
async fn nothing_is_asked_of_the_server_once_closing_began() {
    let (driver, asked) = open("closing").await;
    subscribe(&driver, "A");
    assert!(driver.with(Machine::is_committing).expect("open"));
    let before = asked.length();
    assert!(before > 0);
    let closing = driver.clone();
    let later = async {
        // The batch is still in flight: each of these events would otherwise send, listen and set a timer.
        subscribe(&driver, "B");
        driver.post(Event::SetMode(Mode::Avion));
        driver.post(Event::SetMode(Mode::Synced));
    };
    futures_util::future::join(closing.close(), later).await;
    assert_eq!(asked.length(), before);
    assert!(driver.channel.borrow().is_none() && driver.request.borrow().is_none());
    assert!(driver.timer.borrow().is_none());
}

#[wasm_bindgen_test]
async fn what_was_subscribed_before_closing_is_on_the_device() {
    let (driver, _) = open("durable").await;
    subscribe(&driver, "A");
    // Waits for the batch of the first subscription.
    subscribe(&driver, "B");
    driver.close().await;
    let options = AccountOptions {
        org: "driver",
        account: "durable",
        by: WrapKind::Passphrase,
        rounds: KDF_ROUNDS.0,
        create: false,
    };
    let schema = Schema::from_json(r#"{"A":{"key":["id"]},"B":{"key":["id"]}}"#).expect("a schema");
    let derive = async |_| Ok(DerivedKey::from_bytes([7; 32]));
    let opened =
        open_account(&IdbDevice::new(), &options, schema, derive, &mut SystemRandom).await.expect("open");
    assert_eq!(opened.memory.collections().count(), 2);
    opened.store.close().await;
}
