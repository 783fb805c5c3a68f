//! The commands of the application. Each takes effect here at once. A follower also writes it to the inbox, as a
//! request to the leader.

use super::dispatch::Router;
use crate::error::Result;
use crate::journal::{OpId, PendingOp, Retention, Wanted};
use crate::memory::{self, is_local};
use crate::model::{Def, Value};
use crate::sync::message::Effect;
use crate::sync::outbox;
use crate::sync::role::Role;

impl Router {
    /// Begins a subscription. If there was none, its documents are pulled.
    pub fn subscribe(&mut self, def: Def) -> Result<()> {
        if !self.ctx.memory.subscribe(&def)? {
            return Ok(());
        }
        outbox::show_again(&mut self.ctx, &mut self.outbox.table, &def);
        match &mut self.role {
            Role::Follower(follower) => return follower.subscribed(&mut self.ctx, &mut self.tabs, def),
            Role::Leader(_) if is_local(&self.ctx.memory, &def) => {}
            Role::Leader(_) => {
                self.reads.seed(&mut self.ctx, &def);
                self.pull.subscribed(def);
            }
        }
        Ok(())
    }

    /// Ends a subscription, and forgets all that was due for it.
    pub fn unsubscribe(&mut self, def: Def) -> Result<()> {
        let Role::Follower(follower) = &mut self.role else {
            self.pull.faults.remove(&def);
            self.received().end(&def);
            return Ok(());
        };
        if self.ctx.memory.unsubscribe(&def) {
            outbox::show_again(&mut self.ctx, &mut self.outbox.table, &def);
            follower.unsubscribed(&mut self.ctx, &mut self.tabs, def)?;
        }
        Ok(())
    }

    /// Says how long a subscription lasts.
    pub fn lease(&mut self, def: Def, lease: u64) -> Result<()> {
        if memory::lease(&mut self.ctx.memory, &def, lease)
            && let Role::Follower(follower) = &mut self.role
        {
            follower.ask(&mut self.ctx, &mut self.tabs, Wanted::Lease(def, lease))?;
        }
        Ok(())
    }

    /// Issues a refused operation again.
    pub fn amend(&mut self, id: OpId, new: OpId, args: Option<Value>) -> Result<()> {
        self.outbox.amend(&mut self.ctx, &id, new.clone(), args)?;
        if let Role::Follower(follower) = &mut self.role {
            follower.amended(&mut self.tabs, id, new);
        }
        Ok(())
    }

    /// Discards a refused operation.
    pub fn discard(&mut self, id: OpId) -> Result<()> {
        self.outbox.table.discard(&mut self.ctx, &id)?;
        if let Role::Follower(follower) = &mut self.role {
            self.tabs.decided.insert(id.clone());
            follower.ask(&mut self.ctx, &mut self.tabs, Wanted::Discard(id))?;
        }
        Ok(())
    }

    /// Sweeps the journal.
    pub fn sweep(&mut self, ticket: u64, retention: Retention, apply: bool) -> Result<()> {
        if let Err(error) = retention.check() {
            // At the call: no role changes it, and no failing device delays it.
            self.ctx.effects.push(Effect::Swept { ticket, swept: Err(error) });
            return Ok(());
        }
        match self.role {
            Role::Follower(_) => return self.sweep_following(ticket, retention, apply),
            Role::Leader(_) => self.outbox.sweep(ticket, retention, apply),
        }
        Ok(())
    }

    /// Reports the actions that a sweep would remove, as far as this session knows, and requests the sweep.
    pub fn sweep_following(&mut self, ticket: u64, retention: Retention, apply: bool) -> Result<()> {
        self.store_reads().sweep_now(ticket, &retention, false);
        if let (Role::Follower(follower), true) = (&mut self.role, apply) {
            follower.ask(&mut self.ctx, &mut self.tabs, Wanted::Sweep(retention))?;
        }
        Ok(())
    }

    /// The work that is due in a follower: it writes to nothing but the inbox.
    pub fn advance_following(&mut self) -> Result<()> {
        let Router { ctx, outbox, tabs, device, role: Role::Follower(follower), .. } = self else {
            return Ok(());
        };
        if follower.has_followed {
            ctx.memory.dirty.take();
        }
        outbox.let_go();
        follower.advance_poll(ctx, tabs);
        let ready = |op: &&PendingOp| op.prepared && follower.is_to_request(&op.state.issued.id);
        let ready: Vec<u64> = outbox.table.iter().filter(ready).map(|op| op.state.order).collect();
        for order in ready {
            follower.request(ctx, tabs, &outbox.table[order])?;
        }
        // No batch of the state is in flight: a leader is demoted once its last one has ended.
        let is_held = tabs.next.is_some() || follower.is_handing_in() || device.is_away();
        if is_held || ctx.clock.mono_ms < device.commit_not_before_ms() {
            return Ok(());
        }
        follower.hand_in(ctx)
    }

    /// The batch of requests is on the device, or writing it failed.
    pub fn handed_in(&mut self, result: Result<()>) {
        let Router { ctx, outbox, tabs, device, role: Role::Follower(follower), .. } = self else { return };
        for id in follower.handed_in(result.is_ok()) {
            if let Some(op) = outbox.table.get_mut(&id).filter(|_| follower.provisional.contains_key(&id)) {
                op.saved = true;
            }
            ctx.effects.push(Effect::Saved { id });
        }
        match result {
            Ok(()) => device.served(),
            Err(error) => device.refused(ctx, error),
        }
        follower.begin_to_lead(ctx, tabs);
    }

    /// Whether every change of this session is on the device; in a follower, every command.
    pub fn is_at_rest(&self) -> bool {
        let Role::Follower(follower) = &self.role else {
            return !self.is_committing() && self.is_clean();
        };
        let is_saved = |id: &OpId| self.outbox.table.get(id).is_none_or(|op| op.saved);
        follower.has_handed_in() && follower.provisional.keys().all(is_saved)
    }
}
