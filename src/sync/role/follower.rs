//! The follower: its commands on their way to the inbox, and their effects here until the leader has written them.

use std::collections::VecDeque;

use super::state::Tabs;
use crate::error::Result;
use crate::journal::{OpId, PendingOp, Request, Wanted};
use crate::memory::Memory;
use crate::model::{Def, SortedMap, SortedSet};
use crate::storage::Layout;
use crate::store::RecordKey;
use crate::sync::context::Ctx;
use crate::sync::message::{Effect, Phase};

/// An operation of this session that the leader has not taken in yet.
#[derive(Clone, Debug, Default)]
pub struct Provisional {
    /// The key of its request in the inbox, once the request is written or being written.
    pub key: Option<RecordKey>,
    /// The refused operation that it replaces.
    pub amends: Option<OpId>,
}

/// The reading of the leader's state that is in progress, with its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Poll {
    #[default]
    None,
    /// The newest records of the log.
    Log(u64),
    /// The whole state.
    State(u64),
}

/// The state of a follower.
#[derive(Default)]
pub struct Follower {
    /// Whether anything was read since the opening.
    pub has_followed: bool,
    pub poll: Poll,
    /// Whether to poll again when that ends.
    pub polls_again: bool,
    /// The memory may hold state that was never stored. The log does not continue from it: the whole state is
    /// read again.
    pub is_reload_due: bool,
    /// When to poll the log again after the device failed.
    pub poll_at_ms: Option<u64>,
    /// The phase that the leader reported.
    pub phase: Phase,
    /// Requests to be written to the inbox, and those being written.
    pub queue: VecDeque<(RecordKey, Request)>,
    sending: Option<Vec<(RecordKey, Request)>>,
    pub provisional: SortedMap<OpId, Provisional>,
    /// Subscriptions begun and ended here that the leader has not written yet.
    pub wanted: SortedSet<Def>,
    pub unwanted: SortedSet<Def>,
}

impl Follower {
    /// A leader that another session has replaced.
    pub fn demoted() -> Self {
        Follower { has_followed: true, ..Follower::default() }
    }

    /// Whether a batch of requests is being written.
    pub fn is_handing_in(&self) -> bool {
        self.sending.is_some()
    }

    /// Whether every request is on the device.
    pub fn has_handed_in(&self) -> bool {
        self.queue.is_empty() && self.sending.is_none()
    }

    /// Whether the request of an operation was not written yet.
    pub fn is_to_request(&self, id: &str) -> bool {
        self.provisional.get(id).is_some_and(|provisional| provisional.key.is_none())
    }

    /// Enqueues the request for an operation.
    pub fn request(&mut self, ctx: &mut Ctx, tabs: &mut Tabs, op: &PendingOp) -> Result<()> {
        let id = &op.state.issued.id;
        let amends = self.provisional.get(id).and_then(|provisional| provisional.amends.clone());
        let key = self.ask(ctx, tabs, wanted_of(op, amends))?;
        self.provisional.entry(id.clone()).or_default().key = Some(key);
        Ok(())
    }

    /// Writes the requests of the queue into the inbox.
    pub fn hand_in(&mut self, ctx: &mut Ctx) -> Result<()> {
        let Some(layout) = ctx.layout.as_ref().filter(|_| !self.queue.is_empty()) else { return Ok(()) };
        let requests: Vec<(RecordKey, Request)> = self.queue.iter().cloned().collect();
        let batch = layout.hand_in(&requests, &mut *ctx.random)?;
        self.queue.clear();
        self.sending = Some(requests);
        ctx.effects.push(Effect::Commit(batch));
        Ok(())
    }

    /// The batch of requests has ended. Returns its operations if it was written.
    pub fn handed_in(&mut self, is_written: bool) -> Vec<OpId> {
        let requests = self.sending.take().unwrap_or_default();
        if !is_written {
            requests.into_iter().rev().for_each(|request| self.queue.push_front(request));
            return Vec::new();
        }
        let of_operation = |(_, request): (RecordKey, Request)| match request.wanted {
            Wanted::Write(write) => Some(write.id),
            Wanted::Amend { new, .. } => Some(new),
            _ => None,
        };
        requests.into_iter().filter_map(of_operation).collect()
    }

    /// A subscription has begun here.
    pub fn subscribed(&mut self, ctx: &mut Ctx, tabs: &mut Tabs, def: Def) -> Result<()> {
        self.unwanted.remove(&def);
        self.wanted.insert(def.clone());
        self.ask(ctx, tabs, Wanted::Subscribe(def)).map(drop)
    }

    /// A subscription has ended here.
    pub fn unsubscribed(&mut self, ctx: &mut Ctx, tabs: &mut Tabs, def: Def) -> Result<()> {
        self.wanted.remove(&def);
        self.unwanted.insert(def.clone());
        self.ask(ctx, tabs, Wanted::Unsubscribe(def)).map(drop)
    }

    /// A refused operation was amended here.
    pub fn amended(&mut self, tabs: &mut Tabs, id: OpId, new: OpId) {
        tabs.decided.insert(id.clone());
        // The request of `id` was never written to the inbox: the new operation takes over its `amends`.
        let amends = match self.provisional.remove(&id) {
            Some(Provisional { key: None, amends }) => amends,
            _ => Some(id),
        };
        self.provisional.insert(new, Provisional { key: None, amends });
    }

    /// The leader has written about the subscription to a def, which began or ended. It may have carried out this session's
    /// command, and a later one of another session that undid it. Only the inbox shows whether it did.
    pub fn note_written(&mut self, def: &Def, is_there: bool) {
        let (awaited, other) =
            if is_there { (&mut self.wanted, &self.unwanted) } else { (&mut self.unwanted, &self.wanted) };
        awaited.remove(def);
        self.is_reload_due |= other.contains(def);
    }

    /// The whole state was read again: keeps the subscriptions begun and ended here that the leader has not written, and
    /// whose requests it has not carried out.
    pub fn keep_open(&mut self, memory: &Memory, layout: &Layout, inbox: &[(RecordKey, Vec<u8>)]) {
        let (mut begun, mut dropped): (SortedSet<Def>, SortedSet<Def>) = Default::default();
        let mut note = |wanted: &Wanted| match wanted {
            Wanted::Subscribe(def) => drop(begun.insert(def.clone())),
            Wanted::Unsubscribe(def) => drop(dropped.insert(def.clone())),
            _ => {}
        };
        // Requests are opened only if a subscription waits for the leader.
        if !(self.wanted.is_empty() && self.unwanted.is_empty()) {
            let own = self.queue.iter().chain(self.sending.iter().flatten());
            own.for_each(|(_, request)| note(&request.wanted));
            let handed_in = inbox.iter().filter_map(|(key, sealed)| layout.open_request(*key, sealed).ok());
            handed_in.for_each(|request| note(&request.wanted));
        }
        // The leader has carried out all other commands.
        self.wanted.retain(|def| memory.collection(def).is_none() && begun.contains(def));
        self.unwanted.retain(|def| memory.collection(def).is_some() && dropped.contains(def));
    }
}

/// The request for an operation of this session.
pub fn wanted_of(op: &PendingOp, amends: Option<OpId>) -> Wanted {
    let issued = &op.state.issued;
    match amends {
        Some(id) => Wanted::Amend { id, new: issued.id.clone(), args: Some(issued.args.clone()) },
        None => Wanted::Write(issued.clone()),
    }
}
