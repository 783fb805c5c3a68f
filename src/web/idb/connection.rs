//! A connection to a database, and the events that end it: another tab deletes or upgrades the database, or
//! the browser closes it.

use crate::model::SortedMap;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use js_sys::Function;
use wasm_bindgen::prelude::*;
use web_sys::IdbDatabase;

use crate::web::platform::global::property;
use crate::web::platform::patience::answer;
use crate::web::platform::promise::Deferred;

/// Why a connection is no longer usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// A tab asked to delete the database: it wipes the store.
    Wiped,
    /// Another version of the code asked to upgrade the database, or the browser closed it. The session opens
    /// the database again.
    Lost,
}

/// Called once the connection is no longer usable.
pub(super) type OnClosed = Rc<dyn Fn(Closed)>;

/// The functions that end each wait for a transaction, by the order in which the waits began.
type Waiting = Rc<RefCell<SortedMap<u64, Function>>>;

/// One entry of `Waiting`. Dropping it removes the entry.
struct WaitEntry(Waiting, u64);

impl Drop for WaitEntry {
    fn drop(&mut self) {
        self.0.borrow_mut().remove(&self.1);
    }
}

/// A connection. Dropping it closes it.
pub(super) struct Connection {
    pub database: IdbDatabase,
    /// Why it is no longer usable, if so.
    pub lost: Rc<Cell<Option<&'static str>>>,
    waiting: Waiting,
    lose: Rc<dyn Fn(&'static str)>,
    last_number: Cell<u64>,
    // Keep the callbacks alive for the browser.
    _on_version_change: Closure<dyn FnMut(JsValue)>,
    _on_close: Closure<dyn FnMut()>,
}

impl Connection {
    pub fn new(database: IdbDatabase, on_closed: OnClosed) -> Self {
        let (lost, waiting) = (Rc::new(Cell::new(None)), Waiting::default());
        // Another version of the code wants to upgrade the database, or another tab to delete it, and waits
        // for this connection. Requests that were made are still carried out; later ones fail.
        let on_version_change = Closure::<dyn FnMut(JsValue)>::new({
            let (lost, database, on_closed) = (Rc::clone(&lost), database.clone(), Rc::clone(&on_closed));
            move |event: JsValue| {
                lost.set(Some("somebody else asked to upgrade or delete the database"));
                database.close();
                let is_upgraded = property(&event, "newVersion").is_some();
                on_closed(if is_upgraded { Closed::Lost } else { Closed::Wiped });
            }
        });
        let lose: Rc<dyn Fn(&'static str)> = Rc::new({
            let (lost, waiting) = (Rc::clone(&lost), Rc::clone(&waiting));
            move |why| {
                let is_news = lost.replace(Some(why)).is_none();
                let waiting = waiting.take();
                for reject in waiting.values() {
                    // The engine's own function, called with no arguments.
                    let _ = reject.call0(&JsValue::UNDEFINED);
                }
                if is_news {
                    on_closed(Closed::Lost);
                }
            }
        });
        // The browser closed the database by itself: the site's data was cleared, or the disk failed.
        let on_close = Closure::<dyn FnMut()>::new({
            let lose = Rc::clone(&lose);
            move || lose("the browser closed the database")
        });
        database.set_onversionchange(Some(on_version_change.as_ref().unchecked_ref()));
        database.set_onclose(Some(on_close.as_ref().unchecked_ref()));
        let last_number = Cell::new(0);
        Connection {
            database,
            lost,
            waiting,
            lose,
            last_number,
            _on_version_change: on_version_change,
            _on_close: on_close,
        }
    }

    /// The future that waits until a transaction is over, or the browser has closed the database. After that
    /// event, a transaction on which `commit` was called sends no further event. A connection that is silent for so long
    /// is lost as well. Its transaction may end yet, and each later one waits for that.
    pub fn over(
        &self,
        silent_ms: u64,
        settled: Deferred,
    ) -> impl Future<Output = std::result::Result<JsValue, JsValue>> + use<> {
        let number = self.last_number.get() + 1;
        self.last_number.set(number);
        self.waiting.borrow_mut().insert(number, settled.reject.clone());
        let entry = WaitEntry(Rc::clone(&self.waiting), number);
        let lose = Rc::clone(&self.lose);
        async move {
            let _entry = entry;
            let event = answer(silent_ms, &settled.promise).await?;
            event.ok_or_else(|| {
                lose("the device does not answer");
                JsValue::UNDEFINED
            })
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.database.set_onversionchange(None);
        self.database.set_onclose(None);
        self.database.close();
    }
}
