//! A claim to the lead: a Web Lock, taken where it is free, waited for in the browser's queue, or taken from whoever holds
//! it.
//!
//! The browser frees the lock when its tab goes, however it goes; a frozen tab keeps it, and then it is stolen.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use js_sys::{Array, Object, Promise, Reflect};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::AbortController;

use super::locks::manager;
use super::promise::Deferred;

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The lock is held from now on.
    Granted,
    /// Somebody else has taken it.
    Lost,
}

/// How the lock is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Where it is free at once.
    Free,
    /// After whoever holds it, and whoever waits already.
    Queue,
    /// From whoever holds it.
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

/// A lock, held or waited for. Dropping it lets go.
pub struct Claim {
    state: Rc<State>,
    hold: Deferred,
    queue: Option<AbortController>,
}

impl Claim {
    /// Whether there are locks here.
    pub fn is_possible() -> bool {
        manager().is_some()
    }

    /// Takes the lock where it is free; `None` where it is not, or where there are no locks.
    pub async fn take(name: &str) -> Option<Self> {
        let (claim, [answer, freed]) = Claim::request(name, Way::Free, None)?;
        // A request that is refused altogether never answers.
        let _ = JsFuture::from(Promise::race(&Array::of2(&answer, &freed))).await;
        claim.is_held().then_some(claim)
    }

    /// Asks for the lock, and tells what becomes of it; `None` where there are no locks.
    pub fn make(name: &str, way: Way, listener: impl Fn(Claimed) + 'static) -> Option<Self> {
        Some(Claim::request(name, way, Some(Rc::new(listener)))?.0)
    }

    /// Tells from now on what becomes of it.
    pub fn listen(&self, listener: impl Fn(Claimed) + 'static) {
        *self.state.listener.borrow_mut() = Some(Rc::new(listener));
    }

    /// Whether the lock is held.
    pub fn is_held(&self) -> bool {
        self.state.is_held.get()
    }

    /// The claim, what settles once it is granted or never will be, and what does once the lock is free again.
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
        // Should this instance of the wasm die, whoever cleans up after it finds here how to free the lock
        // (scripts/write-glue.mjs).
        let _ = Reflect::set(&hold.resolve, &"escaleFreed".into(), &freed);
        spawn_local({
            let (state, freed) = (Rc::clone(&state), freed.clone());
            async move {
                let lost = JsFuture::from(freed).await.is_err();
                // Who waited in vain is never called back: only now is it certain.
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
        // Ends the waiting; a lock that is held is freed by the promise.
        if !self.is_held() {
            self.queue.iter().for_each(AbortController::abort);
        }
    }
}
