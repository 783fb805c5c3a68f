//! What the server says: replies to pulls, socket frames, and their faults.

use std::collections::BTreeSet;

use super::event::Refusal;
use super::live::SocketState;
use super::machine::Machine;
use crate::codec::{Fault, OpResult, Part, ServerFrame, ServerParts, SyncReply};
use crate::error::{Code, Error, Result};
use crate::model::{Def, Epoch};
use crate::session::{DocKey, EpochChange, PartContext, PartOutcome, PreparedPart};

/// The close code of a refused token (docs/protocol.md).
const CLOSE_TOKEN: u16 = 4401;

impl Machine {
    pub(super) fn replied(
        &mut self,
        number: u64,
        reply: std::result::Result<SyncReply, Refusal>,
    ) -> Result<()> {
        let Some(mut request) = self.pull.land(number) else { return Ok(()) };
        // Read whole before anything is applied: nothing is half applied.
        let prepared = reply.and_then(|mut reply| {
            reply.check()?;
            let parts = std::mem::take(&mut reply.parts);
            Ok((self.prepare_parts(parts)?, reply))
        });
        let (parts, reply) = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => {
                self.pull.needed.extend(request.asked.into_keys());
                self.pull.repairs.extend(request.repairs);
                return self.refused(refusal);
            }
        };
        self.pull.backoff.reset();
        self.pull.failing = false;
        self.error = None;
        let change = self.enter(&reply.epoch, reply.now);
        match change {
            EpochChange::Same => {}
            EpochChange::Earlier => {
                self.pull.needed.extend(request.asked.into_keys());
                self.pull.repairs.extend(request.repairs);
                let error = Error::new(Code::ServerError, "the server answers from an earlier epoch");
                return self.refused(error.into());
            }
            EpochChange::Later => request.forget_earlier_epoch(),
        }
        self.pull.answered = true;
        let is_gap = |result: &OpResult| {
            result.fault.as_ref().is_some_and(|fault| fault.code == Code::OrderGap.as_str())
        };
        let has_gap = reply.results.iter().any(is_gap);
        self.take_results(&request.ops, reply.results)?;
        if change == EpochChange::Later {
            self.enter_epoch_with(reply.seq);
        } else if has_gap {
            // The server tells how far it has come; what it has not executed is numbered anew from there.
            self.writes.mark.last_seq = reply.seq;
        }
        let era = self.memory.epoch().1;
        let settled = reply.now.saturating_sub(reply.delta);
        let mut told: BTreeSet<Def> = BTreeSet::new();
        let mut whole: BTreeSet<Def> = BTreeSet::new();
        let mut rows: BTreeSet<DocKey> = BTreeSet::new();
        for (part, fault) in parts {
            let def = part.def().clone();
            let is_repair = request.repairs.contains(&def);
            let asked = request.asked.get(&def).cloned();
            if (!is_repair && asked.is_none()) || !told.insert(def.clone()) {
                continue;
            }
            if let Some(fault) = fault {
                whole.insert(def.clone());
                self.part_refused(&def, &fault, asked.is_some_and(|asked| asked.cursor))?;
                continue;
            }
            rows.extend(self.rows_of(&part));
            if is_repair {
                self.memory.apply_repair(part, era);
                continue;
            }
            self.faults.remove(&def);
            let since = asked.map(|asked| asked.since);
            match self.memory.apply(part, PartContext { era, settled, asked: since }) {
                PartOutcome::Whole => {
                    self.lost_collections.remove(&def);
                    whole.insert(def);
                }
                PartOutcome::Unfinished => {
                    self.pull.needed.insert(def);
                }
                PartOutcome::Unknown => {}
            }
        }
        // The reply was full before these: they are asked for again.
        let left = request.asked.into_keys().filter(|def| !told.contains(def));
        self.pull.needed.extend(left);
        self.pull.repairs.extend(request.repairs.into_iter().filter(|def| !told.contains(def)));
        if change != EpochChange::Later {
            self.effects_seen(reply.seq, &whole, &rows);
        } else {
            self.end_seen();
        }
        self.memory.remove_expired(reply.now);
        self.forget_found();
        Ok(())
    }

    fn prepare_parts(
        &self,
        parts: Vec<Part>,
    ) -> std::result::Result<Vec<(PreparedPart, Option<Fault>)>, Refusal> {
        let mut prepared = Vec::with_capacity(parts.len());
        for mut part in parts {
            let fault = part.fault.take();
            prepared.push((self.memory.prepare(part)?, fault));
        }
        Ok(prepared)
    }

    /// The documents that a part tells.
    fn rows_of(&self, part: &PreparedPart) -> Vec<DocKey> {
        part.rows().filter_map(|pk| self.memory.doc_key(part.def().class(), pk)).collect()
    }

    /// Takes the epoch and the time of a reply.
    fn enter(&mut self, epoch: &Epoch, now: u64) -> EpochChange {
        let change = self.memory.enter_epoch(epoch);
        if change != EpochChange::Earlier {
            self.server_now = Some((now, self.clock.mono_ms));
        }
        if change == EpochChange::Later {
            self.pull.forget_earlier_epoch();
            self.need_all();
        }
        change
    }

    fn part_refused(&mut self, def: &Def, fault: &Fault, had_cursor: bool) -> Result<()> {
        let error = error_of(fault);
        if had_cursor {
            // The cursor is of no use any more: the load starts anew.
            self.memory.restart(def);
            self.pull.needed.insert(def.clone());
        } else if fault.kind.is_retryable() {
            self.pull.needed.insert(def.clone());
            let delay = self.pull.backoff.next_ms(&mut *self.random)?;
            self.pull.not_before_ms = self.pull.not_before_ms.max(self.clock.mono_ms + delay);
        }
        if self.memory.collection(def).is_some() {
            self.faults.insert(def.clone(), error);
        }
        Ok(())
    }

    pub(super) fn framed(&mut self, socket: u64, frame: Result<ServerFrame>) -> Result<()> {
        if !self.live.is_current(socket) {
            return Ok(());
        }
        self.live.last_heard_ms = self.clock.mono_ms;
        match frame? {
            ServerFrame::Alive => {}
            ServerFrame::Live { live, refused } => {
                self.live.backoff.reset();
                let registered: BTreeSet<Def> = live.into_iter().collect();
                let before = self.live.registered.take().unwrap_or_default();
                let new = registered.difference(&before).filter(|def| self.memory.collection(def).is_some());
                self.pull.needed.extend(new.cloned());
                self.live.registered = Some(registered);
                for (def, fault) in refused {
                    if self.memory.collection(&def).is_some() {
                        self.faults.insert(def, error_of(&fault));
                    }
                }
            }
            ServerFrame::Hints(hints) => {
                let known =
                    hints.into_iter().map(|(def, _)| def).filter(|d| self.memory.collection(d).is_some());
                let known: Vec<Def> = known.collect();
                self.pull.needed.extend(known);
            }
            ServerFrame::Parts(parts) => self.pushed(parts)?,
        }
        Ok(())
    }

    fn pushed(&mut self, pushed: ServerParts) -> Result<()> {
        pushed.check()?;
        let parts = self.prepare_parts(pushed.parts).map_err(|refusal| refusal.error)?;
        let change = self.enter(&pushed.epoch, pushed.now);
        match change {
            EpochChange::Earlier => return Ok(()),
            EpochChange::Later => self.enter_epoch_with(pushed.seq),
            EpochChange::Same => {}
        }
        let context = PartContext {
            era: self.memory.epoch().1,
            settled: pushed.now.saturating_sub(pushed.delta),
            asked: None,
        };
        let mut rows: BTreeSet<DocKey> = BTreeSet::new();
        for (part, fault) in parts {
            if fault.is_none() {
                rows.extend(self.rows_of(&part));
                self.memory.apply(part, context);
            }
        }
        // A push tells of some documents; only a pull tells all that a def has to show.
        if change == EpochChange::Same {
            self.effects_seen(pushed.seq, &BTreeSet::new(), &rows);
        }
        Ok(())
    }

    pub(super) fn socket_closed(&mut self, socket: u64, code: u16) -> Result<()> {
        if !self.live.is_current(socket) {
            return Ok(());
        }
        let was_open = self.live.state == SocketState::Open;
        self.live.close();
        let delay = self.live.backoff.next_ms(&mut *self.random)?;
        self.live.not_before_ms = (self.clock.mono_ms + delay).max(self.pull.retry_after_ms);
        if code == CLOSE_TOKEN {
            self.error = Some(Error::new(Code::Unauthorized, "the socket was closed for its token"));
            self.token_refused();
        }
        // The server is there or it is not: a pull tells, and what was hinted on the way down is not missed.
        if was_open {
            self.need_all();
        }
        Ok(())
    }
}

/// The error of a fault; a code that this version does not know keeps its kind.
pub fn error_of(fault: &Fault) -> Error {
    let code = Code::parse(&fault.code).unwrap_or(match fault.kind {
        crate::error::Kind::N => Code::NotFound,
        crate::error::Kind::S => Code::Forbidden,
        crate::error::Kind::C => Code::Contention,
        crate::error::Kind::O => Code::Unavailable,
        crate::error::Kind::D => Code::WrongProtocol,
        crate::error::Kind::A | crate::error::Kind::B | crate::error::Kind::X => Code::ServerError,
    });
    Error::new(code, fault.message.chars().take(500).collect::<String>())
}
