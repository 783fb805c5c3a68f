//! The follower's commands to the leader. Each command of the application takes effect here at once, and is
//! written to the inbox as a request to the leader.

use super::dispatch::Router;
use super::storing::Batches;
use crate::error::Result;
use crate::journal::{OpId, PendingOp, Request, Retention, Wanted};
use crate::store::RecordKey;
use crate::sync::message::{Effect, Event, Phase};
use crate::sync::outbox;
use crate::sync::role::{Provisional, wanted_of};

impl Router {
    /// Handles the application's commands while another session leads.
    pub fn take_following(&mut self, event: Event) -> Result<Option<Event>> {
        match event {
            Event::Subscribe(def) => {
                self.tabs.commanded(&mut self.ctx, &def);
                if self.ctx.memory.subscribe(&def)? {
                    outbox::show_again(&mut self.ctx, &mut self.outbox.table, &def);
                    self.tabs.unwanted.remove(&def);
                    self.tabs.wanted.insert(def.clone());
                    self.tabs.ask(&mut self.ctx, Wanted::Subscribe(def))?;
                }
            }
            Event::Unsubscribe(def) => {
                self.tabs.commanded(&mut self.ctx, &def);
                if self.ctx.memory.unsubscribe(&def) {
                    outbox::show_again(&mut self.ctx, &mut self.outbox.table, &def);
                    self.tabs.wanted.remove(&def);
                    self.tabs.unwanted.insert(def.clone());
                    self.tabs.ask(&mut self.ctx, Wanted::Unsubscribe(def))?;
                }
            }
            Event::Write(write) => {
                let id = write.id.clone();
                self.outbox.table.write(&mut self.ctx, write)?;
                self.tabs.provisional.insert(id, Provisional::default());
            }
            Event::Amend { id, new, args } => {
                let outbox = &mut self.outbox;
                let app = &*outbox.application;
                outbox::amend(&mut self.ctx, &mut outbox.table, app, &id, new.clone(), args)?;
                self.tabs.dealt.insert(id.clone());
                // The request of `id` was never written to the inbox: the new operation takes over its
                // `amends`.
                let amends = match self.tabs.provisional.remove(&id) {
                    Some(Provisional { key: None, amends }) => amends,
                    _ => Some(id),
                };
                self.tabs.provisional.insert(new, Provisional { key: None, amends });
            }
            Event::Discard(id) => {
                self.outbox.table.discard(&mut self.ctx, &id)?;
                self.tabs.dealt.insert(id.clone());
                self.tabs.ask(&mut self.ctx, Wanted::Discard(id))?;
            }
            Event::Sweep { ticket, retention, apply } => self.sweep_following(ticket, retention, apply)?,
            Event::SetMode(mode) => {
                self.tabs.phase = Phase::Opening;
                return Ok(Some(Event::SetMode(mode)));
            }
            event => return Ok(Some(event)),
        }
        Ok(None)
    }

    /// Reports the actions that a sweep would remove, as far as this session knows, and requests the sweep.
    pub fn sweep_following(&mut self, ticket: u64, retention: Retention, apply: bool) -> Result<()> {
        self.readings().sweep_now(ticket, &retention, false);
        if apply { self.tabs.ask(&mut self.ctx, Wanted::Sweep(retention)) } else { Ok(()) }
    }

    /// True if every command of this session is on the device.
    pub fn is_handed_in(&self) -> bool {
        let is_saved = |id: &OpId| self.outbox.table.get(id).is_none_or(|op| op.saved);
        self.tabs.queue.is_empty() && !self.tabs.is_handing_in() && self.tabs.provisional.keys().all(is_saved)
    }
}

impl Batches<'_> {
    /// The work that is due in a follower: it writes to nothing but the inbox.
    pub fn advance_following(&mut self, now: u64) -> Result<()> {
        if self.tabs.has_followed {
            self.ctx.memory.dirty.take();
        }
        self.outbox.let_go();
        if self.tabs.look_at_ms.is_some_and(|at| now >= at) {
            self.tabs.look_at_ms = None;
            self.tabs.request_reload(self.ctx);
        }
        let ready = |op: &&PendingOp| {
            let provisional = self.tabs.provisional.get(&op.state.id);
            op.prepared && provisional.is_some_and(|provisional| provisional.key.is_none())
        };
        let ready: Vec<OpId> =
            self.outbox.table.ops.values().filter(ready).map(|op| op.state.id.clone()).collect();
        for id in ready {
            let amends = self.tabs.provisional.get(&id).and_then(|provisional| provisional.amends.clone());
            let Some(op) = self.outbox.table.get(&id) else { continue };
            let key = self.tabs.new_request(self.ctx, wanted_of(op, amends))?;
            self.tabs.provisional.entry(id).or_default().key = Some(key);
        }
        // No batch of the state is in flight: a leader is demoted once its last one has ended.
        let is_held = self.tabs.next.is_some() || self.tabs.is_handing_in() || self.device.is_away();
        let is_held = is_held || now < self.device.commit_not_before_ms();
        let Some(layout) = self.ctx.layout.as_ref().filter(|_| !is_held && !self.tabs.queue.is_empty())
        else {
            return Ok(());
        };
        let requests: Vec<(RecordKey, Request)> = self.tabs.queue.iter().cloned().collect();
        let batch = layout.hand_in(&requests, &mut *self.ctx.random)?;
        self.tabs.queue.clear();
        self.tabs.sending = Some(requests);
        self.ctx.effects.push(Effect::Commit(batch));
        Ok(())
    }

    /// The batch of requests is on the device, or writing it failed.
    pub fn handed_in(&mut self, result: Result<()>) {
        let requests = self.tabs.sending.take().unwrap_or_default();
        match result {
            Ok(()) => {
                for (_, request) in requests {
                    let id = match request.wanted {
                        Wanted::Write(write) => write.id,
                        Wanted::Amend { new, .. } => new,
                        _ => continue,
                    };
                    if let Some(op) = self.outbox.table.get_mut(&id)
                        && self.tabs.provisional.contains_key(&id)
                    {
                        op.saved = true;
                    }
                    self.ctx.effects.push(Effect::Saved { id });
                }
                self.device.served();
            }
            Err(error) => {
                requests.into_iter().rev().for_each(|request| self.tabs.queue.push_front(request));
                self.device.refused(self.ctx, error);
            }
        }
        self.tabs.begin_to_lead(self.ctx);
    }
}
