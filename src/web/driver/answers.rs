//! The calls that wait for the machine. An answer that needs no device is there at once.

use std::rc::Rc;

use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;

use super::Driver;
use crate::error::{Code, Error, Result};
use crate::journal::{Action, OpId, Retention};
use crate::memory::DocKey;
use crate::memory::query::Query;
use crate::model::Name;
use crate::sync::{Event, ReadRow, Swept};
use crate::web::platform::promise::Deferred;

/// The result of a call that waits for the machine, such as [`Driver::read`].
pub(super) enum Answer {
    Rows(Result<Vec<ReadRow>>),
    Ids(Result<Vec<u32>>),
    Past(Result<Vec<(OpId, Action)>>),
    Swept(Result<Swept>),
}

impl Driver {
    fn ticket(&self) -> u64 {
        self.last_ticket.set(self.last_ticket.get() + 2);
        self.last_ticket.get()
    }

    pub(super) fn settle(&self, ticket: u64, answer: Answer) {
        let resolve = self.answers.borrow_mut().get_mut(&ticket).map(|(resolve, slot)| {
            *slot = Some(answer);
            resolve.clone()
        });
        if let Some(resolve) = resolve {
            let _ = resolve.call0(&JsValue::UNDEFINED);
        }
    }

    /// Posts an event with that ticket, and waits for its answer.
    async fn answer(self: &Rc<Self>, ticket: u64, event: Event) -> Result<Answer> {
        self.with(|_| ())?;
        let done = Deferred::new();
        self.answers.borrow_mut().insert(ticket, (done.resolve, None));
        self.post(event);
        let is_answered = matches!(self.answers.borrow().get(&ticket), Some((_, Some(_))));
        if !is_answered {
            let _ = JsFuture::from(done.promise).await;
        }
        let answer = self.answers.borrow_mut().remove(&ticket).and_then(|(_, answer)| answer);
        answer.ok_or_else(|| Error::new(Code::Closed, "the session was closed"))
    }

    /// The data of these document versions. Ids that are no longer in use are left out.
    pub async fn read(self: &Rc<Self>, ids: Vec<u32>) -> Result<Vec<ReadRow>> {
        let ticket = self.ticket();
        match self.answer(ticket, Event::Read { ticket, ids }).await? {
            Answer::Rows(rows) => rows,
            _ => mistaken(),
        }
    }

    /// The past states of a document, the oldest first.
    pub async fn history(self: &Rc<Self>, key: DocKey) -> Result<Vec<(OpId, Action)>> {
        let ticket = self.ticket();
        match self.answer(ticket, Event::History { ticket, key }).await? {
            Answer::Past(past) => past,
            _ => mistaken(),
        }
    }

    /// Sweeps the journal; without `apply`, only reports the actions that a sweep would remove.
    pub async fn sweep(self: &Rc<Self>, retention: Retention, apply: bool) -> Result<Swept> {
        let ticket = self.ticket();
        match self.answer(ticket, Event::Sweep { ticket, retention, apply }).await? {
            Answer::Swept(swept) => swept,
            _ => mistaken(),
        }
    }

    /// The ids of the documents of a class that satisfy a query.
    pub async fn query(self: &Rc<Self>, class: Name, query: Query) -> Result<Vec<u32>> {
        let ticket = self.ticket();
        match self.answer(ticket, Event::Query { ticket, class, query }).await? {
            Answer::Ids(ids) => ids,
            _ => mistaken(),
        }
    }
}

fn mistaken<T>() -> Result<T> {
    Err(Error::new(Code::Internal, "an answer to another question"))
}
