//! Several sessions over one store, as in several tabs (docs/decisions/16-tabs-meet-in-the-store.md). One is the leader: it alone talks
//! to the server and writes the state. The others are followers. This file has the transitions between the roles.
//!
//! In the code, a *poll* reads the newest records of the leader's log, and a *reading* loads the whole state
//! again. To *hand in* is to write requests to the inbox (`forward.rs`), from where the leader takes them
//! (`inbox.rs`). An operation is *provisional* in a follower until the leader has taken it in.

use super::dispatch::Router;
use crate::error::{Code, Error, Result};
use crate::journal::{OpId, PendingOp, Wanted};
use crate::store::RecordKey;
use crate::sync::message::{Effect, TabEffect, TabEvent};
use crate::sync::outbox::{self, unpin};
use crate::sync::role::{Fence, Follower, Leader, Next, Provisional, Role, wanted_of};

impl Router {
    /// The batch in flight was written, or writing it failed.
    pub fn committed(&mut self, result: Result<()>) -> Result<()> {
        match &mut self.role {
            Role::Follower(_) => self.handed_in(result),
            Role::Leader(leader) => {
                let is_deposed = result.as_ref().is_err_and(|error| error.code() == Code::Deposed);
                let is_over = is_deposed || leader.fence == Fence::Passed;
                self.batch_ended(result);
                if is_over {
                    self.demote()?;
                }
            }
        }
        Ok(())
    }

    /// Handles an event about the other sessions.
    pub fn tab(&mut self, event: TabEvent) -> Result<()> {
        if self.ctx.layout.is_none() {
            return Ok(());
        }
        match (&mut self.role, event) {
            (Role::Follower(_), TabEvent::Poll) => self.poll(),
            (Role::Leader(_), TabEvent::Poll) => self.tabs.read_inbox(&mut self.ctx, false),
            (Role::Follower(_), TabEvent::Polled { number, found }) => self.polled(number, found)?,
            (Role::Leader(leader), TabEvent::Polled { number, found }) if leader.fence == Fence::Missing => {
                self.fenced(number, found)?;
            }
            (Role::Follower(_), TabEvent::Read { number, opened }) => self.reloaded(number, opened)?,
            (_, TabEvent::Inbox(found)) => self.take_inbox(found)?,
            (_, TabEvent::LeadUnfenced { seen, error }) => self.lead_unfenced(seen, error)?,
            (Role::Follower(follower), TabEvent::Lead(generation)) => {
                if self.tabs.next.is_some_and(|next| !next.is_fenced) {
                    self.device.served();
                }
                self.tabs.next = Some(Next::fenced(generation));
                follower.begin_to_lead(&mut self.ctx, &mut self.tabs);
            }
            (Role::Leader(leader), TabEvent::Lead(generation)) if leader.fence == Fence::Missing => {
                self.tabs.look_whether_fenced(&mut self.ctx, generation);
            }
            // Another session has led in between, and its changes are not known here.
            (Role::Leader(_), TabEvent::Lead(generation))
                if self.ctx.generation().is_some_and(|own| own + 1 < generation) =>
            {
                self.tabs.next = Some(Next::fenced(generation));
                self.step_down()?;
            }
            (Role::Leader(_), TabEvent::Lead(generation)) => {
                self.ctx.layout.iter_mut().for_each(|layout| layout.lead(Some(generation)));
            }
            (_, TabEvent::Depose) => self.step_down()?,
            (Role::Follower(follower), TabEvent::Heard(phase)) => follower.phase = phase,
            (Role::Follower(_), TabEvent::Refused(faults, restriction, role)) => {
                self.pull.follow_faults(&self.ctx, &faults);
                self.pull.restriction = restriction;
                self.pull.role = role;
            }
            // A leader reads no state, and knows better: its own requests were answered.
            (
                Role::Leader(_),
                TabEvent::Polled { .. } | TabEvent::Read { .. } | TabEvent::Heard(_) | TabEvent::Refused(..),
            ) => {}
        }
        Ok(())
    }

    /// This session stops leading: at once, or when the batch in flight has ended.
    pub fn step_down(&mut self) -> Result<()> {
        match &mut self.role {
            Role::Follower(_) => self.tabs.next = None,
            Role::Leader(leader) if self.device.is_committing() => leader.fence = Fence::Passed,
            Role::Leader(_) => self.demote()?,
        }
        Ok(())
    }

    /// The session has opened while another one leads, or none does.
    pub fn follow(&mut self) {
        self.ctx.set_following(true);
        self.role = Role::Follower(Follower::default());
        self.outbox.follow();
    }

    /// The state here is the last leader's final one: this session leads.
    pub fn promote(&mut self) -> Result<()> {
        let Some(next) = self.tabs.next.take() else { return Ok(()) };
        let fence = if next.is_fenced { Fence::Own } else { Fence::Missing };
        let role = std::mem::replace(&mut self.role, Role::Leader(Leader::new(fence)));
        let Role::Follower(own) = role else { return Ok(()) };
        self.ctx.set_following(false);
        self.ctx.layout.iter_mut().for_each(|layout| layout.lead(Some(next.generation)));
        let Follower { provisional, queue, wanted, unwanted, .. } = own;
        let amended: Vec<&OpId> = provisional.values().filter_map(|own| own.amends.as_ref()).collect();
        // This application has decided about these. If another session leads before the amendment is on the device,
        // the application must not be asked again.
        self.tabs.decided.retain(|id| amended.contains(&id));
        let mut requests: Vec<(Option<RecordKey>, Wanted)> = Vec::new();
        let mut given_up = Vec::new();
        for op in self.outbox.table.iter() {
            if let Some(Provisional { key, amends }) = provisional.get(&op.state.issued.id) {
                requests.push((key.filter(|_| op.saved), wanted_of(op, amends.clone())));
                given_up.push(op.state.order);
            }
        }
        let given_up: Vec<PendingOp> =
            given_up.into_iter().filter_map(|order| self.outbox.table.remove(order)).collect();
        self.outbox.lead();
        // Outbox and amendments are among the operations already.
        let is_other = |wanted: &Wanted| !matches!(wanted, Wanted::Write(_) | Wanted::Amend { .. });
        let others = queue.into_iter().map(|(_, request)| request.wanted).filter(is_other);
        requests.extend(others.map(|wanted| (None, wanted)));
        for def in wanted {
            self.ctx.memory.dirty.restate(&def);
            requests.push((None, Wanted::Subscribe(def)));
        }
        for def in unwanted {
            requests.push((None, Wanted::Unsubscribe(def)));
        }
        self.reads.unreadable.clear();
        for (key, wanted) in requests {
            self.take_request(key, wanted)?;
        }
        for op in given_up {
            unpin(&mut self.ctx, &op);
        }
        self.store_reads().resume_readings(true);
        self.pull.begin(&mut self.ctx);
        self.link().start();
        self.try_at_once();
        self.ctx.effects.push(Effect::Tab(TabEffect::Leads));
        self.tabs.read_inbox(&mut self.ctx, true);
        Ok(())
    }

    /// Another session leads. Unwritten changes are dropped if the server will send them again, and become
    /// requests to the leader if they are this session's own.
    pub fn demote(&mut self) -> Result<()> {
        let role = std::mem::replace(&mut self.role, Role::Follower(Follower::demoted()));
        let (Role::Leader(own), Role::Follower(follower)) = (role, &mut self.role) else { return Ok(()) };
        self.ctx.set_following(true);
        self.ctx.layout.iter_mut().for_each(|layout| layout.lead(None));
        self.pull.demoted(&mut self.ctx);
        self.live.close(&mut self.ctx);
        self.token.await_no_more();
        self.device.forget_failures();
        self.outbox.follow();
        let (sweeps, swept) = self.outbox.let_go();
        for ticket in swept.into_iter().chain(self.reads.forget_sweeps()) {
            let error = Error::new(Code::Deposed, "another tab leads now: sweep again");
            self.ctx.effects.push(Effect::Swept { ticket, swept: Err(error) });
        }
        for (key, wanted) in own.deferred {
            if key.is_none() {
                follower.ask(&mut self.ctx, &mut self.tabs, wanted)?;
            } else if let Wanted::Amend { id, .. } = wanted {
                // Nothing stands in its place here until a leader carries out the request: it is shown as it is.
                self.tabs.decided.remove(&id);
            }
        }
        outbox::undo_parts(&mut self.ctx, &mut self.outbox.table)?;
        for op in self.outbox.table.iter_mut().filter(|op| !op.saved) {
            let id = op.state.issued.id.clone();
            let key = own.from_inbox.get(&id).copied();
            // Its request is on the device.
            op.saved = key.is_some();
            let amends = op.state.replaces.last().cloned();
            // Another session's application has made the amendment that is in the inbox. This one does not know of it.
            self.tabs.decided.extend(amends.clone().filter(|_| key.is_none()));
            follower.provisional.insert(id, Provisional { key, amends });
        }
        let dirty = self.ctx.memory.dirty.take();
        for def in dirty.collections {
            if self.ctx.memory.collection(&def).is_some() {
                follower.subscribed(&mut self.ctx, &mut self.tabs, def)?;
            } else {
                follower.unsubscribed(&mut self.ctx, &mut self.tabs, def)?;
            }
        }
        for (ticket, retention, apply) in sweeps {
            self.sweep_following(ticket, retention, apply)?;
        }
        self.ctx.effects.push(Effect::Tab(TabEffect::Deposed));
        if let Role::Follower(follower) = &mut self.role {
            follower.request_reload(&mut self.ctx, &mut self.tabs);
        }
        Ok(())
    }

    /// A leader without a generation: the device takes none, for example because it is full. It leads in memory
    /// and writes nothing, since another session may write at the same time. Without this, a session that opens on a
    /// full device would wait for a leader for ever, without any message.
    fn lead_unfenced(&mut self, seen: u64, error: Error) -> Result<()> {
        if let Role::Leader(leader) = &self.role {
            if leader.fence != Fence::Missing {
                return Ok(());
            }
            if self.ctx.generation().is_some_and(|own| own < seen) {
                self.demote()?;
            }
        }
        if let Role::Follower(follower) = &mut self.role {
            self.tabs.next = Some(Next { generation: seen, is_fenced: false });
            follower.begin_to_lead(&mut self.ctx, &mut self.tabs);
        }
        self.device.refused(&self.ctx, error);
        Ok(())
    }

    /// A leader's generation has begun late. If no other session has written meanwhile, writes the changes made in
    /// memory. Otherwise the state in storage counts, and the changes are requested or received again.
    fn fenced(&mut self, number: u64, found: Result<Vec<Option<Vec<u8>>>>) -> Result<()> {
        let Some(next) = self.tabs.next.filter(|_| number == self.tabs.last_poll) else {
            return Ok(());
        };
        let Some(layout) = &mut self.ctx.layout else { return Ok(()) };
        match found {
            Ok(found) if layout.is_as_known(&found) => {
                layout.lead(Some(next.generation));
                self.tabs.next = None;
                if let Role::Leader(leader) = &mut self.role {
                    leader.fence = Fence::Own;
                }
                self.device.commit_now(&self.ctx);
                self.device.served();
                self.tabs.read_inbox(&mut self.ctx, true);
            }
            Ok(_) => self.demote()?,
            Err(error) => {
                self.tabs.next = None;
                self.device.refused(&self.ctx, error);
            }
        }
        Ok(())
    }
}
