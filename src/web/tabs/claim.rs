//! A claim to the lead: a Web Lock that a tab takes if it is free, waits for in the browser's queue, or
//! steals from its holder.
//!
//! The browser frees the lock when its tab ends, in any way. A frozen tab keeps the lock, and then another
//! tab steals it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use js_sys::{Array, Object, Promise, Reflect};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::AbortController;

use crate::web::platform::locks::manager;
use crate::web::platform::patience::{SILENT_MS, within};
use crate::web::platform::promise::Deferred;

/// The result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// This tab holds the lock from now on.
    Granted,
    /// Another tab has stolen the lock.
    Lost,
}

/// How a claim requests the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Only if the lock is free at once.
    Free,
    /// After its holder and the tabs that already wait.
    Queue,
    /// From its holder.
    Steal,
}

type Listener = Rc<dyn Fn(Claimed)>;

#[derive(Default)]
struct State {
    is_held: Cell<bool>,
    is_over: Cell<bool>,
    listener: RefCell<Option<Listener>>,
}

impl State {
    fn tell(&self, claimed: Claimed) {
        self.is_held.set(claimed == Claimed::Granted);
        let listener = self.listener.borrow().clone();
        if let Some(listener) = listener.filter(|_| !self.is_over.get()) {
            listener(claimed);
        }
    }
}

/// A lock, held or waited for. Dropping it releases the lock or ends the wait.
pub struct Claim {
    state: Rc<State>,
    hold: Deferred,
    queue: Option<AbortController>,
}

impl Claim {
    /// Whether the environment has Web Locks.
    pub fn is_possible() -> bool {
        manager().is_some()
    }

    /// Takes the lock if it is free; `None` if it is not, or if there are no locks.
    pub async fn take(name: &str) -> Option<Self> {
        let (claim, [answer, freed]) = Claim::request(name, Way::Free, None)?;
        // `answer` never resolves if the browser refuses the request itself; `freed` then rejects.
        let _ = within(SILENT_MS, &Promise::race(&Array::of2(&answer, &freed))).await;
        claim.is_held().then_some(claim)
    }

    /// Requests the lock, and reports the result to `listener`; `None` if there are no locks.
    pub fn make(name: &str, way: Way, listener: impl Fn(Claimed) + 'static) -> Option<Self> {
        Some(Claim::request(name, way, Some(Rc::new(listener)))?.0)
    }

    /// Reports results to this listener from now on.
    pub fn listen(&self, listener: impl Fn(Claimed) + 'static) {
        *self.state.listener.borrow_mut() = Some(Rc::new(listener));
    }

    /// Whether the lock is held.
    pub fn is_held(&self) -> bool {
        self.state.is_held.get()
    }

    /// The claim, and two promises: one settles once the lock was granted or refused, the other once the lock
    /// is free again.
    fn request(name: &str, way: Way, listener: Option<Listener>) -> Option<(Self, [Promise; 2])> {
        let manager = manager()?;
        let state = Rc::new(State::default());
        *state.listener.borrow_mut() = listener;
        let (hold, answer) = (Deferred::new(), Deferred::new());
        let callback = Closure::once({
            let (state, hold, answer) = (Rc::clone(&state), hold.promise.clone(), answer.resolve.clone());
            move |lock: JsValue| -> JsValue {
                let is_granted = !lock.is_null() && !lock.is_undefined() && !state.is_over.get();
                if is_granted {
                    state.tell(Claimed::Granted);
                }
                let _ = answer.call0(&JsValue::UNDEFINED);
                if is_granted { hold.into() } else { JsValue::UNDEFINED }
            }
        });
        let options = Object::new();
        let queue = if way == Way::Queue { AbortController::new().ok() } else { None };
        // A plain object takes any property.
        let _ = match (way, &queue) {
            (Way::Free, _) => Reflect::set(&options, &"ifAvailable".into(), &true.into()),
            (Way::Steal, _) => Reflect::set(&options, &"steal".into(), &true.into()),
            (Way::Queue, Some(queue)) => Reflect::set(&options, &"signal".into(), &queue.signal()),
            (Way::Queue, None) => Ok(true),
        };
        let freed = manager.request(name, &options, callback.as_ref().unchecked_ref()).ok()?;
        // If this instance of the wasm dies, its clean-up code (scripts/wasm/write-glue.mjs) finds here the
        // promise that settles when the lock is free.
        let _ = Reflect::set(&hold.resolve, &"escaleFreed".into(), &freed);
        spawn_local({
            let (state, freed) = (Rc::clone(&state), freed.clone());
            async move {
                let lost = JsFuture::from(freed).await.is_err();
                // A request that is aborted or refused never calls back. Only now is it certain that the
                // callback is no longer needed.
                drop(callback);
                if lost {
                    state.tell(Claimed::Lost);
                }
            }
        });
        Some((Claim { state, hold, queue }, [answer.promise, freed]))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.state.is_over.set(true);
        let _ = self.hold.resolve.call0(&JsValue::UNDEFINED);
        // Ends the wait; a lock that is held is freed by the promise.
        if !self.is_held() {
            self.queue.iter().for_each(AbortController::abort);
        }
    }
}
