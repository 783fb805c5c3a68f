//! Several sessions over one store, as in several tabs (docs/decisions/16-tabs-meet-in-the-store.md). One is the leader: it alone talks
//! to the server and writes the state. The others are followers. This file has the roles, and the transitions
//! between them.
//!
//! In the code, a *look* polls the newest records of the leader's log, and a *reading* loads the whole state
//! again. To *hand in* is to write requests to the inbox (`forward.rs`), from where the leader takes them
//! (`inbox.rs`). An operation is *provisional* in a follower until the leader has taken it in.

use super::dispatch::Router;
use crate::error::{Code, Error, Result};
use crate::journal::Wanted;
use crate::store::RecordKey;
use crate::sync::context::Role;
use crate::sync::message::{Effect, Event, Phase, TabEffect, TabEvent};
use crate::sync::outbox::{self, unpin};
use crate::sync::role::{Next, ORDER_FLOOR, Provisional, wanted_of};

impl Router {
    /// Handles the events that depend on the role, and returns the others.
    pub fn take_as_tab(&mut self, event: Event) -> Result<Option<Event>> {
        if let Event::Sweep { ticket, retention, .. } = &event
            && let Err(error) = retention.check()
        {
            // At the call: no role changes it, and no failing device delays it.
            self.ctx.effects.push(Effect::Swept { ticket: *ticket, swept: Err(error) });
            return Ok(None);
        }
        match event {
            Event::Tab(event) => self.tab(event)?,
            Event::Committed(result) if self.tabs.is_handing_in() => self.batches().handed_in(result),
            Event::Committed(result) => {
                let is_deposed = result.as_ref().is_err_and(|error| error.code() == Code::Deposed);
                self.batches().committed(result);
                if is_deposed || self.ctx.role == Role::Deposed {
                    self.demote()?;
                }
            }
            event if self.ctx.is_following() => return self.take_following(event),
            event => return Ok(Some(event)),
        }
        Ok(None)
    }

    /// Handles an event about the other sessions.
    fn tab(&mut self, event: TabEvent) -> Result<()> {
        if self.ctx.layout.is_none() {
            return Ok(());
        }
        match event {
            TabEvent::Look if self.ctx.is_following() => self.tabs.look(&mut self.ctx),
            TabEvent::Look => self.tabs.read_inbox(&mut self.ctx, false),
            TabEvent::Looked { number, found } if self.ctx.role == Role::Unfenced => {
                self.fenced(number, found)?;
            }
            TabEvent::Looked { number, found } => self.looked(number, found)?,
            TabEvent::Read { number, opened } => self.reloaded(number, opened)?,
            TabEvent::Inbox(found) => self.take_inbox(found)?,
            TabEvent::LeadUnfenced { seen, error } => self.lead_unfenced(seen, error)?,
            TabEvent::Lead(generation) if self.ctx.is_following() => {
                if self.tabs.is_unfenced(&self.ctx) {
                    self.device.served();
                }
                self.tabs.next = Some(Next::fenced(generation));
                self.tabs.begin_to_lead(&mut self.ctx);
            }
            TabEvent::Lead(generation) if self.ctx.role == Role::Unfenced => {
                self.tabs.look_whether_fenced(&mut self.ctx, generation);
            }
            // Another session has led in between, and its changes are not known here.
            TabEvent::Lead(generation) if self.ctx.generation().is_some_and(|own| own + 1 < generation) => {
                self.tabs.next = Some(Next::fenced(generation));
                self.depose()?;
            }
            TabEvent::Lead(generation) => {
                self.ctx.layout.iter_mut().for_each(|layout| layout.lead(Some(generation)));
            }
            TabEvent::Depose => self.depose()?,
            TabEvent::Heard(phase) => self.tabs.phase = phase,
            // A leader knows better: its own requests were answered.
            TabEvent::Refused(faults, restriction) if self.ctx.is_following() => {
                self.pull.follow_faults(&self.ctx, &faults);
                self.pull.restriction = restriction;
            }
            TabEvent::Refused(..) => {}
        }
        Ok(())
    }

    /// This session stops leading: at once, or when the batch in flight has ended.
    pub fn depose(&mut self) -> Result<()> {
        if self.ctx.is_following() {
            self.tabs.next = None;
        } else if self.device.is_committing() {
            self.ctx.role = Role::Deposed;
        } else {
            self.demote()?;
        }
        Ok(())
    }

    /// The state here is the last leader's final one: this session leads.
    pub fn promote(&mut self) -> Result<()> {
        let Some(next) = self.tabs.next.take() else { return Ok(()) };
        self.ctx.layout.iter_mut().for_each(|layout| layout.lead(Some(next.generation)));
        self.ctx.role = if next.is_fenced { Role::Leader } else { Role::Unfenced };
        self.tabs.looks_again = false;
        self.tabs.look_at_ms = None;
        self.outbox.table.order_floor = 0;
        let provisional = std::mem::take(&mut self.tabs.provisional);
        let journaled = self.outbox.table.ops.values().filter(|op| !provisional.contains_key(&op.state.id));
        let last_order = journaled.clone().map(|op| op.state.order).max().unwrap_or(0);
        self.outbox.overlay.last_rowid = self.outbox.journal.last_rowid();
        let mut own = Vec::new();
        for (order, op) in
            self.outbox.table.ops.iter().filter(|(_, op)| provisional.contains_key(&op.state.id))
        {
            let amends = provisional[&op.state.id].amends.clone();
            let key = provisional[&op.state.id].key.filter(|_| op.saved);
            own.push((*order, key, wanted_of(op, amends)));
        }
        let mut requests: Vec<(Option<RecordKey>, Wanted)> = Vec::new();
        // Outbox and amendments are among the operations already.
        let is_other = |wanted: &Wanted| !matches!(wanted, Wanted::Write(_) | Wanted::Amend { .. });
        let queue = std::mem::take(&mut self.tabs.queue).into_iter().map(|(_, request)| request.wanted);
        let others: Vec<Wanted> = queue.filter(is_other).collect();
        let mut given_up = Vec::new();
        for (order, key, wanted) in own {
            given_up.extend(self.outbox.table.remove(order));
            requests.push((key, wanted));
        }
        self.outbox.table.last_order = last_order;
        requests.extend(others.into_iter().map(|wanted| (None, wanted)));
        for def in std::mem::take(&mut self.tabs.wanted) {
            self.ctx.memory.dirty.restate(&def);
            requests.push((None, Wanted::Subscribe(def)));
        }
        for def in std::mem::take(&mut self.tabs.unwanted) {
            requests.push((None, Wanted::Unsubscribe(def)));
        }
        self.tabs.dealt.clear();
        self.reads.unreadable.clear();
        for (key, wanted) in requests {
            self.take_request(key, wanted)?;
        }
        for op in given_up {
            unpin(&mut self.ctx, &op);
        }
        self.readings().resume_readings(true);
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
        self.ctx.role = Role::Follower;
        self.tabs.phase = Phase::Opening;
        self.ctx.layout.iter_mut().for_each(|layout| layout.lead(None));
        self.pull.demoted(&mut self.ctx);
        self.live.close(&mut self.ctx);
        self.token.await_no_more();
        self.device.forget_failures();
        self.outbox.table.order_floor = ORDER_FLOOR;
        self.outbox.overlay.last_rowid = ORDER_FLOOR as i64;
        let (sweeps, swept) = self.outbox.let_go();
        for ticket in swept.into_iter().chain(self.reads.forget_sweeps()) {
            let error = Error::new(Code::Deposed, "another tab leads now: sweep again");
            self.ctx.effects.push(Effect::Swept { ticket, swept: Err(error) });
        }
        self.tabs.done.clear();
        self.tabs.met.clear();
        for (key, wanted) in std::mem::take(&mut self.tabs.deferred) {
            if key.is_none() {
                self.tabs.ask(&mut self.ctx, wanted)?;
            }
        }
        let from_inbox = std::mem::take(&mut self.tabs.from_inbox);
        outbox::undo_parts(&mut self.ctx, &mut self.outbox.table)?;
        for op in self.outbox.table.ops.values_mut().filter(|op| !op.saved) {
            let key = from_inbox.get(&op.state.id).copied();
            // Its request is on the device.
            op.saved = key.is_some();
            let amends = op.state.replaces.last().cloned();
            self.tabs.dealt.extend(amends.clone());
            self.tabs.provisional.insert(op.state.id.clone(), Provisional { key, amends });
        }
        let dirty = self.ctx.memory.dirty.take();
        for def in dirty.collections {
            if self.ctx.memory.collection(&def).is_some() {
                self.tabs.wanted.insert(def.clone());
                self.tabs.ask(&mut self.ctx, Wanted::Subscribe(def))?;
            } else {
                self.tabs.unwanted.insert(def.clone());
                self.tabs.ask(&mut self.ctx, Wanted::Unsubscribe(def))?;
            }
        }
        for (ticket, retention, apply) in sweeps {
            self.sweep_following(ticket, retention, apply)?;
        }
        self.tabs.has_followed = true;
        self.ctx.effects.push(Effect::Tab(TabEffect::Deposed));
        self.tabs.request_reload(&mut self.ctx);
        Ok(())
    }
}
