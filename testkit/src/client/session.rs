//! The client itself. It owns the machine and the open store, and carries out each effect at once, in order. `Hooks`
//! let a test observe, hold back or fail any of that.
//!
//! In each test, the machine has one batch and one request in flight at most. Woken too early, it does nothing.
//! It reports each change of its status.

use std::collections::VecDeque;

use escale::Error;
use escale::codec::SyncRequest;
use escale::store::{MemoryStore, Store};
use escale::sync::{Clock, Effect, Event, Machine, Refusal};

use super::call::{Call, Duty};
use super::opening::Opened;
use crate::asleep::check_asleep;

/// More events than follow from one.
const EVENTS_MAX: usize = 5_000;

/// How the device takes a call.
pub enum Fate {
    Done,
    Fails(Error),
    /// It waits in [`Client::held`].
    Held,
}

/// The surroundings of a client: a device that may fail, a network, and an application.
pub trait Hooks {
    /// Whether the process still runs. If not, it handles no more events.
    fn is_alive(&self) -> bool {
        true
    }

    /// The machine has handled an event. Its effects are still to be carried out.
    fn handled(&mut self, _machine: &Machine) {}

    /// How the device takes a call.
    fn call(&mut self, _call: &Call) -> Fate {
        Fate::Done
    }

    /// The device's answer, which the machine handles next.
    fn answer(&mut self, _event: &Event) {}

    /// A request for the server. It waits in [`Client::sent`], unless it is refused at once.
    fn request(&mut self, _request: &SyncRequest, _token: Option<String>) -> Option<Refusal> {
        None
    }

    /// `CancelSend`, `OpenSocket`, `Say`, `CloseSocket` or `AskToken`, and the event that answers it at once.
    fn network(&mut self, _effect: Effect) -> Option<Event> {
        None
    }

    /// The machine tells the application something.
    fn tell(&mut self, _effect: Effect, _machine: &Machine) {}
}

/// Nothing is observed, and nothing fails.
pub struct Quiet;

impl Hooks for Quiet {}

pub struct Client<H = Quiet, S = MemoryStore> {
    pub machine: Machine,
    /// `None` in incognito.
    pub store: Option<S>,
    pub hooks: H,
    /// The time, which the test sets.
    pub clock: Clock,
    /// When the machine wants to be woken.
    pub wake_at: Option<u64>,
    /// The request that waits for its answer.
    pub sent: Option<(u64, SyncRequest)>,
    /// The calls to the device that are held back, the oldest first.
    pub held: VecDeque<Call>,
    /// The number of the request in flight. The test may have taken it from `sent`.
    in_flight: Option<u64>,
    is_writing: bool,
}

impl<H: Hooks, S: Store> Client<H, S> {
    /// A client at that time, not started yet.
    pub fn new(machine: Machine, store: Option<S>, clock: Clock, hooks: H) -> Self {
        Client {
            machine,
            store,
            hooks,
            clock,
            wake_at: None,
            sent: None,
            held: VecDeque::new(),
            in_flight: None,
            is_writing: false,
        }
    }

    /// The client of an open session.
    pub fn of(opened: Opened<S>, clock: Clock, hooks: H) -> Self {
        Client::new(opened.machine, Some(opened.store), clock, hooks)
    }

    /// Passes an event to the machine, carries out the effects, and so on with the events that answer them.
    pub fn feed(&mut self, event: Event) {
        if !matches!(event, Event::Started | Event::Woke) {
            check_asleep(&mut self.machine, self.wake_at, self.clock);
        }
        let mut events = VecDeque::from([event]);
        for _ in 0..EVENTS_MAX {
            let Some(event) = events.pop_front().filter(|_| self.hooks.is_alive()) else { return };
            for effect in self.handle(event) {
                events.extend(self.carry_out(effect));
            }
        }
        panic!("a loop: {:?}", events.front());
    }

    /// Passes an event to the machine. Returns the effects, which are not carried out yet.
    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        match &event {
            Event::Woke => self.wake_at = None,
            Event::Committed(_) => self.is_writing = false,
            Event::Replied { number, .. } => self.end_request(*number),
            _ => {}
        }
        let before = self.machine.status();
        let effects = self.machine.handle(event, self.clock);
        let is_told = effects.iter().any(|effect| matches!(effect, Effect::StatusChanged));
        assert!(is_told || self.machine.status() == before, "nothing tells of {:?}", self.machine.status());
        self.hooks.handled(&self.machine);
        effects
    }

    /// Carries out an effect. Returns the event that answers it at once.
    pub fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        match Duty::of(effect, &self.machine) {
            Duty::Device(call) => self.call(call),
            Duty::Network(Effect::Send { number, request, token }) => {
                assert_eq!(self.in_flight.replace(number), None, "R5: two requests in flight");
                if let Some(refusal) = self.hooks.request(&request, token) {
                    return Some(Event::Replied { number, reply: Err(refusal) });
                }
                self.sent = Some((number, request));
                None
            }
            Duty::Network(effect) => {
                if let Effect::CancelSend(number) = effect {
                    self.end_request(number);
                }
                self.hooks.network(effect)
            }
            Duty::Timer(at) => {
                self.wake_at = at;
                None
            }
            Duty::Application(effect) => {
                self.hooks.tell(effect, &self.machine);
                None
            }
        }
    }

    fn end_request(&mut self, number: u64) {
        self.in_flight.take_if(|sent| *sent == number);
        self.sent.take_if(|(sent, _)| *sent == number);
    }

    fn call(&mut self, call: Call) -> Option<Event> {
        if matches!(call, Call::Commit(_)) {
            assert!(!std::mem::replace(&mut self.is_writing, true), "two batches in flight");
        }
        match self.hooks.call(&call) {
            Fate::Done => Some(self.make(call)),
            Fate::Fails(error) => Some(call.failed(error)),
            Fate::Held => {
                self.held.push_back(call);
                None
            }
        }
    }

    /// Makes a call to the device. Returns the event that answers it.
    pub fn make(&mut self, call: Call) -> Event {
        let event = call.make(self.store.as_ref().expect("a device"));
        self.hooks.answer(&event);
        event
    }

    /// Time passes on both clocks.
    pub fn pass(&mut self, ms: u64) {
        self.clock.wall_ms += ms;
        self.clock.mono_ms += ms;
    }

    /// Time passes, and the machine is woken. Before the time that it asked for, it does nothing.
    pub fn wait(&mut self, ms: u64) {
        let before = self.clock;
        for part in [0, ms / 2, ms.saturating_sub(1)] {
            let clock = Clock { wall_ms: before.wall_ms + part, mono_ms: before.mono_ms + part };
            check_asleep(&mut self.machine, self.wake_at, clock);
        }
        self.pass(ms);
        self.feed(Event::Woke);
    }
}
