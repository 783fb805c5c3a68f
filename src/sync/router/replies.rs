//! The sequences for messages from the server: replies to pulls, and frames of the socket. Each part of the
//! machine does its share.

use super::dispatch::Router;
use crate::codec::{ServerFrame, SyncReply};
use crate::error::{Code, Error, Result};
use crate::limits::SUB_BYTES;
use crate::memory::tree::is_known;
use crate::memory::{EpochChange, unready};
use crate::sync::message::{Refusal, error_of, role_of};
use crate::sync::pull::{InFlight, ReadPart, bad_reply, is_beyond, is_withdrawn, prepare, violations_of};

impl Router {
    /// Handles the reply to the request in flight, or its failure.
    pub fn replied(&mut self, number: u64, reply: std::result::Result<SyncReply, Refusal>) -> Result<()> {
        let Some(request) = self.pull.land(number) else { return Ok(()) };
        let ms = self.ctx.clock.mono_ms.saturating_sub(request.sent_ms);
        let bytes = request.ops_bytes + request.subs * SUB_BYTES;
        self.outbox.sender.room.took(bytes, ms, reply.is_err());
        let reply = reply.and_then(|mut reply| {
            reply.resolve().inspect_err(|_| self.pull.has_bad_refs = true)?;
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
        self.link().refused(refusal)
    }

    /// Handles a reply that can be decoded.
    fn answered(&mut self, mut request: InFlight, mut reply: SyncReply) -> Result<()> {
        // Everything is decoded before anything is applied: no reply is applied in part.
        let is_certain = |id: &crate::journal::OpId| self.outbox.table.has_one_number(id);
        let violations = violations_of(&self.ctx, &request, &reply, is_certain);
        let parts = prepare(&self.ctx.memory, std::mem::take(&mut reply.parts));
        let change = self.pull.enter(&mut self.ctx, &reply.epoch, reply.now);
        match change {
            EpochChange::Same => {}
            EpochChange::Earlier => {
                self.pull.ask_again(request);
                let error = Error::new(Code::ServerError, "the server answers from an earlier epoch");
                return self.link().refused(error.into());
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
            return self.link().refused(bad_reply("Pull", words).into());
        } else {
            self.pull.end_delays();
        }
        if self.pull.contact().is_failing {
            self.live.server_is_back(&self.ctx, self.pull.retry_after_ms);
        }
        self.pull.succeeded(&mut self.ctx);
        if self.pull.org_answers(&self.ctx, &request, &reply.results) {
            self.live.try_at_once(self.pull.retry_after_ms);
        }
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
        for op in self.outbox.table.executed(&request.ops) {
            self.pull.note_executed(&self.ctx, &request, op);
        }
        let in_doubt = self.outbox.table.in_doubt(&decided);
        self.received().apply_parts(request, parts, &reply, (&in_doubt, is_later || has_result))?;
        if is_later {
            self.outbox.enter_epoch_with(&mut self.ctx, reply.seq);
            // Nothing was executed because of the epoch, which is no error.
            self.ctx.errors.clear();
        }
        self.pull.role = reply.role.as_deref().and_then(role_of);
        let level = reply.restriction.unwrap_or(0);
        if level < std::mem::replace(&mut self.pull.restriction, level) {
            // The server may give the defs that it has refused so far.
            self.pull.need_all(&self.ctx);
        }
        self.pull.violations.report(&mut self.ctx, violations);
        self.ctx.memory.remove_expired(reply.now);
        self.reads.forget_found(&self.ctx);
        Ok(())
    }

    /// Handles a message of the socket.
    pub fn framed(&mut self, socket: u64, frame: Result<ServerFrame>) -> Result<()> {
        if !self.live.heard(&self.ctx, socket) {
            return Ok(());
        }
        match frame? {
            ServerFrame::Alive => {}
            ServerFrame::Live { live, refused, head, spread } => {
                // A load in progress continues: its next page is a pull after the registration.
                let mut new = self.live.confirmed(live);
                new.retain(|def| !is_beyond(&self.ctx.memory, def, head.as_ref()));
                self.pull.need(&mut self.ctx, new, spread)?;
                for (def, fault) in refused {
                    if !fault.kind.is_retryable() {
                        unready(&mut self.ctx.memory, &def);
                    }
                    self.pull.note_fault(&self.ctx, def.clone(), error_of(&fault));
                    // A pull decides.
                    if is_withdrawn(&self.pull.faults, &def) {
                        self.pull.hinted(&self.ctx, &def);
                    }
                }
            }
            ServerFrame::Hints(hints) => {
                // R21: the session may know a number already.
                for (def, _) in hints.iter().filter(|(def, v)| !is_known(&self.ctx.memory, def, *v)) {
                    self.pull.hinted(&self.ctx, def);
                }
            }
            ServerFrame::Parts(parts) => self.received().pushed(parts)?,
        }
        Ok(())
    }
}
