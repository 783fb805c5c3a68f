//! The socket of the reference: when the session opens it, gives it up, and registers its subscriptions.

use std::collections::BTreeSet;

use escale::Code;
use escale::codec::ServerFrame;
use escale::crypto::Random;
use escale::limits::{BACKOFF_MS, SOCKET_SILENCE_MS, SPREAD_MAX_MS, pull_every_ms};
use escale::model::Def;
use escale::sync::Updates;

use super::parts::{Failures, Known, Pace};
use super::pulls::Reference;

#[derive(Clone, Copy, Default, PartialEq)]
pub enum State {
    #[default]
    Closed,
    Opening,
    Open,
}

#[derive(Default)]
pub struct Socket {
    pub state: State,
    pub number: u64,
    failures: Failures,
    pace: Pace,
    not_before: u64,
    /// The time that the server named.
    asked: u64,
    /// The server was away, and no socket has been registered or has failed since.
    is_back: bool,
    ahead_not_before: u64,
    heard: u64,
    has_opened: bool,
    pub said: Option<BTreeSet<Def>>,
    said_token: u64,
    registered: Option<BTreeSet<Def>>,
    pub error: Option<Code>,
}

impl Socket {
    pub fn try_at_once(&mut self, retry_after: u64) {
        self.failures = Failures::default();
        self.not_before = retry_after;
    }

    /// A pull has found a server that was away.
    pub fn server_is_back(&mut self, now: u64, retry_after: u64) {
        if self.state == State::Closed && now >= self.ahead_not_before {
            self.ahead_not_before = now + BACKOFF_MS.1;
            self.not_before = self.asked.max(retry_after);
            self.is_back = true;
        }
    }

    pub fn try_token(&mut self, retry_after: u64) {
        if self.failures.0 <= 1 {
            self.not_before = retry_after;
        }
    }

    pub fn close(&mut self) -> Option<String> {
        (self.said, self.registered, self.is_back) = (None, None, false);
        let was = std::mem::take(&mut self.state);
        (was != State::Closed).then(|| format!("close {}", self.number))
    }

    /// Whether no socket was registered or has failed.
    pub fn is_due(&self) -> bool {
        self.registered.is_none() && (self.is_back || self.failures.0 == 0)
    }

    fn is_current(&self, number: u64) -> bool {
        self.number == number && self.state != State::Closed
    }

    fn free_at(&self) -> u64 {
        self.not_before.max(self.pace.free_at())
    }
}

impl Reference {
    pub fn updates(&self) -> Updates {
        let socket = &self.socket;
        match (&socket.registered, &socket.said) {
            (Some(_), Some(said)) if said.len() == self.known.len() => Updates::Pushed,
            _ => Updates::Polled,
        }
    }

    /// When all defs are pulled without another reason.
    pub fn all_at(&self) -> u64 {
        let is_pushed = self.updates() == Updates::Pushed;
        self.all_asked + if is_pushed { pull_every_ms("session") } else { self.config.poll_every_ms }
    }

    pub fn refuse_token(&mut self) {
        self.token = None;
        if !std::mem::replace(&mut self.awaits_token, true) {
            self.effects.push("ask another token".into());
        }
    }

    pub fn advance_socket(&mut self) {
        if !self.config.has_live {
            return;
        }
        let (now, socket) = (self.now, &mut self.socket);
        if self.config.watches_silence
            && socket.state != State::Closed
            && now >= socket.heard + SOCKET_SILENCE_MS
            && let Some(closed) = socket.close()
        {
            self.effects.push(closed);
            socket.not_before = now + socket.failures.next(&mut self.random);
        }
        if socket.state == State::Closed && now >= socket.free_at() && !self.known.is_empty() {
            socket.pace.take(now);
            socket.number += 1;
            (socket.state, socket.heard) = (State::Opening, now);
            self.effects.push(format!("open {}", socket.number));
        }
        let most = if socket.registered.is_none() { 64 } else { 1_000 };
        let defs: BTreeSet<Def> = self.known.keys().take(most).cloned().collect();
        if socket.state == State::Open && socket.said.as_ref() != Some(&defs) {
            self.effects.push(format!("say {} {:?} {defs:?}", socket.number, self.token));
            (socket.said, socket.said_token) = (Some(defs), self.token_number);
        }
    }

    pub fn socket_wakes_at(&self) -> Option<u64> {
        let socket = &self.socket;
        match socket.state {
            _ if !self.config.has_live => None,
            State::Closed => (!self.known.is_empty()).then(|| socket.free_at()),
            _ => self.config.watches_silence.then_some(socket.heard + SOCKET_SILENCE_MS),
        }
    }

    pub fn socket_opened(&mut self, number: u64) {
        if self.socket.is_current(number) {
            self.socket.state = State::Open;
            self.socket.has_opened = true;
            self.socket.heard = self.now;
        }
    }

    /// A socket was closed with that code, for which the status shows `error`, and perhaps with the time over which
    /// sessions come back.
    pub fn socket_closed(&mut self, number: u64, code: u16, error: Option<Code>, spread: Option<u64>) {
        if !self.socket.is_current(number) {
            return;
        }
        let socket = &mut self.socket;
        socket.close();
        let delay = socket.failures.next(&mut self.random);
        if let Some(ms) = spread {
            socket.asked = self.now + self.random.below(ms + 1).expect("a number");
        }
        socket.not_before = (self.now + delay).max(socket.asked).max(self.retry_after);
        socket.error = error;
        if code == 4401 && socket.said_token == self.token_number {
            self.error = Some(Code::Unauthorized);
            self.refuse_token();
        }
        if spread.is_some() {
            self.all_asked = self.now;
        } else if self.socket.has_opened {
            self.need_all();
        }
    }

    /// Needs these defs at once, or at a random moment within that time.
    pub fn ask_within(&mut self, spread: u64, defs: Vec<Def>) {
        if spread == 0 {
            self.needed.extend(defs);
            return;
        }
        let at = self.now + self.random.below(spread.min(SPREAD_MAX_MS) + 1).expect("a number");
        for def in defs {
            self.late.entry(def).or_default().1 = Some(at);
        }
    }

    pub fn framed(&mut self, number: u64, frame: &ServerFrame) {
        if !self.socket.is_current(number) {
            return;
        }
        self.socket.heard = self.now;
        match frame {
            ServerFrame::Alive => {}
            ServerFrame::Live { live, refused, head, spread } => {
                let socket = &mut self.socket;
                (socket.failures, socket.error, socket.is_back) = (Failures::default(), None, false);
                let before = socket.registered.replace(live.iter().cloned().collect()).unwrap_or_default();
                let head = head.as_ref().filter(|(epoch, _)| self.epoch.as_ref() == Some(epoch));
                let has_missed =
                    |known: &Known| head.is_none_or(|(_, highest)| known.is_loading() || known.v <= *highest);
                let new = live.iter().filter(|def| !before.contains(*def));
                let changed = new.filter(|def| self.known.get(*def).is_some_and(has_missed)).cloned();
                let changed: Vec<Def> = changed.collect();
                self.ask_within(*spread, changed);
                for (def, fault) in refused {
                    let Some(known) = self.known.get_mut(def) else { continue };
                    let code = Code::parse(&fault.code).expect("a code");
                    known.is_ready &= code.is_retryable();
                    self.faults.insert(def.clone(), code);
                }
            }
            ServerFrame::Hints(hints) => {
                for (def, _) in hints {
                    if let Some(known) = self.known.get_mut(def) {
                        known.is_hinted |= known.is_loading();
                        self.needed.insert(def.clone());
                    }
                }
            }
            ServerFrame::Parts(parts) => {
                if self.epoch.as_ref().is_none_or(|known| parts.epoch > *known) {
                    let is_later = self.epoch.is_some();
                    self.enter(&parts.epoch);
                    if is_later {
                        self.sender.last = parts.seq;
                    }
                }
            }
        }
    }
}
