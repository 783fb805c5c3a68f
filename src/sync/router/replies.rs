//! The sequences for messages from the server: replies to pulls, and frames of the socket. Each part of the
//! machine does its share.

use super::dispatch::Router;
use crate::codec::{ServerFrame, ServerParts, SyncReply};
use crate::error::{Code, Error, Result};
use crate::memory::{DocKey, EpochChange, PartContext};
use crate::model::{Def, SortedMap, SortedSet};
use crate::sync::facts::Told;
use crate::sync::message::{Refusal, error_of};
use crate::sync::outbox;
use crate::sync::pull::{InFlight, ReadPart, bad_reply, mistakes_of, prepare};

impl Router {
    /// Handles the reply to the request in flight, or its failure.
    pub fn replied(&mut self, number: u64, reply: std::result::Result<SyncReply, Refusal>) -> Result<()> {
        let Some(request) = self.pull.land(number) else { return Ok(()) };
        let reply = reply.and_then(|reply| {
            reply.check()?;
            Ok(reply)
        });
        match reply {
            Ok(reply) => self.answered(request, reply),
            Err(refusal) => self.request_failed(request, refusal),
        }
    }

    /// Handles the failure of a request.
    fn request_failed(&mut self, request: InFlight, refusal: Refusal) -> Result<()> {
        let code = refusal.error.code();
        if code == Code::UnknownOrg {
            if self.pull.org_is_missing(&mut self.ctx, request, refusal)? {
                self.outbox.sender.delay(&mut self.ctx)?;
            }
            return Ok(());
        }
        let is_of_earlier_token = self.token.is_replaced(request.token);
        self.pull.found_too_large(&request, &refusal.error);
        self.outbox.sender.found_too_large(
            &mut self.outbox.table,
            &request.ops,
            request.ops_bytes,
            request.subs > 0,
            &refusal.error,
        );
        self.pull.ask_again(request);
        if is_of_earlier_token && code == Code::Unauthorized {
            return Ok(());
        }
        self.refused(refusal)
    }

    /// Handles a refusal of the server.
    fn refused(&mut self, refusal: Refusal) -> Result<()> {
        if refusal.error.code() == Code::Unauthorized {
            self.token.refused(&mut self.ctx);
        }
        self.pull.refused(&mut self.ctx, refusal)
    }

    /// Handles a reply that can be decoded.
    fn answered(&mut self, mut request: InFlight, mut reply: SyncReply) -> Result<()> {
        // Everything is decoded before anything is applied: no reply is applied in part.
        let is_certain = |id: &crate::journal::OpId| self.outbox.table.has_one_number(id);
        let mistakes = mistakes_of(&self.ctx, &request, &reply, is_certain);
        let parts = prepare(&self.ctx.memory, std::mem::take(&mut reply.parts));
        let change = self.pull.enter(&mut self.ctx, &reply.epoch, reply.now);
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
            self.pull.send_again(&mut self.ctx)?;
        } else if is_missed {
            self.pull.ask_again(request);
            let words = "parts: none of what was asked for is there, and no result";
            return self.refused(bad_reply("Pull", words).into());
        } else {
            self.pull.end_delays();
        }
        self.pull.succeeded(&mut self.ctx);
        if self.pull.org_answers(&self.ctx, &request, &reply.results) {
            self.live.try_at_once(self.pull.retry_after_ms());
        }
        self.pull.mistakes.tell(&mut self.ctx, mistakes);
        if let Some(seq) = request.seq_without_results(reply.seq, &reply.results).filter(|_| !is_later) {
            reply.seq = seq;
            let words = "seq: it counts operations of which `results` has none";
            self.ctx.errors.report(bad_reply("Operations", words));
        }
        let has_result = request.has_result_in(&reply.results);
        let decided = request.decided_by(&reply.results);
        let results = std::mem::take(&mut reply.results);
        if self.outbox.sender.take_results(
            &mut self.ctx,
            &mut self.outbox.table,
            &*self.outbox.application,
            &request.ops,
            results,
            (reply.seq, is_later),
        )? {
            // The socket reports the progress of the session's old name.
            self.live.close(&mut self.ctx);
        }
        for (id, v, defs) in self.outbox.table.executed(&request.ops) {
            self.pull.note_executed(&request, (&id, v), &defs);
        }
        let in_doubt = self.outbox.table.in_doubt(&decided);
        self.apply_parts(request, parts, &reply, (&in_doubt, is_later || has_result))?;
        if is_later {
            self.outbox.enter_epoch_with(&mut self.ctx, reply.seq);
            // Nothing was executed because of the epoch, which is no error.
            self.ctx.errors.clear();
        }
        self.ctx.memory.remove_expired(reply.now);
        self.reads.forget_found(&self.ctx);
        Ok(())
    }

    /// Applies the parts of a reply, except those with documents of operations that are in doubt.
    fn apply_parts(
        &mut self,
        mut request: InFlight,
        parts: Vec<ReadPart>,
        reply: &SyncReply,
        (in_doubt, mut is_progress): (&SortedSet<u64>, bool),
    ) -> Result<()> {
        let settled = reply.now.saturating_sub(reply.delta);
        let mut told: SortedSet<Def> = SortedSet::new();
        let mut whole: SortedMap<Def, Told> = SortedMap::new();
        let mut rows: SortedSet<DocKey> = SortedSet::new();
        let is_alone = parts.iter().all(ReadPart::is_empty);
        for (place, part) in parts.into_iter().enumerate() {
            let def = part.def().clone();
            if !request.asks(&def) || told.contains(&def) {
                continue;
            }
            let shown = self.touched_by(&part);
            // Requested again: a later reply will have the results.
            if self.outbox.table.touches_any(&shown, in_doubt) {
                continue;
            }
            told.insert(def.clone());
            is_progress |= part.is_page();
            if self.pull.refuse_endless(&mut self.ctx, (place, &part), &request, is_alone)? {
                continue;
            }
            rows.extend(shown);
            let all = self.pull.apply_part(&mut self.ctx, part, &request, settled)?;
            whole.extend(all.map(|all| (def, all)));
        }
        if is_progress || (!is_alone && self.ctx.memory.has_changes()) {
            self.pull.progressed();
        }
        // The reply had no room for the other defs: they are requested again.
        request.forget(&told);
        self.pull.ask_again(request);
        outbox::effects_seen(&mut self.ctx, &mut self.outbox.table, reply.seq, Some(&whole), &rows);
        Ok(())
    }

    /// The documents in a part that pending operations touch.
    fn touched_by(&self, part: &ReadPart) -> Vec<DocKey> {
        if self.outbox.table.is_empty() {
            Vec::new()
        } else {
            self.outbox.table.touched(part.keys(&self.ctx.memory))
        }
    }

    /// Handles a message of the socket.
    pub fn framed(&mut self, socket: u64, frame: Result<ServerFrame>) -> Result<()> {
        if !self.live.heard(&self.ctx, socket) {
            return Ok(());
        }
        match frame? {
            ServerFrame::Alive => {}
            ServerFrame::Live { live, refused } => {
                // A load in progress continues: its next page is a pull after the registration.
                let new = self.live.confirmed(live);
                self.pull.need(&self.ctx, new);
                for (def, fault) in refused {
                    self.pull.note_fault(&self.ctx, def, error_of(&fault));
                }
            }
            ServerFrame::Hints(hints) => {
                for (def, _) in &hints {
                    self.pull.hinted(&self.ctx, def);
                }
            }
            ServerFrame::Parts(parts) => self.pushed(parts)?,
        }
        Ok(())
    }

    /// Applies parts that the server pushed over the socket. A part that touches operations which may be
    /// executed under other numbers is pulled instead: only a reply shows, with their results, whether it
    /// contains their effects.
    fn pushed(&mut self, pushed: ServerParts) -> Result<()> {
        pushed.check()?;
        let parts = prepare(&self.ctx.memory, pushed.parts);
        let change = self.pull.enter(&mut self.ctx, &pushed.epoch, pushed.now);
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
            let told = self.touched_by(&part);
            if self.outbox.table.is_any_renumbered(&told) {
                self.pull.hinted(&self.ctx, part.def());
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
        outbox::effects_seen(&mut self.ctx, &mut self.outbox.table, pushed.seq, None, &rows);
        if change == EpochChange::Later {
            self.outbox.enter_epoch_with(&mut self.ctx, pushed.seq);
        }
        Ok(())
    }

    /// A socket has closed. The server may be down: a pull finds out, and brings the changes whose hints were
    /// lost with the socket. A server that never had a socket open is asked at its own interval.
    pub fn socket_closed(&mut self, socket: u64, code: u16, reason: &str) -> Result<()> {
        let retry_after_ms = self.pull.retry_after_ms();
        let closed = self.live.closed(&mut self.ctx, socket, (code, reason), retry_after_ms)?;
        let Some(closed) = closed else { return Ok(()) };
        if closed.refused_token.is_some_and(|token| !self.token.is_replaced(token)) {
            let error = Error::new(Code::Unauthorized, "the socket was closed for its token");
            self.ctx.errors.report(error);
            self.token.refused(&mut self.ctx);
        }
        if closed.had_opened {
            self.pull.need_all(&self.ctx);
        }
        Ok(())
    }
}
