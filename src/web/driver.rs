//! The driver of an open session: passes events to the machine, and performs its effects. It makes two
//! decisions of its own: while the session closes it begins nothing new, and it gives up the lead to a newer
//! version of the code.
//!
//! The machine is never borrowed while JavaScript runs or a future waits. Events are queued, and the effects
//! of each are performed before the next is handled. So a callback may call any method at any time.

use crate::model::SortedMap;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::task::Poll;

use js_sys::{Function, Promise};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::JsFuture;

use super::idb::{Closed, IdbStore};
use super::tabs::Tabs;
use crate::error::{Code, Error, Result};
use crate::limits::POLL_EVERY_MS;
use crate::storage::reopen;
use crate::store::{Batch, Store, Table};
use crate::sync::{Clock, Effect, Event, Machine, TabEffect};
use crate::web::platform::clock::{monotonic_ms, now_ms};
use crate::web::platform::promise::Deferred;
use crate::web::platform::signals::{Signal, Signals};
use crate::web::platform::timers::Timer;
use crate::web::tabs::claim::Claim;
use crate::web::transport::channel::{Channel, ChannelEvent, closed_abnormally};
use crate::web::transport::http::Abort;
use crate::web::transport::server::Server;

use answers::Answer;
pub use host::{Host, News};

/// An open session: the machine, and the browser's means that it uses.
pub struct Driver {
    machine: RefCell<Option<Machine>>,
    queue: RefCell<VecDeque<Event>>,
    is_handling: Cell<bool>,
    store: Option<Rc<IdbStore>>,
    server: Option<Server>,
    host: Box<dyn Host>,
    channel: RefCell<Option<(u64, Channel)>>,
    request: RefCell<Option<(u64, Abort)>>,
    timer: RefCell<Option<Timer>>,
    /// Ends the trust in the browser's word that there is no network.
    doubt: RefCell<Option<Timer>>,
    signals: RefCell<Option<Signals>>,
    /// The other tabs that have the store open.
    tabs: RefCell<Option<Rc<Tabs>>>,
    /// Effects for the tabs, blocked while the page is hidden in the browser's page cache.
    held: RefCell<Vec<TabEffect>>,
    /// By ticket: the function that resolves the waiting call, and its answer once it exists.
    answers: RefCell<SortedMap<u64, (Function, Option<Answer>)>>,
    last_ticket: Cell<u64>,
    /// Resolves once the session is closed. Every call of `close` waits for the same promise.
    closed: RefCell<Option<Promise>>,
    /// These are called once no batch is in flight. Closing and flushing wait for that.
    settled: RefCell<Vec<Function>>,
}

impl Driver {
    /// A driver for an opened machine. [`Driver::start`] sets it going.
    pub fn new(
        machine: Machine,
        store: Option<Rc<IdbStore>>,
        server: Option<Server>,
        host: Box<dyn Host>,
    ) -> Rc<Self> {
        Rc::new(Driver {
            machine: RefCell::new(Some(machine)),
            queue: RefCell::default(),
            is_handling: Cell::new(false),
            store,
            server,
            host,
            channel: RefCell::default(),
            request: RefCell::default(),
            timer: RefCell::default(),
            doubt: RefCell::default(),
            signals: RefCell::default(),
            tabs: RefCell::default(),
            held: RefCell::default(),
            answers: RefCell::default(),
            last_ticket: Cell::new(0),
            closed: RefCell::default(),
            settled: RefCell::default(),
        })
    }

    /// Starts the session. `shared`: the name of a store that other tabs may open, and the leader's claim.
    pub fn start(self: &Rc<Self>, shared: Option<(&str, Option<Claim>)>) {
        // A rehearsal uses no network, and does not react to its page being hidden.
        if !self.store.as_ref().is_some_and(|store| store.is_rehearsed()) {
            self.listen();
        }
        if let Some(store) = &self.store {
            let driver = Rc::downgrade(self);
            store.on_closed(move |closed| {
                let Some(driver) = driver.upgrade() else { return };
                if closed == Closed::Wiped {
                    return driver.close_by(crate::journal::Signal::Wipe);
                }
                let error = Error::new(Code::StorageClosed, "the browser closed the database");
                driver.post(Event::DeviceClosed(error));
            });
        }
        self.post(Event::Started);
        if let Some((name, claim)) = shared {
            let tabs = Tabs::join(self, name, claim);
            *self.tabs.borrow_mut() = Some(tabs);
        }
    }

    /// Reports the page's events to the machine: network gained or lost, page hidden or visible.
    fn listen(self: &Rc<Self>) {
        let driver = Rc::downgrade(self);
        let signals = Signals::listen(move |signal| {
            let Some(driver) = driver.upgrade() else { return };
            match signal {
                Signal::Online => driver.network(true),
                Signal::Offline => driver.network(false),
                Signal::PageHide => driver.on_pagehide(),
                Signal::Visible | Signal::PageShow => {
                    driver.on_pageshow();
                    driver.post(Event::Visible);
                }
            }
        });
        *self.signals.borrow_mut() = Some(signals);
        self.network(Signals::is_online());
    }

    /// Reports the browser's word on the network. On some machines it says for ever that there is none: so after a while the
    /// session asks all the same, at the delays of a server that does not answer.
    fn network(self: &Rc<Self>, is_up: bool) {
        let driver = Rc::downgrade(self);
        let doubt = Timer::after(POLL_EVERY_MS, move || post_to(&driver, Event::Network(true)));
        *self.doubt.borrow_mut() = (!is_up).then_some(doubt);
        self.post(Event::Network(is_up));
    }

    /// Reads the machine. Error: `closed` once the session is closed.
    pub fn with<T>(&self, read: impl FnOnce(&Machine) -> T) -> Result<T> {
        self.ask(|machine| read(machine))
    }

    /// The same for a question that the machine remembers. It is no event, and has no effects.
    pub fn ask<T>(&self, ask: impl FnOnce(&mut Machine) -> T) -> Result<T> {
        // This borrow fails only while the machine runs one of the application's own functions.
        let mut machine = self.machine.try_borrow_mut().map_err(|_| {
            Error::new(Code::BadOption, "an optimistic part reads and writes through its transaction only")
        })?;
        let machine = machine.as_mut();
        machine.map(ask).ok_or_else(|| Error::new(Code::Closed, "the session is closed"))
    }

    /// The receiver of the driver's callbacks.
    pub fn host(&self) -> &dyn Host {
        &*self.host
    }

    /// The store; `None` in incognito.
    pub fn store(&self) -> Option<&Rc<IdbStore>> {
        self.store.as_ref()
    }

    /// Passes an event to the machine, or queues it while the effects of another one are performed.
    pub fn post(self: &Rc<Self>, event: Event) {
        self.queue.borrow_mut().push_back(event);
        if self.is_handling.replace(true) {
            return;
        }
        loop {
            let Some(event) = self.queue.borrow_mut().pop_front() else { break };
            let clock = Clock { wall_ms: now_ms(), mono_ms: monotonic_ms() as u64 };
            let effects = match self.machine.borrow_mut().as_mut() {
                Some(machine) => machine.handle(event, clock),
                None => Vec::new(),
            };
            for effect in effects {
                self.carry_out(effect, clock);
            }
        }
        self.is_handling.set(false);
        let committing = self.with(Machine::is_committing).unwrap_or(false);
        if !committing {
            for resolve in self.settled.take() {
                let _ = resolve.call0(&JsValue::UNDEFINED);
            }
        }
    }

    fn carry_out(self: &Rc<Self>, effect: Effect, clock: Clock) {
        // Once closing has begun, due batches are written and waiting calls answered; nothing new begins.
        let ends = matches!(
            effect,
            Effect::Commit(_)
                | Effect::CancelSend(_)
                | Effect::Answer { .. }
                | Effect::Matched { .. }
                | Effect::Past { .. }
                | Effect::Swept { .. }
                | Effect::Saved { .. }
        );
        if self.closed.borrow().is_some() && !ends {
            return;
        }
        match effect {
            Effect::Send { number, request, token } => self.send(number, request, token),
            Effect::CancelSend(number) => {
                if let Some((_, abort)) = self.request.borrow_mut().take_if(|(n, _)| *n == number) {
                    abort.abort();
                }
            }
            Effect::OpenSocket(socket) => self.open_channel(socket),
            Effect::Say { socket, request } => self.say(socket, &request),
            Effect::CloseSocket(socket) => {
                let closed = self.channel.borrow_mut().take_if(|(n, _)| *n == socket);
                drop(closed);
            }
            Effect::AskToken { refused } => self.ask_token(refused),
            Effect::Commit(batch) => self.commit(batch),
            Effect::Reopen(expected) => {
                let Some(store) = self.store.clone() else { return };
                let tabs = self.tabs();
                self.spawn(async move {
                    let reopened = reopen(&*store, &expected).await;
                    if reopened.as_ref().is_err_and(|error| error.code() == Code::StoreTooNew) {
                        // A newer version of the code has upgraded the store and leads from now on.
                        leave(tabs.as_deref());
                    }
                    Event::Reopened(reopened)
                });
            }
            Effect::ReadPages { ticket, keys } => {
                let Some(store) = self.store.clone() else { return };
                self.spawn(async move {
                    let pages = store.read_pages(&keys).await;
                    Event::PagesOpened { ticket, pages }
                });
            }
            Effect::Answer { ticket, rows } => self.settle(ticket, Answer::Rows(rows)),
            Effect::Matched { ticket, ids } => self.settle(ticket, Answer::Ids(ids)),
            Effect::ReadJournal { ticket, keys } => {
                let Some(store) = self.store.clone() else { return };
                self.spawn(async move {
                    let records = store.get(Table::Journal, &keys).await;
                    Event::JournalRead { ticket, records }
                });
            }
            Effect::Past { ticket, actions } => self.settle(ticket, Answer::Past(actions)),
            Effect::Swept { ticket, swept } => self.settle(ticket, Answer::Swept(swept)),
            Effect::Files { needed } => self.host.files(&needed),
            Effect::Saved { id } => {
                self.host.operation(&News::Saved { id: &id, on_device: self.store.is_some() });
            }
            Effect::Accepted { id, result: Ok((v, value)) } => {
                self.host.operation(&News::Accepted { id: &id, v, value: value.as_ref() });
            }
            Effect::Accepted { id, result: Err(error) } => {
                self.host.operation(&News::Failed { id: &id, error: &error });
            }
            Effect::Refused { id, error } => self.host.operation(&News::Refused { id: &id, error: &error }),
            Effect::Amended { id, by } => self.host.operation(&News::Amended { id: &id, by: &by }),
            Effect::Changed { defs, gone } => {
                let defs: Vec<String> = defs.iter().map(ToString::to_string).collect();
                self.host.changed(&defs, &gone);
            }
            Effect::Tab(effect) => self.carry_out_for_tabs(effect),
            Effect::StatusChanged => {
                self.host.status();
                self.tabs().iter().for_each(|tabs| tabs.status_changed());
            }
            Effect::WakeAt(at) => {
                let driver = Rc::downgrade(self);
                let timer = at.map(|at| {
                    Timer::after(at.saturating_sub(clock.mono_ms).max(1), move || {
                        post_to(&driver, Event::Woke);
                    })
                });
                *self.timer.borrow_mut() = timer;
            }
        }
    }

    fn send(self: &Rc<Self>, number: u64, request: crate::codec::SyncRequest, token: Option<String>) {
        let Some(server) = self.server.clone() else { return };
        let abort = Abort::new();
        *self.request.borrow_mut() = Some((number, abort.clone()));
        self.spawn(async move {
            let reply = server.sync(&request, token.as_deref(), &abort).await;
            Event::Replied { number, reply }
        });
    }

    fn open_channel(self: &Rc<Self>, socket: u64) {
        let Some(server) = &self.server else { return };
        let driver = Rc::downgrade(self);
        let opened = Channel::open(server, move |event| {
            post_to(
                &driver,
                match event {
                    ChannelEvent::Opened => Event::SocketOpened { socket },
                    ChannelEvent::Frame(frame) => Event::Frame { socket, frame },
                    ChannelEvent::Closed(code, reason) => Event::SocketClosed { socket, code, reason },
                },
            );
        });
        match opened {
            Ok(channel) => {
                let is_open = channel.is_adapter();
                let earlier = self.channel.borrow_mut().replace((socket, channel));
                drop(earlier);
                if is_open {
                    self.post(Event::SocketOpened { socket });
                }
            }
            Err(_) => self.post(closed_abnormally(socket)),
        }
    }

    fn say(self: &Rc<Self>, socket: u64, request: &crate::codec::LiveRequest) {
        // The channel is taken out of its slot while the adapter's own code runs: that code may call back at
        // once.
        let Some((number, mut channel)) = self.channel.borrow_mut().take_if(|(n, _)| *n == socket) else {
            return;
        };
        let said = channel.say(request);
        let mut slot = self.channel.borrow_mut();
        if slot.is_none() {
            *slot = Some((number, channel));
        }
        drop(slot);
        match said {
            Ok(Some(frame)) => self.post(Event::Frame { socket, frame: Ok(frame) }),
            Ok(None) => {}
            Err(_) => self.post(closed_abnormally(socket)),
        }
    }

    fn ask_token(self: &Rc<Self>, refused: bool) {
        let promise = self.host.token(refused);
        self.spawn(async move {
            let token = JsFuture::from(promise).await.ok().and_then(|token| token.as_string());
            Event::Token(token.filter(|token| !token.is_empty()))
        });
    }

    fn commit(self: &Rc<Self>, batch: Batch) {
        let Some(store) = self.store.clone() else { return };
        let tabs = self.tabs();
        self.spawn(async move {
            callbacks_first().await;
            let result = store.commit(batch).await;
            if let (Ok(()), Some(tabs)) = (&result, tabs) {
                tabs.written();
            }
            Event::Committed(result)
        });
    }

    /// Waits until the whole session is on the device. Errors: why it cannot be written, or `closed`.
    pub async fn flush(&self) -> Result<()> {
        while !self.with(Machine::is_at_rest)?? {
            self.until_settled().await;
        }
        Ok(())
    }

    async fn until_settled(&self) {
        let done = Deferred::new();
        self.settled.borrow_mut().push(done.resolve.clone());
        let _ = JsFuture::from(done.promise).await;
    }

    /// Ends the session. Nothing more is sent, changes are written, keys and memory are dropped, and the
    /// store is released. A second call waits for the same end.
    pub async fn close(self: &Rc<Self>) {
        let earlier = self.closed.borrow().clone();
        if let Some(closed) = earlier {
            let _ = JsFuture::from(closed).await;
            return;
        }
        let done = Deferred::new();
        *self.closed.borrow_mut() = Some(done.promise);
        self.end().await;
        let _ = done.resolve.call0(&JsValue::UNDEFINED);
    }

    async fn end(&self) {
        self.signals.borrow_mut().take();
        self.timer.borrow_mut().take();
        self.doubt.borrow_mut().take();
        let channel = self.channel.borrow_mut().take();
        drop(channel);
        let request = self.request.borrow_mut().take();
        if let Some((_, abort)) = request {
            abort.abort();
        }
        if self.with(Machine::is_committing).unwrap_or(false) {
            self.until_settled().await;
        }
        let last_mark = self.machine.borrow_mut().as_mut().and_then(|machine| machine.last_mark().ok()?);
        if let (Some(store), Some(batch)) = (&self.store, last_mark) {
            // If the last high-water mark cannot be written, the stored one stays older than the store.
            let _ = store.commit(batch).await;
        }
        let tabs = self.tabs.borrow_mut().take();
        leave(tabs.as_deref());
        let machine = self.machine.borrow_mut().take();
        drop(machine);
        let waiting: Vec<Function> =
            self.answers.borrow().values().map(|(resolve, _)| resolve.clone()).collect();
        for resolve in waiting {
            let _ = resolve.call0(&JsValue::UNDEFINED);
        }
        if let Some(store) = &self.store {
            store.close().await;
        }
    }
}

/// By so many microtasks the requests of a batch come after the report of its changes.
const TURNS: u32 = 20;

/// Lets the callbacks of changes run before the requests of their batch, which take longer. They are some microtasks
/// behind. The page's task remains the same: a page that saves while it is left has made these requests in time.
async fn callbacks_first() {
    let mut turns = TURNS;
    std::future::poll_fn(|context| {
        if turns == 0 {
            return Poll::Ready(());
        }
        turns -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn leave(tabs: Option<&Tabs>) {
    if let Some(tabs) = tabs {
        tabs.leave();
    }
}

fn post_to(driver: &Weak<Driver>, event: Event) {
    if let Some(driver) = driver.upgrade() {
        driver.post(event);
    }
}

mod answers;
mod host;
mod shared;
#[cfg(test)]
mod tests;
