//! Handles messages from the server: replies to pulls, socket frames, and their faults.

use super::machine::Machine;
use super::message::{Refusal, error_of};
use super::mistakes::bad_reply;
use super::pull::{InFlight, Page};
use crate::codec::{Fault, Part, ServerFrame, ServerParts, SyncReply};
use crate::error::{Code, Error, Result};
use crate::journal::{OpId, PendingOp};
use crate::memory::{DocKey, EpochChange, PartContext, PartOutcome, PreparedPart};
use crate::model::{Def, Epoch, SortedMap, SortedSet, Version, order};

/// The close code of a refused token (docs/protocol.md).
const CLOSE_TOKEN: u16 = 4401;

/// A part, decoded as far as applying it needs.
enum ReadPart {
    Prepared(PreparedPart),
    /// Refused by the server.
    Refused(Def, Fault),
    /// A document in it cannot be decoded.
    Unreadable(Def, Error),
}

/// Which effects of operations are shown by a def that was received whole.
pub(super) enum Told {
    /// All that were executed.
    All,
    /// After a load of several pages: those of accepted operations, except these.
    But(SortedSet<OpId>),
}

impl Told {
    /// Whether it shows the effect of an operation.
    pub fn shows(&self, op: &PendingOp) -> bool {
        match self {
            Told::All => true,
            Told::But(behind) => op.state.accepted.is_some() && !behind.contains(&op.state.id),
        }
    }
}

impl ReadPart {
    fn def(&self) -> &Def {
        match self {
            ReadPart::Prepared(part) => part.def(),
            ReadPart::Refused(def, _) | ReadPart::Unreadable(def, _) => def,
        }
    }

    /// Whether it contains no change.
    fn is_empty(&self) -> bool {
        match self {
            ReadPart::Prepared(part) => part.ends().is_none(),
            ReadPart::Refused(..) | ReadPart::Unreadable(..) => true,
        }
    }

    /// Whether it advances a load of several pages.
    fn is_page(&self) -> bool {
        matches!(self, ReadPart::Prepared(part) if part.next().is_some() && part.ends().is_some())
    }
}

impl Machine {
    /// Handles the reply to the request in flight, or its failure.
    pub(super) fn replied(
        &mut self,
        number: u64,
        reply: std::result::Result<SyncReply, Refusal>,
    ) -> Result<()> {
        let Some(mut request) = self.pull.land(number) else { return Ok(()) };
        // Everything is decoded before anything is applied: no reply is applied in part.
        let prepared = reply.and_then(|mut reply| {
            reply.check()?;
            let mistakes = self.mistakes_of(&request, &reply);
            let parts = std::mem::take(&mut reply.parts);
            Ok((self.prepare_parts(parts), mistakes, reply))
        });
        let (parts, mistakes, mut reply) = match prepared {
            Ok(prepared) => prepared,
            Err(refusal) => {
                if refusal.error.code() == Code::UnknownOrg {
                    return self.org_is_missing(request, refusal);
                }
                let replaced = self.is_replaced(request.token);
                self.found_too_large(&request, &refusal.error);
                self.pull.ask_again(request);
                if replaced && refusal.error.code() == Code::Unauthorized {
                    return Ok(());
                }
                return self.refused(refusal);
            }
        };
        let change = self.enter(&reply.epoch, reply.now);
        match change {
            EpochChange::Same => {}
            EpochChange::Earlier => {
                self.pull.ask_again(request);
                let error = Error::new(Code::ServerError, "the server answers from an earlier epoch");
                return self.refused(error.into());
            }
            EpochChange::Later => request.forget_earlier_epoch(),
        }
        let is_missed = request.is_missed_by(parts.iter().map(ReadPart::def), &reply.results);
        let is_later = change == EpochChange::Later;
        if is_later && (is_missed || request.is_not_executed(&reply.results)) {
            // The request was sent in an earlier epoch. All of it is sent again at once; if one epoch follows
            // another, at growing intervals.
            let is_another = self.pull.backoff.failures() > 0;
            let delay = self.pull.backoff.next_ms(&mut *self.ctx.random)?;
            self.pull.not_before_ms = self.ctx.clock.mono_ms + if is_another { delay } else { 0 };
        } else if is_missed {
            self.pull.ask_again(request);
            let words = "parts: none of what was asked for is there, and no result";
            return self.refused(bad_reply("Pull", words).into());
        } else {
            self.pull.backoff.reset();
        }
        self.pull.failing = false;
        self.ctx.errors.clear();
        self.org_answers(&request, &reply.results);
        self.tell_mistakes(mistakes);
        if let Some(seq) = request.seq_without_results(reply.seq, &reply.results).filter(|_| !is_later) {
            reply.seq = seq;
            let words = "seq: it counts operations of which `results` has none";
            self.ctx.errors.report(bad_reply("Operations", words));
        }
        self.pull.answered = true;
        let mut is_progress = is_later || request.has_result_in(&reply.results);
        let decided = request.decided_by(&reply.results);
        self.take_results(&request.ops, reply.results, (reply.seq, is_later))?;
        self.note_behind(&request);
        let in_doubt = self.in_doubt(&decided);
        let settled = reply.now.saturating_sub(reply.delta);
        let mut told: SortedSet<Def> = SortedSet::new();
        let mut whole: SortedMap<Def, Told> = SortedMap::new();
        let mut rows: SortedSet<DocKey> = SortedSet::new();
        let is_alone = parts.iter().all(ReadPart::is_empty);
        for (place, part) in parts.into_iter().enumerate() {
            let def = part.def().clone();
            if request.asks(&def) && !told.contains(&def) {
                let shown = self.rows_of(&part);
                let is_undecided =
                    |key: &DocKey| self.writes.on(key).any(|op| in_doubt.contains(&op.state.order));
                // Requested again: a later reply will have the results.
                if shown.iter().any(is_undecided) {
                    continue;
                }
                told.insert(def.clone());
                is_progress |= part.is_page();
                if let Some(error) = self.endless(place, &part, &def, &request, is_alone) {
                    self.page_refused(&def, error)?;
                    continue;
                }
                rows.extend(shown);
                let all = self.apply_part(part, &request, &def, settled)?;
                whole.extend(all.map(|all| (def, all)));
            }
        }
        if is_progress || (!is_alone && self.ctx.memory.has_changes()) {
            self.pull.pace.reset();
        }
        // The reply had no room for the other defs: they are requested again.
        request.forget(&told);
        self.pull.ask_again(request);
        self.effects_seen(reply.seq, Some(&whole), &rows);
        if is_later {
            self.enter_epoch_with(reply.seq);
            // Nothing was executed because of the epoch, which is no error.
            self.ctx.errors.clear();
        }
        self.ctx.memory.remove_expired(reply.now);
        self.forget_found();
        Ok(())
    }

    /// Decodes the parts as far as applying them needs, so that none is applied in part.
    fn prepare_parts(&self, parts: Vec<Part>) -> Vec<ReadPart> {
        let read = |mut part: Part| {
            let def = part.def.clone();
            match part.fault.take() {
                Some(fault) => ReadPart::Refused(def, fault),
                None => match self.ctx.memory.prepare(part) {
                    Ok(part) => ReadPart::Prepared(part),
                    Err(error) => ReadPart::Unreadable(def, error),
                },
            }
        };
        parts.into_iter().map(read).collect()
    }

    /// Returns an error if a page does not advance its load: requested again at once, the load would never
    /// end.
    fn endless(
        &mut self,
        place: usize,
        part: &ReadPart,
        def: &Def,
        request: &InFlight,
        is_alone: bool,
    ) -> Option<Error> {
        let ReadPart::Prepared(part) = part else { return None };
        let has_asked = request.asked.get(def).is_some_and(|asked| asked.cursor);
        let load = self.ctx.memory.collection(def).and_then(|collection| collection.load.as_ref());
        let asked = load.map(|load| load.cursor.as_str()).filter(|_| has_asked);
        let page = Page { asked, next: part.next()?, ends: part.ends() };
        if self.pull.goes_on(def, page, is_alone) {
            return None;
        }
        let words = format!("parts[{place}].next: the page does not go on from the one before it");
        Some(bad_reply("Pages", &words))
    }

    /// A load does not advance: it begins again, at growing intervals.
    fn page_refused(&mut self, def: &Def, error: Error) -> Result<()> {
        self.ctx.memory.restart(def);
        self.pull.retry(def, self.ctx.clock.mono_ms, &mut *self.ctx.random)?;
        self.faults.insert(def.clone(), error.clone());
        self.ctx.errors.report(error);
        Ok(())
    }

    /// Notes operations that were executed during a load under a version that the load has passed: a clock
    /// was behind.
    fn note_behind(&mut self, request: &InFlight) {
        for op in request.ops.iter().filter_map(|(id, _)| self.writes.get(id)) {
            let Some(v) = op.state.accepted else { continue };
            let is_under_way = |def: &&Def| request.asked.get(*def).is_some_and(|asked| asked.cursor);
            for def in op.awaits.iter().flatten().filter(is_under_way) {
                self.pull.is_executed(def, &op.state.id, v);
            }
        }
    }

    /// Applies one part of a reply to a pull. Returns which effects it shows, if the def needs no further
    /// page for now.
    fn apply_part(
        &mut self,
        part: ReadPart,
        request: &InFlight,
        def: &Def,
        settled: Version,
    ) -> Result<Option<Told>> {
        let is_repair = request.repairs.contains(def);
        let era = self.ctx.memory.epoch().1;
        let part = match part {
            ReadPart::Prepared(part) => part,
            ReadPart::Refused(_, fault) if is_repair => {
                self.repair_refused(def, &fault)?;
                return Ok(None);
            }
            ReadPart::Refused(_, fault) => {
                let had_cursor = request.asked.get(def).is_some_and(|asked| asked.cursor);
                self.part_refused(def, &fault, had_cursor)?;
                return Ok((!fault.kind.is_retryable()).then_some(Told::All));
            }
            // A document that cannot be decoded must not delay other defs. This def is requested again with
            // all the others.
            ReadPart::Unreadable(_, error) => {
                if self.ctx.memory.collection(def).is_some() {
                    self.faults.insert(def.clone(), error);
                }
                return Ok(None);
            }
        };
        if is_repair {
            self.pull.retries.remove(def);
            if !self.ctx.memory.apply_repair(part, era) {
                self.pull.repairs.insert(def.clone());
            }
            return Ok(None);
        }
        self.faults.remove(def);
        let asked = request.asked.get(def);
        let is_first = asked.is_none_or(|asked| !asked.cursor);
        let asked = asked.map(|asked| asked.since);
        let highest = part.highest();
        match self.ctx.memory.apply(part, PartContext { era, settled, asked }) {
            PartOutcome::Whole => {
                self.pull.retries.remove(def);
                self.lost_collections.remove(def);
                let behind = self.pull.is_whole(def);
                Ok(Some(if is_first { Told::All } else { Told::But(behind) }))
            }
            PartOutcome::Unfinished => {
                self.pull.is_unfinished(def, is_first, highest);
                Ok(None)
            }
            PartOutcome::Unknown => Ok(None),
        }
    }

    /// Whether a pushed part touches operations that may be executed under other numbers. Only a reply shows,
    /// with their results, whether it contains their effects.
    fn is_untold(&self, rows: &[DocKey]) -> bool {
        rows.iter().any(|key| self.writes.on(key).any(|op| op.has_other_numbers))
    }

    /// The documents in a part that pending operations touch.
    fn rows_of(&self, part: &ReadPart) -> Vec<DocKey> {
        let ReadPart::Prepared(part) = part else { return Vec::new() };
        if self.writes.ops.is_empty() {
            return Vec::new();
        }
        let keys = part.rows().filter_map(|pk| self.ctx.memory.doc_key(part.def().class(), pk));
        keys.filter(|key| self.writes.by_key.contains_key(key)).collect()
    }

    /// Takes the epoch and the time of a message.
    fn enter(&mut self, epoch: &Epoch, now: u64) -> EpochChange {
        let change = self.ctx.memory.enter_epoch(epoch);
        if change != EpochChange::Earlier {
            self.ctx.server_now = Some((now, self.ctx.clock.mono_ms));
        }
        if change == EpochChange::Later {
            self.pull.forget_earlier_epoch();
            self.need_all();
        }
        change
    }

    fn part_refused(&mut self, def: &Def, fault: &Fault, had_cursor: bool) -> Result<()> {
        if fault.kind.is_retryable() {
            self.pull.retry(def, self.ctx.clock.mono_ms, &mut *self.ctx.random)?;
        } else if had_cursor {
            // The cursor is of no use any more: the load starts from scratch.
            self.ctx.memory.restart(def);
            self.pull.needed.insert(def.clone());
        }
        if self.ctx.memory.collection(def).is_some() {
            self.faults.insert(def.clone(), error_of(fault));
        }
        Ok(())
    }

    /// The server refused a single damaged document: it is requested later, or with a collection that holds
    /// it (R14).
    fn repair_refused(&mut self, def: &Def, fault: &Fault) -> Result<()> {
        if fault.kind.is_retryable() {
            return self.pull.retry(def, self.ctx.clock.mono_ms, &mut *self.ctx.random);
        }
        let crate::model::DefKind::Document(pk) = def.kind() else { return Ok(()) };
        let key = self.ctx.memory.doc_key(def.class(), pk);
        let document = key.and_then(|key| self.ctx.memory.document(&key));
        let holder = document.and_then(|d| d.defs.iter().find(|def| !self.faults.contains_key(*def)));
        if let Some(holder) = holder.cloned() {
            self.reload_collection(holder);
        }
        Ok(())
    }

    pub(super) fn framed(&mut self, socket: u64, frame: Result<ServerFrame>) -> Result<()> {
        if !self.live.is_current(socket) {
            return Ok(());
        }
        self.live.last_heard_ms = self.ctx.clock.mono_ms;
        match frame? {
            ServerFrame::Alive => {}
            ServerFrame::Live { live, refused } => {
                self.live.backoff.reset();
                self.live.error = None;
                let registered: SortedSet<Def> = order::set_of(live);
                let before = self.live.registered.take().unwrap_or_default();
                // A load in progress continues: its next page is a pull after the registration.
                let new = registered
                    .iter()
                    .filter(|def| !before.contains(*def))
                    .filter(|def| self.ctx.memory.collection(def).is_some());
                self.pull.needed.extend(new.cloned());
                self.live.registered = Some(registered);
                for (def, fault) in refused {
                    if self.ctx.memory.collection(&def).is_some() {
                        self.faults.insert(def, error_of(&fault));
                    }
                }
            }
            ServerFrame::Hints(hints) => {
                for (def, _) in &hints {
                    self.hinted(def);
                }
            }
            ServerFrame::Parts(parts) => self.pushed(parts)?,
        }
        Ok(())
    }

    fn hinted(&mut self, def: &Def) {
        let era = self.ctx.memory.epoch().1;
        if let Some(collection) = self.ctx.memory.collection(def) {
            self.pull.hint(def.clone(), collection.is_loading(era));
        }
    }

    /// Applies parts that the server pushed over the socket.
    fn pushed(&mut self, pushed: ServerParts) -> Result<()> {
        pushed.check()?;
        let parts = self.prepare_parts(pushed.parts);
        let change = self.enter(&pushed.epoch, pushed.now);
        if change == EpochChange::Earlier {
            return Ok(());
        }
        let context = PartContext {
            era: self.ctx.memory.epoch().1,
            settled: pushed.now.saturating_sub(pushed.delta),
            asked: None,
        };
        let mut rows: SortedSet<DocKey> = SortedSet::new();
        for part in parts {
            let told = self.rows_of(&part);
            if self.is_untold(&told) {
                self.hinted(part.def());
                continue;
            }
            rows.extend(told);
            match part {
                ReadPart::Prepared(part) => {
                    self.ctx.memory.apply(part, context);
                }
                ReadPart::Unreadable(_, error) => self.ctx.errors.report(error),
                ReadPart::Refused(..) => {}
            }
        }
        // A push contains some documents only; a pull alone shows a def completely.
        self.effects_seen(pushed.seq, None, &rows);
        if change == EpochChange::Later {
            self.enter_epoch_with(pushed.seq);
        }
        Ok(())
    }

    pub(super) fn socket_closed(&mut self, socket: u64, code: u16, reason: &str) -> Result<()> {
        if !self.live.is_current(socket) {
            return Ok(());
        }
        let replaced = self.is_replaced(self.live.said_token);
        self.live.close();
        let delay = self.live.backoff.next_ms(&mut *self.ctx.random)?;
        self.live.not_before_ms = (self.ctx.clock.mono_ms + delay).max(self.pull.retry_after_ms);
        if code == CLOSE_TOKEN && !replaced {
            self.ctx.errors.report(Error::new(Code::Unauthorized, "the socket was closed for its token"));
            self.token_refused();
        }
        self.live.error = close_error(code, reason);
        // The server may be down: a pull finds out, and brings the changes whose hints were lost with the
        // socket. A server that never had a socket open is asked at its own interval.
        if self.live.has_opened {
            self.need_all();
        }
        Ok(())
    }
}

/// Why a server closed a socket, if it gives a reason. A refused token is handled elsewhere, and a missing
/// org is no error: nothing may have been written to it yet.
fn close_error(code: u16, reason: &str) -> Option<Error> {
    let found = match code {
        1008 => Code::parse(reason).unwrap_or(Code::ServerRefused),
        1011 => Code::ServerError,
        1012 | 1013 => Code::Unavailable,
        4429 => Code::TooMany,
        CLOSE_TOKEN => return None,
        3000..=4999 => Code::ServerRefused,
        _ => return None,
    };
    let reason: String = reason.chars().filter(|c| !c.is_control()).take(200).collect();
    let detail = format!("the server closed the socket with {code} {reason}");
    (found != Code::UnknownOrg).then(|| Error::new(found, detail.trim_end()))
}
