//! A connection to a database, and what the browser does to it: somebody else wants the database, or it is closed under us.

use std::cell::Cell;
use std::rc::Rc;

use wasm_bindgen::prelude::*;
use web_sys::IdbDatabase;

/// Told once the connection is of no use any more.
pub(super) type OnClosed = Rc<dyn Fn()>;

/// A connection. Dropping it closes it.
pub(super) struct Connection {
    pub database: IdbDatabase,
    /// Why it is of no use any more, if so.
    pub lost: Rc<Cell<Option<&'static str>>>,
    // Keep what the browser calls.
    _on_version_change: Closure<dyn FnMut()>,
    _on_close: Closure<dyn FnMut()>,
}

impl Connection {
    pub fn new(database: IdbDatabase, on_closed: OnClosed) -> Self {
        let lost = Rc::new(Cell::new(None));
        // Another version of the code, or the user, wants to upgrade or delete the database and waits for us. What
        // was sent is still written; what comes later fails.
        let on_version_change = Closure::<dyn FnMut()>::new({
            let (lost, database, on_closed) = (Rc::clone(&lost), database.clone(), Rc::clone(&on_closed));
            move || {
                lost.set(Some("somebody else asked to upgrade or delete the database"));
                database.close();
                on_closed();
            }
        });
        // The browser closed it by itself: the site's data was cleared, or the disk failed.
        let on_close = Closure::<dyn FnMut()>::new({
            let lost = Rc::clone(&lost);
            move || {
                lost.set(Some("the browser closed the database"));
                on_closed();
            }
        });
        database.set_onversionchange(Some(on_version_change.as_ref().unchecked_ref()));
        database.set_onclose(Some(on_close.as_ref().unchecked_ref()));
        Connection { database, lost, _on_version_change: on_version_change, _on_close: on_close }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.database.set_onversionchange(None);
        self.database.set_onclose(None);
        self.database.close();
    }
}
