//! Operations that the server refused: they are parked, and those that named them name another one, or none (R12).

use super::PendingOps;
use super::issue::unpin;
use crate::codec::Fault;
use crate::error::{Code, Error, Result};
use crate::journal::{IfVersion, OpId, PendingOp};
use crate::memory::DocKey;
use crate::model::{Name, Pk};
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, error_of};
use crate::sync::outbox::local::put_back;

impl PendingOps {
    /// The server refused an operation for good. It waits for the application, and its overlay is dropped.
    pub fn park(&mut self, order: u64, fault: Fault) {
        let op = self.ops.get_mut(&order).expect("the operation is there");
        op.state.refused = Some(fault);
        op.seq = None;
        self.unshown.note_all(op.shown_on().cloned());
        self.sort(order);
        self.due.rewrite(order);
    }

    /// The waiting operations that expect, for this document, the version that the operation `id` would have
    /// given.
    pub fn standing_on(&self, id: &str, key: &DocKey) -> Vec<u64> {
        let stands = |order: &u64| {
            let op = self.ops.get(order).filter(|op| op.is_waiting());
            op.and_then(|op| op.expected_of(key)?.of()).is_some_and(|of| of == id)
        };
        self.naming(id).filter(stands).collect()
    }

    /// Retargets the operations that waited for `old` to the one in its place. If there is none, those that
    /// expected its version expect the one that `old` itself expected. If there is none of that either, and
    /// the application had set the precondition, the application decides.
    pub fn follow(&mut self, ctx: &mut Ctx, old: &str, new: Option<&OpId>, given_up: Option<&PendingOp>) {
        let mut unmet = Vec::new();
        for order in self.take_naming(old) {
            let Some(op) = self.ops.get_mut(&order) else { continue };
            let is_named = op.waits_for().any(|id| id == old);
            let instead = |key: &DocKey| given_up.and_then(|op| op.expectation(key));
            if new.is_none() && op.insists_on_version_of(old, |key| instead(key).is_some()) {
                unmet.push(order);
            } else {
                op.expect_instead(old, &|key| match new {
                    Some(new) => Some((IfVersion::Of(new.clone()), None)),
                    None => key.and_then(instead),
                });
            }
            match new {
                Some(new) => {
                    op.state
                        .issued
                        .after
                        .iter_mut()
                        .filter(|id| *id == old)
                        .for_each(|id| id.clone_from(new));
                }
                None => op.state.issued.after.retain(|id| id != old),
            }
            let named: Vec<OpId> = op.named().map(str::to_owned).collect();
            for id in named.iter().chain(new) {
                self.names(order, id);
            }
            if is_named {
                self.due.rewrite(order);
            }
        }
        for order in unmet {
            self.refuse_unmet(ctx, order);
        }
    }

    /// The version that the application expects can no longer exist: the server would answer `order_held` for
    /// ever.
    fn refuse_unmet(&mut self, ctx: &mut Ctx, order: u64) {
        if self.ops.get(&order).is_some_and(PendingOp::is_waiting) {
            let why = "the operation whose version it expects was given up";
            self.refuse_here(ctx, order, Error::new(Code::VersionConflict, why));
        }
    }

    /// This session refuses an operation for a reason that the server would have too.
    pub fn refuse_here(&mut self, ctx: &mut Ctx, order: u64, error: Error) {
        let id = self.ops[&order].state.issued.id.clone();
        self.park(order, Fault::from(&error));
        ctx.effects.push(Effect::Refused { id, error });
    }

    /// Removes an operation so that another can take its place. Until then its documents stay pinned, so that
    /// their data is in memory. Its record stays as well: a saved operation is in storage until the other one
    /// is.
    pub fn replace(&mut self, order: u64) -> Option<PendingOp> {
        self.due.leave(order);
        self.remove(order)
    }

    /// An operation has taken the place of `replaced`: the batch that writes it deletes the old record.
    pub fn take_place(&mut self, ctx: &mut Ctx, id: &OpId, replaced: Option<PendingOp>) {
        let Some(replaced) = replaced else { return };
        if let Some(op) = self.get_mut(id) {
            op.record = replaced.record;
            op.state.replaces.clone_from(&replaced.state.replaces);
            op.state.replaces.push(replaced.state.issued.id.clone());
            op.state.drafts.clone_from(&replaced.state.drafts);
        }
        unpin(ctx, &replaced);
    }

    /// Discards an operation, as if it had never been issued. Returns the operations that it had replaced.
    pub fn give_up(&mut self, ctx: &mut Ctx, order: u64) -> Vec<OpId> {
        let Some(op) = self.replace(order) else { return Vec::new() };
        self.due.forget(&op);
        unpin(ctx, &op);
        self.follow(ctx, &op.state.issued.id, None, Some(&op));
        op.state.replaces
    }

    /// Discards a refused operation, and returns why it was refused; those that it blocked continue. The session that
    /// issued it may not know of the refusal yet.
    pub fn discard(&mut self, ctx: &mut Ctx, id: &str) -> Result<Error> {
        let (op, fault) = self.refused_op(id)?;
        let (order, id, error) = (op.state.order, op.state.issued.id.clone(), error_of(fault));
        let drafts = op.state.drafts.clone();
        let replaces = self.give_up(ctx, order);
        put_back(ctx, self, &drafts)?;
        self.tell_end(ctx, &id, replaces, Err(&error));
        Ok(error)
    }

    /// A local document is written: the batches before that leave it alone if they are discarded.
    pub fn keep_written(&mut self, class: &Name, pk: &Pk) {
        for op in self.ops.values_mut() {
            let before = op.state.drafts.len();
            op.state.drafts.retain(|(of, own, _)| (of, own) != (class, pk));
            if op.state.drafts.len() < before {
                self.due.rewrite(op.state.order);
            }
        }
    }

    /// The refused operation of that id, and why it was refused.
    pub fn refused_op(&self, id: &str) -> Result<(&PendingOp, &Fault)> {
        let op = self.get(id).ok_or_else(|| Error::new(Code::NotFound, "there is no such operation"))?;
        let fault = op.state.refused.as_ref();
        Ok((op, fault.ok_or_else(|| Error::new(Code::BadOption, "the operation was not refused"))?))
    }
}
