//! Operations that the server refused. Their class's policy resolves a conflict; otherwise they are parked
//! until the application amends or discards them (R12).

use super::context::Ctx;
use super::message::{Effect, Write};
use super::writes::Writes;
use crate::codec::{Data, Fault};
use crate::error::{Code, Error, Result, fail};
use crate::journal::{
    Change, ChangeKind, IfVersion, OpId, PendingOp, Policy, Settlement, changes_of, settle,
};
use crate::limits::VALUE_DEPTH_MAX;
use crate::memory::DocKey;
use crate::model::Value;

/// How a conflict was resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The operation is over.
    Ended,
    /// Another operation has taken its place.
    Amended,
}

/// The same, plus the operations that expected its version, if no other has taken its place.
struct SettledOne {
    settled: Settled,
    standing: Vec<u64>,
}

impl Writes {
    /// The server refused an operation for good. It waits for the application, and its overlay is dropped.
    pub fn park(&mut self, order: u64, fault: Fault) {
        let op = self.ops.get_mut(&order).expect("the operation is there");
        op.state.refused = Some(fault);
        op.seq = None;
        let keys = op.keys.clone();
        self.stale.extend(keys);
        self.sort(order);
        self.journal.rewrite(order);
    }

    /// Resolves a conflict by the class's policy: an amended operation takes the place of this one, or none
    /// does. If none does, the operations that expected its version conflict with the same document, and are
    /// resolved at once. Returns `None` if the application must decide.
    pub fn settle_conflict(&mut self, ctx: &mut Ctx, order: u64, fault: &Fault) -> Option<Settled> {
        let settled = self.settle_or_leave(ctx, order, fault)?;
        let mut next = settled.standing;
        while let Some(order) = next.pop() {
            // One that cannot be resolved here will receive the conflict from the server.
            next.extend(
                self.settle_or_leave(ctx, order, fault).map(|settled| settled.standing).unwrap_or_default(),
            );
        }
        Some(settled.settled)
    }

    /// If the application's own function throws, the conflict is left to the application, as `refused`.
    fn settle_or_leave(&mut self, ctx: &mut Ctx, order: u64, fault: &Fault) -> Option<SettledOne> {
        self.settle_one(ctx, order, fault).unwrap_or_else(|error| {
            ctx.errors.report(error);
            None
        })
    }

    /// Resolves the conflict of one operation. Returns `None` if the application must decide.
    fn settle_one(&mut self, ctx: &mut Ctx, order: u64, fault: &Fault) -> Result<Option<SettledOne>> {
        let op = &self.ops[&order];
        let Some(row) = &fault.doc else { return Ok(None) };
        let Some(key) = op.expected_at(&row.pk).cloned() else { return Ok(None) };
        // It was issued for exactly the version that the document has. No policy can resolve that, and it
        // would be sent for ever.
        if op.issued_for.contains(&(key.clone(), row.v)) {
            return Ok(None);
        }
        let class = ctx.memory.class_name(&key);
        let policy = self.application.policy(&class);
        let theirs = match &row.data {
            Some(data) if !row.deleted => Some(data.to_map()?),
            _ => None,
        };
        let base = op.base_of(&class, &key.1).map(Data::to_map).transpose()?;
        if base.is_some() && base == theirs {
            return self.send_for_version(ctx, order, &key, row.v).map(Some);
        }
        // If the application set the precondition itself, it decides.
        if policy == Policy::Ask || op.insists_on(&key) {
            return Ok(None);
        }
        let changes = || op.changes.iter().flatten().filter(|change| change.key == key);
        let mine = changes().fold(base.clone(), |state, change| change.kind.apply(state));
        let is_deletion = changes().next_back().is_some_and(|last| last.kind == ChangeKind::Delete);
        if mine.is_none() && !is_deletion && policy != Policy::Server {
            // A patch of a document that is not known here: its intended result is unknown, and it is not a
            // deletion.
            return Ok(None);
        }
        let settled = if policy == Policy::Custom {
            self.application.settle(&class, base.as_ref(), mine.as_ref(), theirs.as_ref())?
        } else {
            settle(policy, base.as_ref(), mine.as_ref(), theirs.as_ref())
        };
        let old = op.state.id.clone();
        let theirs_data = row.data.clone().filter(|_| !row.deleted);
        let if_version = ("ifVersion", Value::from(row.v as i64));
        let class_arg = ("class", Value::from(class.as_str()));
        let issued = match settled {
            Settlement::Theirs => {
                let standing = self.standing_on(&old, &key);
                self.give_up(ctx, order);
                let error =
                    Error::new(Code::VersionConflict, "the server's document stays, by the class's policy");
                self.tell_end(ctx, &old, Err(&error));
                ctx.effects.push(Effect::Accepted { id: old, result: Err(error) });
                return Ok(Some(SettledOne { settled: Settled::Ended, standing }));
            }
            Settlement::Put(state) => {
                Some(("doc.put", Value::from([class_arg, ("data", Value::Map(state)), if_version])))
            }
            // Both sides have deleted it.
            Settlement::Delete if theirs.is_none() => None,
            Settlement::Delete => {
                let data = theirs.as_ref().expect("checked above");
                let parts = ctx.memory.class(key.0).key().iter().map(|name| data.get(name.as_str()).cloned());
                let key = Value::Array(parts.flatten().collect());
                Some(("doc.delete", Value::from([class_arg, ("key", key), if_version])))
            }
        };
        // If no server would accept the policy's result, or if it is another document, the application
        // decides.
        let is_possible = |(name, args): &(&str, Value)| {
            let changes = changes_of(ctx.memory.schema(), name, args);
            args.is_within(VALUE_DEPTH_MAX)
                && changes.is_ok_and(|changes| changes.iter().flatten().all(|change| change.key == key))
        };
        if issued.as_ref().is_some_and(|issued| !is_possible(issued)) {
            return Ok(None);
        }
        let Some((name, args)) = op.with_settled(&key, issued) else {
            self.give_up(ctx, order);
            self.tell_end(ctx, &old, Ok(row.v));
            ctx.effects.push(Effect::Accepted { id: old, result: Ok((row.v, None)) });
            return Ok(Some(SettledOne { settled: Settled::Ended, standing: Vec::new() }));
        };
        self.issue_in_place(ctx, order, (&key, row.v), (name, args), theirs_data).map(Some)
    }

    /// The document is as it was when this operation was made: nobody else wrote. The operation before it
    /// changed nothing, and the server gave that one no version that holds here, though docs/protocol.md
    /// requires one. So no policy is consulted.
    fn send_for_version(&mut self, ctx: &mut Ctx, order: u64, key: &DocKey, v: u64) -> Result<SettledOne> {
        let mut op = self.ops[&order].clone();
        let base = op.base_of(&ctx.memory.class_name(key), &key.1).cloned();
        op.expect_of(key, v);
        self.issue_in_place(ctx, order, (key, v), (op.state.name, op.state.args), base)
    }

    /// Issues another operation in the place of one. They differ only in their effect on the document `key`,
    /// whose state was `base` and whose version is `v`.
    fn issue_in_place(
        &mut self,
        ctx: &mut Ctx,
        order: u64,
        (key, v): (&DocKey, u64),
        (name, args): (String, Value),
        base: Option<Data>,
    ) -> Result<SettledOne> {
        let id = crate::journal::make_id(ctx.clock.wall_ms, &mut *ctx.random)?;
        let class = ctx.memory.class_name(key);
        let op = &self.ops[&order].state;
        let (old, after, mut bases) = (op.id.clone(), op.after.clone(), op.bases.clone());
        bases.retain(|(own, pk, _)| (own, pk) != (&class, &key.1));
        let replaced = self.replace(order);
        let replaced_for = replaced.as_ref().map(|op| op.issued_for.clone()).unwrap_or_default();
        let write = Write { id: id.clone(), name, args, touches: Vec::new(), after };
        self.issue(ctx, write, order)?;
        if let (Some(op), Some(replaced)) = (self.get_mut(&id), &replaced) {
            op.insist(|change| replaced.insists_on(&change.key));
        }
        self.take_place(ctx, &id, replaced);
        if let Some(op) = self.get_mut(&id) {
            op.state.bases = bases;
            op.keep_base(class, &key.1, base);
            op.issued_for = replaced_for;
            op.issued_for.push((key.clone(), v));
        }
        self.follow(ctx, &old, Some(&id), None);
        ctx.effects.push(Effect::Amended { id: old, by: id });
        Ok(SettledOne { settled: Settled::Amended, standing: Vec::new() })
    }

    /// The waiting operations that expect, for this document, the version that the operation `id` would have
    /// given.
    fn standing_on(&self, id: &str, key: &DocKey) -> Vec<u64> {
        let stands = |order: &u64| {
            let op = self.ops.get(order).filter(|op| op.is_waiting());
            op.and_then(|op| op.expected_of(key)?.of()).is_some_and(|of| of == id)
        };
        self.naming(id).filter(stands).collect()
    }

    /// Retargets the operations that waited for `old` to the one in its place. If there is none, those that
    /// expected its version expect the one that `old` itself expected. If there is none of that either, and
    /// the application had set the precondition, the application decides.
    fn follow(&mut self, ctx: &mut Ctx, old: &str, new: Option<&OpId>, given_up: Option<&PendingOp>) {
        let mut unmet = Vec::new();
        for order in self.take_naming(old) {
            let Some(op) = self.ops.get_mut(&order) else { continue };
            let is_named = op.waits_for().any(|id| id == old);
            let instead = |key: &DocKey| given_up.and_then(|op| op.expected_of(key)).cloned();
            if new.is_none() && op.insists_on_version_of(old, |key| instead(key).is_some()) {
                unmet.push(order);
            } else {
                op.expect_instead(old, |key| match new {
                    Some(new) => Some(IfVersion::Of(new.clone())),
                    None => key.and_then(instead),
                });
            }
            match new {
                Some(new) => {
                    op.state.after.iter_mut().filter(|id| *id == old).for_each(|id| id.clone_from(new));
                }
                None => op.state.after.retain(|id| id != old),
            }
            let named: Vec<OpId> = op.named().map(str::to_owned).collect();
            for id in named.iter().chain(new) {
                self.names(order, id);
            }
            if is_named {
                self.journal.rewrite(order);
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
        let id = self.ops[&order].state.id.clone();
        self.park(order, Fault::from(&error));
        ctx.effects.push(Effect::Refused { id, error });
    }

    /// Removes an operation so that another can take its place. Until then its documents stay pinned, so that
    /// their data is in memory. Its record stays as well: a saved operation is in storage until the other one
    /// is.
    pub fn replace(&mut self, order: u64) -> Option<PendingOp> {
        self.journal.leave(order);
        self.remove(order)
    }

    /// An operation has taken the place of `replaced`: the batch that writes it deletes the old record.
    fn take_place(&mut self, ctx: &mut Ctx, id: &OpId, replaced: Option<PendingOp>) {
        let Some(replaced) = replaced else { return };
        if let Some(op) = self.get_mut(id) {
            op.record = replaced.record;
            op.state.replaces.clone_from(&replaced.state.replaces);
            op.state.replaces.push(replaced.state.id.clone());
        }
        self.unpin(ctx, &replaced);
    }

    pub fn unpin(&mut self, ctx: &mut Ctx, op: &PendingOp) {
        for key in &op.keys {
            ctx.memory.unpin(key);
        }
    }

    /// Discards an operation, as if it had never been issued.
    pub fn give_up(&mut self, ctx: &mut Ctx, order: u64) {
        if let Some(op) = self.replace(order) {
            self.journal.forget(&op);
            self.unpin(ctx, &op);
            self.follow(ctx, &op.state.id, None, Some(&op));
        }
    }

    /// Issues a refused operation again, with the same arguments or others: a new operation, in the place of
    /// the old one and before those that it blocked. Errors: `not_found`, and those of
    /// [`Writes::check_write`].
    pub fn amend(&mut self, ctx: &mut Ctx, id: &str, new: OpId, args: Option<Value>) -> Result<()> {
        let op = self.refused_op(id)?;
        let (order, name, after) = (op.state.order, op.state.name.clone(), op.state.after.clone());
        let args = args.unwrap_or_else(|| op.state.args.clone());
        let touches = op.keys.clone();
        let old = op.state.id.clone();
        // Invalid arguments are rejected before the refused operation is changed.
        changes_of(ctx.memory.schema(), &name, &args)?;
        let replaced = self.replace(order);
        let write = Write { id: new.clone(), name, args, touches, after };
        self.issue(ctx, write, order)?;
        if let Some(replaced) = &replaced {
            self.go_on_expecting(ctx, order, replaced);
        }
        self.take_place(ctx, &new, replaced);
        self.follow(ctx, &old, Some(&new), None);
        Ok(())
    }

    /// If the session itself gave both operations the same expected version, the new one was made on the same
    /// document state. Its conflicts are resolved as the old one's would have been.
    fn go_on_expecting(&mut self, ctx: &mut Ctx, order: u64, replaced: &PendingOp) {
        let Some(op) = self.ops.get_mut(&order) else { return };
        let is_same = |change: &Change| replaced.expected_of(&change.key) == change.if_version.as_ref();
        op.insist(|change| !is_same(change) || replaced.insists_on(&change.key));
        let same: Vec<DocKey> = op
            .changes
            .iter()
            .flatten()
            .filter(|change| is_same(change))
            .map(|change| change.key.clone())
            .collect();
        for key in same {
            let class = ctx.memory.class_name(&key);
            let base = replaced.base_of(&class, &key.1).cloned();
            if let Some(op) = self.ops.get_mut(&order) {
                op.keep_base(class, &key.1, base);
            }
        }
    }

    /// Discards a refused operation; those that it blocked continue.
    pub fn discard(&mut self, ctx: &mut Ctx, id: &str) -> Result<()> {
        let order = self.refused_op(id)?.state.order;
        self.give_up(ctx, order);
        Ok(())
    }

    /// The refused operation of that id.
    pub fn refused_op(&self, id: &str) -> Result<&PendingOp> {
        match self.get(id) {
            Some(op) if op.state.refused.is_some() => Ok(op),
            Some(_) => fail(Code::BadOption, "the operation was not refused"),
            None => fail(Code::NotFound, "there is no such operation"),
        }
    }
}
