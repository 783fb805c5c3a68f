//! Chooses the leader among the tabs that have a store open, and lets the tabs talk to each other
//! (docs/decisions/17-a-lock-elects-a-fence-protects.md). The driver makes one [`Tabs`] for each session on a device.
//!
//! The tab that holds the leader's Web Lock leads; the others queue for the lock. A tab that hears nothing
//! from the leader for a while, and gets no answer when it asks, steals the lock. Two tabs may then believe
//! that they lead. A generation keeps them apart: a leader begins one in the store, and every batch checks
//! it. Without Web Locks, the first tab to begin a generation leads. Without a BroadcastChannel, tabs poll
//! the store.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use wasm_bindgen_futures::spawn_local;

use super::driver::Driver;
use crate::store::Store;
use crate::sync::{Event, Machine, TabEvent};
use crate::web::platform::clock::monotonic_ms;
use crate::web::platform::timers::Timer;
use crate::web::tabs::claim::{Claim, Claimed, Way};
use crate::web::tabs::messages::Messages;

/// How often [`Tabs::tick`] runs.
const TICK_MS: u64 = 500;

/// How often the leader says that it is alive.
const BEAT_EVERY_MS: u64 = 2_000;

/// A follower asks the leader after this much silence, and steals the lead if no answer comes within
/// `ANSWER_MS`.
const SILENCE_MS: u64 = 6_000;
const ANSWER_MS: u64 = 1_500;
/// The limit instead of `ANSWER_MS` for tabs that poll the store for beats. It is longer than
/// `BEAT_EVERY_MS`, so that a living leader has written a beat.
const ANSWER_LOOKED_UP_MS: u64 = 3_000;

/// How often a tab polls the store by itself: with a BroadcastChannel, since messages may be lost, and
/// without one.
const POLL_EVERY_MS: (u64, u64) = (5_000, 1_000);

/// If a tick comes this late, the tab was frozen.
const FROZEN_MS: u64 = 5_000;

/// This tab's view of the other tabs that have the same store open.
pub struct Tabs {
    name: String,
    driver: Weak<Driver>,
    messages: RefCell<Option<Messages>>,
    claim: RefCell<Option<Claim>>,
    timer: RefCell<Option<Timer>>,
    is_taking_over: Cell<bool>,
    /// The page is hidden in the browser's page cache, or the session is closed. Nothing is done until the
    /// page is shown again.
    is_away: Cell<bool>,
    ticked_ms: Cell<u64>,
    heard_ms: Cell<u64>,
    asked_ms: Cell<Option<u64>>,
    beat_ms: Cell<u64>,
    looked_ms: Cell<u64>,
    /// The leader's beat record and the signal record, as this tab last read them.
    last_records: RefCell<Option<[Option<Vec<u8>>; 2]>>,
    /// The last message with the leader's phase.
    announced: RefCell<Option<String>>,
}

fn now() -> u64 {
    monotonic_ms() as u64
}

/// The name of the Web Lock that the leader of a store holds.
pub fn lead_of(store: &str) -> String {
    format!("{store}-lead")
}

impl Tabs {
    /// Joins the tabs that have that store open; with a `claim`, as the leader.
    pub fn join(driver: &Rc<Driver>, store: &str, claim: Option<Claim>) -> Rc<Self> {
        let now = now();
        let tabs = Rc::new(Tabs {
            name: lead_of(store),
            driver: Rc::downgrade(driver),
            messages: RefCell::default(),
            claim: RefCell::default(),
            timer: RefCell::default(),
            is_taking_over: Cell::new(false),
            is_away: Cell::new(false),
            ticked_ms: Cell::new(now),
            heard_ms: Cell::new(now),
            asked_ms: Cell::new(None),
            beat_ms: Cell::new(0),
            looked_ms: Cell::new(now),
            last_records: RefCell::default(),
            announced: RefCell::new(None),
        });
        if let Some(claim) = claim {
            claim.listen(tabs.listener());
            *tabs.claim.borrow_mut() = Some(claim);
        }
        tabs.begin();
        tabs
    }

    /// Starts to listen and to tick, at the start of a session and each time the page is shown again.
    fn begin(self: &Rc<Self>) {
        let tabs = Rc::downgrade(self);
        *self.messages.borrow_mut() = Messages::listen(&self.name, move |word| {
            if let Some(tabs) = tabs.upgrade().filter(|tabs| !tabs.is_away.get()) {
                tabs.hear(word);
            }
        });
        // The leader runs an older release of the application, and does not understand all that this tab writes.
        let is_ahead = self.with(Machine::is_ahead) == Some(true);
        if self.claim.borrow().is_none() {
            self.claim(if is_ahead { Way::Steal } else { Way::Queue });
        }
        if !Claim::is_possible() {
            // There are no locks to queue for. If no leader answers the question below in time, this tab
            // leads.
            self.asked_ms.set(Some(now()));
            if is_ahead {
                self.take_over();
            }
        }
        self.say("ask");
        self.post(Event::Tab(TabEvent::Poll));
        self.look_up();
        self.arm();
    }

    /// The page is hidden in the page cache, or the session is over: another tab may lead at once.
    pub fn leave(&self) {
        if self.is_away.replace(true) {
            return;
        }
        self.timer.borrow_mut().take();
        let claim = self.claim.borrow_mut().take();
        drop(claim);
        if self.leads() {
            self.say("bye");
        }
        let messages = self.messages.borrow_mut().take();
        drop(messages);
    }

    /// The page is shown again: the tab first polls for changes that other tabs made meanwhile.
    pub fn on_pageshow(self: &Rc<Self>) {
        if self.is_away.replace(false) {
            self.heard_ms.set(now());
            self.ticked_ms.set(now());
            self.begin();
        }
    }

    /// Whether the page is hidden in the page cache, or the session is over.
    pub fn is_away(&self) -> bool {
        self.is_away.get()
    }

    /// A batch was written: the other tabs poll the store.
    pub fn written(&self) {
        self.say("look");
    }

    /// The machine leads from now on.
    pub fn led(&self) {
        self.announced.take();
        self.beat();
    }

    /// The machine no longer leads.
    pub fn deposed(self: &Rc<Self>) {
        self.heard();
        if !self.is_away.get() {
            self.claim(Way::Queue);
        }
    }

    /// Followers show the leader's phase and its faults, so the leader announces each change of them.
    pub fn status_changed(&self) {
        if !self.leads() {
            return;
        }
        let here = self.with(signals::here);
        if here != *self.announced.borrow() {
            self.say_here(here);
        }
    }

    /// The passphrase was changed: the other tabs hold an outdated header.
    pub fn rewrapped(&self) {
        self.say("header");
    }

    fn leads(&self) -> bool {
        self.with(|machine| !machine.is_following()).unwrap_or(false)
    }

    fn is_unfenced(&self) -> bool {
        self.with(Machine::is_unfenced).unwrap_or(false)
    }

    fn holds_lock(&self) -> bool {
        self.claim.borrow().as_ref().is_some_and(Claim::is_held)
    }

    fn with<T>(&self, read: impl FnOnce(&Machine) -> T) -> Option<T> {
        self.driver.upgrade()?.with(read).ok()
    }

    fn post(&self, event: Event) {
        if let Some(driver) = self.driver.upgrade() {
            driver.post(event);
        }
    }

    fn say(&self, word: &str) {
        if let Some(messages) = &*self.messages.borrow() {
            messages.say(word);
        }
    }

    fn say_here(&self, here: Option<String>) {
        if let Some(here) = &here {
            self.say(here);
        }
        self.announced.replace(here);
    }

    fn hear(self: &Rc<Self>, word: &str) {
        match word.split_once(' ').unwrap_or((word, "")) {
            ("look", _) => self.post(Event::Tab(TabEvent::Poll)),
            ("ask", _) if self.leads() => self.say_here(self.with(signals::here)),
            ("here", status) if !self.leads() => {
                self.heard();
                let (phase, refused) = signals::read_here(status);
                if let Some(phase) = phase {
                    self.post(Event::Tab(TabEvent::Heard(phase)));
                }
                self.post(Event::Tab(refused));
            }
            ("bye", _) if !self.leads() && !Claim::is_possible() => self.take_over(),
            ("header", _) => self.read_header(),
            (word, _) => {
                if let Some(signal) = signals::signal_of(word) {
                    self.obey(signal);
                }
            }
        }
    }

    fn heard(&self) {
        self.heard_ms.set(now());
        self.asked_ms.set(None);
    }

    fn read_header(&self) {
        let Some(driver) = self.driver.upgrade() else { return };
        let Some(store) = driver.store().cloned() else { return };
        spawn_local(async move {
            if let Ok(Some(header)) = store.header().await {
                driver.post(Event::Rewrapped(header));
            }
        });
    }

    fn listener(self: &Rc<Self>) -> impl Fn(Claimed) + 'static {
        let tabs = Rc::downgrade(self);
        move |claimed| {
            let Some(tabs) = tabs.upgrade().filter(|tabs| !tabs.is_away.get()) else { return };
            match claimed {
                Claimed::Granted => tabs.take_over(),
                Claimed::Lost => {
                    let led = tabs.leads();
                    tabs.post(Event::Tab(TabEvent::Depose));
                    if !led {
                        tabs.claim(Way::Queue);
                    }
                }
            }
        }
    }

    fn claim(self: &Rc<Self>, way: Way) {
        let claim = Claim::make(&self.name, way, self.listener());
        let earlier = self.claim.replace(claim);
        drop(earlier);
    }

    /// Begins a generation, unless this tab is already doing so.
    fn take_over(self: &Rc<Self>) {
        let is_led = self.leads() && !self.is_unfenced();
        if is_led || self.is_away.get() || self.is_taking_over.replace(true) {
            return;
        }
        self.heard();
        let tabs = Rc::clone(self);
        spawn_local(async move {
            let event = tabs.begin_generation().await;
            tabs.is_taking_over.set(false);
            if let Some(event) = event.filter(|_| !tabs.is_away.get()) {
                tabs.post(Event::Tab(event));
            }
        });
    }

    async fn begin_generation(&self) -> Option<TabEvent> {
        let store = self.driver.upgrade()?.store()?.clone();
        loop {
            let seen = store.generation().await.ok()?;
            match store.take_over(seen).await {
                Ok(Some(generation)) => return Some(TabEvent::Lead(generation)),
                // The tab that holds the lock leads. It does so even if another tab began a generation first,
                // or if the device has no room for the fence.
                Ok(None) if self.holds_lock() => {}
                Err(error) if self.holds_lock() => return Some(TabEvent::LeadUnfenced { seen, error }),
                _ => return None,
            }
        }
    }

    fn arm(self: &Rc<Self>) {
        let tabs = Rc::downgrade(self);
        let timer = Timer::after(TICK_MS, move || {
            if let Some(tabs) = tabs.upgrade().filter(|tabs| !tabs.is_away.get()) {
                tabs.tick();
                tabs.arm();
            }
        });
        *self.timer.borrow_mut() = Some(timer);
    }

    fn tick(self: &Rc<Self>) {
        let now = now();
        let gap = now - self.ticked_ms.replace(now);
        if gap > FROZEN_MS {
            // Messages that arrived while the tab was frozen are delivered first.
            self.heard_ms.set(now.max(self.heard_ms.get()) - SILENCE_MS / 2);
            self.asked_ms.set(None);
            self.look_whether_deposed();
        }
        let has_messages = self.messages.borrow().is_some();
        let every = if has_messages { POLL_EVERY_MS.0 } else { POLL_EVERY_MS.1 };
        if now - self.looked_ms.get() >= every {
            self.looked_ms.set(now);
            self.post(Event::Tab(TabEvent::Poll));
            self.look_up();
        }
        if self.leads() || self.holds_lock() {
            if now - self.beat_ms.get() >= BEAT_EVERY_MS {
                self.beat();
                if !self.leads() || self.is_unfenced() {
                    self.take_over_again();
                }
            }
            return;
        }
        let answer = if has_messages { ANSWER_MS } else { ANSWER_LOOKED_UP_MS };
        match self.asked_ms.get() {
            Some(asked) if now - asked >= answer => {
                self.heard();
                if Claim::is_possible() { self.claim(Way::Steal) } else { self.take_over() }
            }
            None if now - self.heard_ms.get() >= SILENCE_MS => {
                self.asked_ms.set(Some(now));
                self.say("ask");
            }
            _ => {}
        }
    }

    /// The tab holds the lock but has no generation, because the device failed: it tries again.
    fn take_over_again(self: &Rc<Self>) {
        if self.with(Machine::is_about_to_lead) == Some(false) {
            self.take_over();
        }
    }

    /// A frozen tab that wakes up may have lost the lead.
    fn look_whether_deposed(&self) {
        if self.leads() {
            self.post(Event::Tab(TabEvent::Poll));
        }
    }
}

mod broadcast;
pub(super) mod claim;
mod messages;
pub mod signals;
