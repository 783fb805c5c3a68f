//! A reference for the session's contact with the server: which defs a session requests, when, and the status that
//! follows. It is written from docs/rules.md and docs/protocol.md, keeps no documents, and takes its delays from a
//! source of the same seed.

use std::collections::{BTreeMap, BTreeSet};

use escale::Code;
use escale::codec::{OpResult, Part, SyncReply};
use escale::crypto::SeededRandom;
use escale::limits::SUBS_MAX;
use escale::model::{Def, DefKind, Epoch};
use escale::sync::{Config, Phase, Refusal};

use super::parts::{Failures, Flight, Known, Load, Pace, Shown};
use super::sender::Sender;
use super::socket::Socket;

pub struct Reference {
    pub config: Config,
    pub now: u64,
    pub random: SeededRandom,
    pub has_network: bool,
    pub is_avion: bool,
    pub epoch: Option<Epoch>,
    pub known: BTreeMap<Def, Known>,
    pub needed: BTreeSet<Def>,
    /// When the index that a collection took its members from is dropped.
    index_ends: u64,
    /// Defs refused for a while: the failures, and the time of the next request.
    pub late: BTreeMap<Def, (Failures, Option<u64>)>,
    pub flight: Option<Flight>,
    number: u64,
    failures: Failures,
    pace: Pace,
    not_before: u64,
    /// The server asked for it.
    pub retry_after: u64,
    pub all_asked: u64,
    /// The server has no such org: when to ask for the defs again.
    pub missing: Option<u64>,
    /// The server's epoch is known, though it has no such org.
    pub has_epoch: bool,
    /// It refused a request without defs because of the org.
    is_org_refused: bool,
    has_answered: bool,
    is_failing: bool,
    subs_max: usize,
    empty_pages: u32,
    pub faults: BTreeMap<Def, Code>,
    pub error: Option<Code>,
    pub token: Option<String>,
    pub token_number: u64,
    pub awaits_token: bool,
    pub socket: Socket,
    pub sender: Sender,
    pub effects: Vec<String>,
}

impl Reference {
    /// The reference for a session that has just started.
    pub fn new(config: Config, seed: u64, now: u64) -> Self {
        let mut reference = Reference {
            awaits_token: config.has_token,
            config,
            now,
            random: SeededRandom::new(seed),
            has_network: true,
            is_avion: false,
            epoch: None,
            known: BTreeMap::new(),
            needed: BTreeSet::new(),
            index_ends: 0,
            late: BTreeMap::new(),
            flight: None,
            number: 0,
            failures: Failures::default(),
            pace: Pace::default(),
            not_before: 0,
            retry_after: 0,
            all_asked: now,
            missing: None,
            is_org_refused: false,
            has_epoch: false,
            has_answered: false,
            is_failing: false,
            subs_max: SUBS_MAX,
            empty_pages: 0,
            faults: BTreeMap::new(),
            error: None,
            token: None,
            token_number: 0,
            socket: Socket::default(),
            sender: Sender::default(),
            effects: Vec::new(),
        };
        if reference.awaits_token {
            reference.effects.push("ask a token".into());
        }
        reference.advance();
        reference
    }

    pub fn is_connected(&self) -> bool {
        !self.is_avion && self.has_network && !self.awaits_token
    }

    pub fn need_all(&mut self) {
        self.needed = self.known.keys().cloned().collect();
        self.all_asked = self.now;
    }

    pub fn subscribe(&mut self, def: &Def) {
        if !self.known.contains_key(def) {
            let class =
                self.known.get(&Def::class_of(def.class())).filter(|class| class.is_ready && class.v > 0);
            let v = class.filter(|_| matches!(def.kind(), DefKind::Collection(..))).map(|class| class.v);
            self.index_ends = v.map_or(self.index_ends, |_| self.now + 300_000);
            let (v, is_ready) = (v.unwrap_or(0), v.is_some());
            self.known.insert(def.clone(), Known { v, is_ready, ..Known::default() });
            self.needed.insert(def.clone());
            self.pace.reset();
        }
    }

    pub fn unsubscribe(&mut self, def: &Def) {
        self.needed.remove(def);
        self.known.remove(def);
        self.late.remove(def);
        self.faults.remove(def);
        if let Some(flight) = &mut self.flight {
            flight.is_less |= flight.asked.remove(def).is_some();
        }
        if self.is_idle() {
            self.is_failing = false;
            self.error = self.error.filter(|code| !code.is_retryable());
        }
    }

    /// There is a reason to try at once.
    pub fn try_at_once(&mut self) {
        self.failures = Failures::default();
        self.pace.reset();
        self.not_before = self.retry_after;
        for (failures, due) in self.late.values_mut() {
            *failures = Failures::default();
            *due = due.map(|due| due.min(self.now));
        }
        self.missing = self.missing.map(|_| self.now);
        self.socket.try_at_once(self.retry_after);
        self.sender.try_at_once(self.retry_after);
    }

    /// Whether there is nothing to ask the server for.
    fn is_idle(&self) -> bool {
        self.known.is_empty() && self.sender.waiting.is_empty()
    }

    pub fn set_network(&mut self, is_up: bool) {
        self.has_network = is_up;
        if is_up {
            self.look_up();
        }
    }

    /// The device is online, or the page is visible.
    pub fn look_up(&mut self) {
        if self.awaits_token && self.config.has_token && !self.is_avion {
            self.effects.push("ask another token".into());
        }
        self.try_at_once();
    }

    pub fn set_mode(&mut self, is_avion: bool) {
        if std::mem::replace(&mut self.is_avion, is_avion) == is_avion {
            return;
        }
        if let Some(flight) = self.flight.take() {
            self.effects.push(format!("cancel {}", flight.number));
            self.needed.extend(flight.asked.into_keys());
        }
        self.effects.extend(self.socket.close());
        (self.has_answered, self.is_failing, self.error) = (false, false, None);
        if !is_avion {
            self.need_all();
            self.try_at_once();
            if self.config.has_token && self.token.is_none() {
                self.awaits_token = true;
                self.effects.push("ask a token".into());
            }
        }
    }

    pub fn give_token(&mut self, token: Option<String>) {
        if token.is_none() && !self.awaits_token {
            return;
        }
        self.awaits_token = token.is_none();
        self.token = token;
        self.token_number += 1;
        if self.awaits_token {
            self.error = self.error.or(Some(Code::Unauthorized));
        }
        if self.failures.0 <= 1 {
            self.not_before = self.retry_after;
        }
        self.socket.try_token(self.retry_after);
    }

    /// A request failed.
    pub fn refused(&mut self, refusal: &Refusal) {
        let Some(flight) = self.flight.take() else { return };
        self.sender.took(&flight, self.now, true);
        let code = refusal.error.code();
        self.needed.extend(flight.asked.keys().cloned());
        let is_bare = flight.subs == 0;
        if code == Code::UnknownOrg {
            self.retry_after = refusal.retry_after_ms.map_or(self.retry_after, |ms| self.now + ms);
            self.not_before = self.retry_after;
            let asked = (!is_bare).then(|| self.now + self.failures.next(&mut self.random));
            self.missing = asked.or(self.missing).or(Some(0));
            self.has_epoch &= !is_bare && flight.ops.is_empty();
            self.is_failing = false;
            self.is_org_refused |= is_bare;
            let was_there = self.known.values().any(|known| known.is_ready || known.v > 0);
            self.error = (was_there || self.is_org_refused).then_some(code);
            if is_bare {
                self.sender.delay(self.now, &mut self.random);
            }
            return;
        }
        if matches!(code, Code::TooLarge | Code::TooDeep) && flight.ops.is_empty() {
            self.subs_max = (self.subs_max.min(flight.subs) / 2).max(1);
        } else if matches!(code, Code::TooLarge | Code::TooDeep) {
            self.sender.found_too_large(&flight);
        }
        if code == Code::Unauthorized {
            if flight.token != self.token_number {
                return;
            }
            self.refuse_token();
        }
        self.failed(code, refusal.retry_after_ms);
    }

    fn failed(&mut self, code: Code, retry_after_ms: Option<u64>) {
        self.retry_after = retry_after_ms.map_or(self.retry_after, |ms| self.now + ms);
        self.is_failing |= code != Code::Unauthorized;
        let delay = self.failures.next(&mut self.random);
        self.not_before = (self.now + delay).max(self.retry_after);
        self.error = Some(code);
    }

    /// Enters a later epoch: every def is loaded again.
    pub fn enter(&mut self, epoch: &Epoch) {
        let is_later = self.epoch.is_some();
        self.epoch = Some(epoch.clone());
        if is_later {
            self.known.values_mut().for_each(Known::restart);
            self.need_all();
            if let Some(flight) = &mut self.flight {
                flight.forget_earlier_epoch();
            }
        }
    }

    /// A request was answered.
    pub fn answered(&mut self, reply: &SyncReply) {
        if let Some(flight) = &self.flight {
            self.sender.took(flight, self.now, false);
        }
        if self.epoch.as_ref().is_some_and(|known| reply.epoch < *known) {
            let Some(flight) = self.flight.take() else { return };
            self.needed.extend(flight.asked.into_keys());
            return self.failed(Code::ServerError, None);
        }
        let is_later = self.epoch.as_ref().is_some_and(|known| reply.epoch > *known);
        if self.epoch.as_ref() != Some(&reply.epoch) {
            self.enter(&reply.epoch);
        }
        let Some(mut flight) = self.flight.take() else { return };
        let is_part = |part: &Part| flight.asked.contains_key(&part.def);
        let is_missed = flight.has_asked() && !flight.is_less && !reply.parts.iter().any(is_part);
        let is_missed = is_missed && reply.results.is_empty();
        let has_final = reply.results.iter().any(OpResult::is_final);
        if is_later && (is_missed || !flight.ops.is_empty() && !has_final) {
            let is_another = self.failures.0 > 0;
            let delay = self.failures.next(&mut self.random);
            self.not_before = self.now + if is_another { delay } else { 0 };
        } else if is_missed {
            self.needed.extend(flight.asked.into_keys());
            return self.failed(Code::BadReply, None);
        } else {
            self.failures = Failures::default();
        }
        if self.is_failing {
            self.socket.server_is_back(self.now, self.retry_after);
        }
        (self.has_answered, self.is_failing, self.error) = (true, false, None);
        self.has_epoch |= self.missing.is_some();
        self.is_org_refused = false;
        let is_there = flight.subs > 0 || reply.results.iter().any(|result| result.ok.is_some());
        if self.missing.take_if(|_| is_there).is_some() {
            self.has_epoch = false;
            self.need_all();
            self.socket.try_at_once(self.retry_after);
        }
        self.take_results(&flight, reply, is_later);
        let has_changes = |part: &Part| !part.rows.is_empty() || !part.left.is_empty();
        let is_alone = !reply.parts.iter().any(has_changes);
        for part in &reply.parts {
            if let Some((since, cursor)) = flight.asked.remove(&part.def) {
                self.take_part(part, since, cursor.as_deref(), (reply.now - reply.delta, is_alone));
            }
        }
        if !is_alone || is_later || has_final {
            self.pace.reset();
        }
        self.needed.extend(flight.asked.into_keys());
        if is_later {
            self.sender.last = reply.seq;
            self.error = None;
        }
    }

    fn take_part(&mut self, part: &Part, since: u64, cursor: Option<&str>, (settled, is_alone): (u64, bool)) {
        let def = &part.def;
        if let Some(next) = &part.next
            && !self.goes_on(part, cursor, next, is_alone)
        {
            self.known.get_mut(def).expect("asked").restart();
            self.delay(def);
            self.faults.insert(def.clone(), Code::BadReply);
            self.error = Some(Code::BadReply);
            return;
        }
        let known = self.known.get_mut(def).expect("asked");
        if let Some(fault) = &part.fault {
            let code = Code::parse(&fault.code).expect("a code");
            if code.is_retryable() {
                self.delay(def);
            } else if cursor.is_some() {
                known.restart();
                if std::mem::replace(&mut known.has_restarted, true) {
                    self.delay(def);
                } else {
                    self.needed.insert(def.clone());
                }
            } else {
                known.is_ready = false;
            }
            self.faults.insert(def.clone(), code);
            return;
        }
        let is_first = cursor.is_none();
        self.faults.remove(def);
        let (settle, before) = known.load.take().map_or((settled, 0), |load| (load.settle, load.received));
        if let Some(next) = &part.next {
            let (cursor, received) = (next.clone(), before + part.rows.len() as u64);
            known.load = Some(Load { cursor, since, settle, received, total: part.total });
            known.reach(is_first, part.rows.iter().map(|row| row.v).max());
            self.needed.insert(def.clone());
            return;
        }
        (known.v, known.is_ready, known.end) = (known.v.max(settle), true, None);
        self.late.remove(def);
        (known.reached, known.has_restarted) = (None, false);
        if std::mem::take(&mut known.is_hinted) | std::mem::take(&mut known.is_behind) {
            self.needed.insert(def.clone());
        }
    }

    /// Whether a page continues from the one before it.
    fn goes_on(&mut self, part: &Part, cursor: Option<&str>, next: &str, is_alone: bool) -> bool {
        let known = self.known.get_mut(&part.def).expect("asked");
        let before = known.end.take().filter(|_| cursor.is_some());
        let (Some(first), Some(last)) = (part.rows.first(), part.rows.last()) else {
            known.end = before;
            self.empty_pages = if is_alone { self.empty_pages + 1 } else { 0 };
            return !is_alone || (cursor != Some(next) && self.empty_pages < 10);
        };
        self.empty_pages = 0;
        known.end = Some((last.v, last.pk.clone()));
        before.as_ref().is_none_or(|before| first.v >= before.0) && known.end > before
    }

    fn delay(&mut self, def: &Def) {
        let (failures, due) = self.late.entry(def.clone()).or_default();
        *due = Some(self.now + failures.next(&mut self.random));
    }

    /// Does the work that is due after an event.
    pub fn advance(&mut self) {
        if !self.is_connected() {
            return;
        }
        self.advance_socket();
        if self.now >= self.all_at() {
            self.need_all();
        }
        for (def, (_, due)) in &mut self.late {
            if due.take_if(|due| *due <= self.now).is_some() {
                self.needed.insert(def.clone());
            }
        }
        if self.flight.is_none() && self.now >= self.free_at() {
            self.send();
        }
    }

    fn free_at(&self) -> u64 {
        self.not_before.max(self.pace.free_at())
    }

    /// Sends the operations and the defs that are due, if any. Long loads come last. If no epoch is known, a request for
    /// the epoch alone goes before operations. If the server has no such org, they go alone.
    fn send(&mut self) {
        let lacks_epoch = self.epoch.is_none() || (self.missing.is_some() && !self.has_epoch);
        let has_ops = self.sender.has_ops(self.now);
        let asks_epoch = lacks_epoch && has_ops;
        let is_alone = self.sender.is_alone;
        let ops = if has_ops && !asks_epoch { self.sender.take_ops(&self.known) } else { vec![] };
        if !ops.is_empty() {
            self.needed.extend(self.known.keys().filter(|def| def.class().as_str() == "Note").cloned());
        }
        let waits = self.missing.is_some_and(|ask_at| !ops.is_empty() || self.now < ask_at);
        let most = if asks_epoch || waits || (is_alone && has_ops) {
            0
        } else {
            self.subs_max.min(self.sender.piece / 64)
        };
        let is_long = |def: &&Def| self.known[*def].load.is_some();
        let (long, short): (Vec<_>, Vec<_>) = self.needed.iter().partition(is_long);
        let defs: Vec<Def> = short.into_iter().chain(long).take(most).cloned().collect();
        if defs.is_empty() && ops.is_empty() && !asks_epoch {
            return;
        }
        self.number += 1;
        let mut asked = BTreeMap::new();
        for def in &defs {
            self.needed.remove(def);
            let known = &self.known[def];
            let load = known.load.as_ref();
            asked.insert(def.clone(), load.map_or((known.v, None), |l| (l.since, Some(l.cursor.clone()))));
        }
        let subs: Vec<_> = defs.iter().map(|def| (def, &asked[def])).collect();
        self.effects.push(format!("send {} {:?} {:?} {ops:?} {subs:?}", self.number, self.epoch, self.token));
        self.pace.take(self.now);
        let (number, subs, token) = (self.number, defs.len(), self.token_number);
        let sent = (self.now, self.sender.bytes_of(&ops) + 64 * subs);
        self.flight = Some(Flight { number, asked, subs, sent, ops, token, is_less: false });
    }

    /// When the session has to be woken.
    pub fn wake_at(&self) -> Option<u64> {
        let index_ends = Some(self.index_ends).filter(|at| *at > self.now);
        if !self.is_connected() {
            return index_ends;
        }
        let mut times = vec![self.all_at()];
        times.extend(index_ends);
        times.extend(self.late.values().filter_map(|(_, due)| *due));
        if self.flight.is_none() && !self.needed.is_empty() {
            times.push(self.free_at().max(self.missing.unwrap_or(0)));
        }
        if self.flight.is_none() && !self.sender.waiting.is_empty() {
            times.push(self.free_at().max(self.sender.not_before));
        }
        times.extend(self.socket_wakes_at());
        times.into_iter().filter(|time| *time > self.now).min()
    }

    pub fn shown(&self) -> Shown {
        let loads = || self.known.iter().filter(|(_, known)| known.is_loading());
        let received = || loads().map(|(_, k)| k.load.as_ref().map_or(0, |load| load.received)).sum();
        let total = || loads().map(|(_, k)| k.load.as_ref().and_then(|load| load.total)).sum();
        let progress = (!self.is_avion && loads().next().is_some()).then(|| (received(), total()));
        let updates = (!self.is_avion).then(|| self.updates());
        let faults = self.faults.iter().map(|(def, code)| (def.clone(), *code)).collect();
        let error = self.error.or(self.socket.error);
        let phase = self.phase(loads().any(|(def, _)| !self.faults.contains_key(def)));
        Shown { phase, updates, progress, error, faults, pending: self.sender.waiting.len() as u64 }
    }

    fn phase(&self, is_loading: bool) -> Phase {
        let is_idle = self.is_idle();
        match () {
            () if self.is_avion => Phase::Avion,
            () if self.awaits_token && self.error.is_some() => Phase::Paused,
            () if !self.has_network => Phase::Offline,
            () if is_idle => Phase::Live,
            () if self.missing.is_some() => Phase::Loading,
            () if self.is_failing => Phase::Offline,
            () if !self.has_answered => Phase::Opening,
            () if is_loading => Phase::Loading,
            () if self.config.has_live && !self.known.is_empty() && self.socket.is_due() => Phase::Opening,
            () => Phase::Live,
        }
    }
}
