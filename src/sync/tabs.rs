//! Several sessions over one store, as in several tabs (docs/decisions/16-tabs-meet-in-the-store.md). One is the leader: it alone talks
//! to the server and writes the state. The others are followers. This file has the roles, and the transitions
//! between them.
//!
//! In the code, a *look* polls the newest records of the leader's log, and a *reading* loads the whole state
//! again. To *hand in* is to write requests to the inbox (`forward.rs`), from where the leader takes them
//! (`inbox.rs`). An operation is *provisional* in a follower until the leader has taken it in.

use std::collections::VecDeque;

use super::machine::Machine;
use super::message::{Effect, Event, Phase, TabEffect, TabEvent};
use crate::error::{Code, Error, Result};
use crate::journal::{OpId, Request, Wanted};
use crate::model::{Def, SortedMap, SortedSet};
use crate::store::RecordKey;

/// Orders from here on belong to operations that the leader has not taken in yet.
pub(super) const ORDER_FLOOR: u64 = 1 << 52;

/// An operation of this session that the leader has not taken in yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Provisional {
    /// The key of its request in the inbox, once the request is written or being written.
    pub key: Option<RecordKey>,
    /// The refused operation that it replaces.
    pub amends: Option<OpId>,
}

/// A session's knowledge of the other sessions.
#[allow(clippy::struct_excessive_bools)] // each is an activity that is independent of the others
pub(super) struct Tabs {
    /// The generation that this session has begun. It leads once it has read the state of that time.
    pub next: Option<u64>,
    /// Whether it leads, or is about to, in a generation that it has not begun. Others may still write, so it
    /// writes nothing.
    pub is_unfenced: bool,
    /// It will stop leading once the batch in flight has ended.
    is_deposed: bool,
    /// Whether anything was read since the opening.
    pub has_followed: bool,
    /// Whether a poll of the log is in progress; `last_look` is its number.
    pub is_looking: bool,
    pub last_look: u64,
    /// Whether to poll again when it ends.
    pub looks_again: bool,
    /// The number of the reload of the whole state that is in progress.
    pub reading: Option<u64>,
    pub last_reading: u64,
    /// The memory may hold state that was never stored. The log does not continue from it: the whole state is
    /// read again.
    pub is_reload_due: bool,
    /// When to poll the log again after the device failed.
    pub look_at_ms: Option<u64>,
    /// The phase that the leader reported.
    pub phase: Phase,
    /// Requests to be written to the inbox, and those being written.
    pub queue: VecDeque<(RecordKey, Request)>,
    pub sending: Option<Vec<(RecordKey, Request)>>,
    pub last_stamp: u64,
    pub provisional: SortedMap<OpId, Provisional>,
    /// Refused operations that were amended or discarded here, until the leader has done so.
    pub dealt: SortedSet<OpId>,
    /// Subscriptions begun and ended here that the leader has not written yet.
    pub wanted: SortedSet<Def>,
    pub unwanted: SortedSet<Def>,
    /// The stamps of this session's own commands about subscriptions, the last one of each def. If it leads, a
    /// request of the inbox with an earlier stamp does not count. All tabs have one clock: the device's.
    pub commanded: SortedMap<Def, u64>,
    /// For the leader. Requests that became operations, by operation; all requests seen; and those fulfilled
    /// otherwise.
    pub from_inbox: SortedMap<OpId, RecordKey>,
    pub met: SortedSet<RecordKey>,
    pub done: Vec<RecordKey>,
    /// Requests that must wait.
    pub deferred: Vec<(Option<RecordKey>, Wanted)>,
    /// Whether the inbox is being read; if it must be read again, whether with the backup database.
    pub is_reading_inbox: bool,
    pub reads_inbox_again: Option<bool>,
}

impl Default for Tabs {
    fn default() -> Self {
        Tabs {
            next: None,
            is_unfenced: false,
            is_deposed: false,
            has_followed: false,
            is_looking: false,
            last_look: 0,
            looks_again: false,
            reading: None,
            last_reading: 0,
            is_reload_due: false,
            look_at_ms: None,
            phase: Phase::Opening,
            queue: VecDeque::new(),
            sending: None,
            last_stamp: 0,
            provisional: SortedMap::new(),
            dealt: SortedSet::new(),
            wanted: SortedSet::new(),
            unwanted: SortedSet::new(),
            commanded: SortedMap::new(),
            from_inbox: SortedMap::new(),
            met: SortedSet::new(),
            done: Vec::new(),
            deferred: Vec::new(),
            is_reading_inbox: false,
            reads_inbox_again: None,
        }
    }
}

impl Tabs {
    /// Whether a batch of requests is being written.
    pub fn is_handing_in(&self) -> bool {
        self.sending.is_some()
    }

    /// Whether a follower has requests that the device has not taken.
    pub fn has_requests(&self) -> bool {
        self.next.is_none() && !self.queue.is_empty()
    }

    /// When to poll the log again after the device failed.
    pub fn next_look_ms(&self) -> Option<u64> {
        self.look_at_ms
    }
}

impl Machine {
    /// The machine as a follower, until it is to lead.
    pub fn following(mut self) -> Self {
        self.ctx.is_following = true;
        self.writes.table.order_floor = ORDER_FLOOR;
        self.writes.overlay.last_rowid = ORDER_FLOOR as i64;
        self
    }

    /// The generation in which this session leads.
    pub fn generation(&self) -> Option<u64> {
        self.ctx.layout.as_ref()?.generation()
    }

    /// Whether this session follows: another one leads, or none does.
    pub fn is_following(&self) -> bool {
        self.ctx.is_following
    }

    /// Whether it has begun a generation, and will lead once it has read the state.
    pub fn is_about_to_lead(&self) -> bool {
        self.tabs.next.is_some()
    }

    /// The machine as the leader in that generation from the first event on: its state was read in that
    /// generation.
    pub fn leading(mut self, generation: u64) -> Self {
        self.ctx.layout.iter_mut().for_each(|layout| layout.lead(Some(generation)));
        self
    }

    /// Handles the events that depend on the role, and returns the others.
    pub(super) fn take_as_tab(&mut self, event: Event) -> Result<Option<Event>> {
        match event {
            Event::Tab(event) => self.tab(event)?,
            Event::Committed(result) if self.tabs.is_handing_in() => self.handed_in(result),
            Event::Committed(result) => {
                let is_deposed = result.as_ref().is_err_and(|error| error.code() == Code::Deposed);
                self.committed(result);
                if is_deposed || self.tabs.is_deposed {
                    self.demote()?;
                }
            }
            event if self.ctx.is_following => return self.take_following(event),
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
            TabEvent::Look if self.ctx.is_following => self.look(),
            TabEvent::Look => self.read_inbox(false),
            TabEvent::Looked { number, found } if self.leads_unfenced() => self.fenced(number, found)?,
            TabEvent::Looked { number, found } => self.looked(number, found),
            TabEvent::Read { number, opened } => self.read_anew(number, opened)?,
            TabEvent::Inbox(found) => self.take_inbox(found)?,
            TabEvent::LeadUnfenced { seen, error } => self.lead_unfenced(seen, error)?,
            TabEvent::Lead(generation) if self.ctx.is_following => {
                if std::mem::take(&mut self.tabs.is_unfenced) {
                    self.device.served();
                }
                self.tabs.next = Some(generation);
                self.begin_to_lead();
            }
            TabEvent::Lead(generation) if self.tabs.is_unfenced => self.look_whether_fenced(generation),
            // Another session has led in between, and its changes are not known here.
            TabEvent::Lead(generation) if self.generation().is_some_and(|own| own + 1 < generation) => {
                self.tabs.next = Some(generation);
                self.depose()?;
            }
            TabEvent::Lead(generation) => {
                self.ctx.layout.iter_mut().for_each(|layout| layout.lead(Some(generation)));
            }
            TabEvent::Depose => self.depose()?,
            TabEvent::Heard(phase) => self.tabs.phase = phase,
        }
        Ok(())
    }

    /// This session stops leading: at once, or when the batch in flight has ended.
    pub(super) fn depose(&mut self) -> Result<()> {
        if self.ctx.is_following {
            self.tabs.next = None;
            self.tabs.is_unfenced = false;
        } else if self.device.is_committing() {
            self.tabs.is_deposed = true;
        } else {
            self.demote()?;
        }
        Ok(())
    }

    /// This session's generation has begun: no other session writes the state any more, so it can be read. A
    /// batch of requests in flight ends first.
    pub(super) fn begin_to_lead(&mut self) {
        if self.tabs.next.is_none() || self.tabs.is_handing_in() {
            return;
        }
        if self.tabs.has_followed || self.tabs.reading.is_some() {
            self.want_anew();
        } else {
            // Just opened: usually nothing has been written since.
            self.tabs.is_looking = false;
            self.look();
        }
    }

    /// The state here is the last leader's final one: this session leads.
    pub(super) fn promote(&mut self) -> Result<()> {
        let Some(generation) = self.tabs.next.take() else { return Ok(()) };
        self.ctx.layout.iter_mut().for_each(|layout| layout.lead(Some(generation)));
        self.ctx.is_following = false;
        self.tabs.looks_again = false;
        self.tabs.look_at_ms = None;
        self.writes.table.order_floor = 0;
        let provisional = std::mem::take(&mut self.tabs.provisional);
        let journaled = self.writes.table.ops.values().filter(|op| !provisional.contains_key(&op.state.id));
        let last_order = journaled.clone().map(|op| op.state.order).max().unwrap_or(0);
        self.writes.overlay.last_rowid = self.writes.journal.last_rowid();
        let mut own = Vec::new();
        for (order, op) in
            self.writes.table.ops.iter().filter(|(_, op)| provisional.contains_key(&op.state.id))
        {
            let amends = provisional[&op.state.id].amends.clone();
            let key = provisional[&op.state.id].key.filter(|_| op.saved);
            own.push((*order, key, wanted_of(op, amends)));
        }
        let mut requests: Vec<(Option<RecordKey>, Wanted)> = Vec::new();
        // Writes and amendments are among the operations already.
        let is_other = |wanted: &Wanted| !matches!(wanted, Wanted::Write(_) | Wanted::Amend { .. });
        let queue = std::mem::take(&mut self.tabs.queue).into_iter().map(|(_, request)| request.wanted);
        let others: Vec<Wanted> = queue.filter(is_other).collect();
        let mut given_up = Vec::new();
        for (order, key, wanted) in own {
            given_up.extend(self.writes.table.remove(order));
            requests.push((key, wanted));
        }
        self.writes.table.last_order = last_order;
        requests.extend(others.into_iter().map(|wanted| (None, wanted)));
        for def in std::mem::take(&mut self.tabs.wanted) {
            self.ctx.memory.keep_collection(&def);
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
            self.writes.table.unpin(&mut self.ctx, &op);
        }
        self.resume_readings(true);
        self.pull.begin(&mut self.ctx);
        self.start();
        self.try_at_once();
        self.ctx.effects.push(Effect::Tab(TabEffect::Leads));
        self.read_inbox(true);
        Ok(())
    }

    /// Another session leads. Unwritten changes are dropped if the server will send them again, and become
    /// requests to the leader if they are this session's own.
    pub(super) fn demote(&mut self) -> Result<()> {
        self.tabs.is_deposed = false;
        self.tabs.is_unfenced = false;
        self.ctx.is_following = true;
        self.tabs.phase = Phase::Opening;
        self.ctx.layout.iter_mut().for_each(|layout| layout.lead(None));
        self.pull.give_up(&mut self.ctx);
        self.live.close(&mut self.ctx);
        self.token.await_no_more();
        self.device.forget_failures();
        self.writes.table.order_floor = ORDER_FLOOR;
        self.writes.overlay.last_rowid = ORDER_FLOOR as i64;
        let (sweeps, swept) = self.writes.let_go();
        for ticket in swept {
            let error = Error::new(Code::Deposed, "another tab leads now: sweep again");
            self.ctx.effects.push(Effect::Swept { ticket, swept: Err(error) });
        }
        self.tabs.done.clear();
        self.tabs.met.clear();
        for (key, wanted) in std::mem::take(&mut self.tabs.deferred) {
            if key.is_none() {
                self.ask(wanted)?;
            }
        }
        let from_inbox = std::mem::take(&mut self.tabs.from_inbox);
        for op in self.writes.table.ops.values_mut().filter(|op| !op.saved) {
            let key = from_inbox.get(&op.state.id).copied();
            // Its request is on the device.
            op.saved = key.is_some();
            let amends = op.state.replaces.last().cloned();
            self.tabs.dealt.extend(amends.clone());
            self.tabs.provisional.insert(op.state.id.clone(), Provisional { key, amends });
        }
        let dirty = self.ctx.memory.take_dirty();
        for def in dirty.collections {
            if self.ctx.memory.collection(&def).is_some() {
                self.tabs.wanted.insert(def.clone());
                self.ask(Wanted::Subscribe(def))?;
            } else {
                self.tabs.unwanted.insert(def.clone());
                self.ask(Wanted::Unsubscribe(def))?;
            }
        }
        for (ticket, retention, apply) in sweeps {
            self.sweep_following(ticket, retention, apply)?;
        }
        self.tabs.has_followed = true;
        self.ctx.effects.push(Effect::Tab(TabEffect::Deposed));
        self.want_anew();
        Ok(())
    }
}

/// The request for an operation of this session.
pub(super) fn wanted_of(op: &crate::journal::PendingOp, amends: Option<OpId>) -> Wanted {
    let state = &op.state;
    match amends {
        Some(id) => Wanted::Amend { id, new: state.id.clone(), args: Some(state.args.clone()) },
        None => Wanted::Write(crate::journal::WantedWrite {
            id: state.id.clone(),
            name: state.name.clone(),
            args: state.args.clone(),
            at: state.at,
            touches: state.touches.clone(),
            after: state.after.clone(),
            base: state.base.clone(),
            bases: state.bases.clone(),
            insists: state.insists.clone(),
        }),
    }
}
