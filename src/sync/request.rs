//! Builds the next request: the operations and the defs that it contains. At most one is in flight.

use super::machine::Machine;
use super::message::Effect;
use super::request_limits::Outgoing;
use crate::codec::{Sub, SyncRequest};
use crate::model::{Def, SortedSet, order};

impl Machine {
    /// Sends the request that is due, unless one is in flight or it is too early.
    pub(super) fn advance_pull(&mut self, now: u64) {
        // No request is sent while one batch is in flight and another is due: this bounds the memory.
        let device_is_behind = self.committing.is_some() && !self.ctx.memory.is_clean();
        if self.pull.in_flight.is_some() || now < self.pull.free_at_ms() || device_is_behind {
            return;
        }
        let epoch = self.ctx.memory.epoch().0.cloned();
        // An operation is sent for the epoch that the session knows, and executed in no other (R11). If the
        // session knows none, it asks for the epoch only: subscriptions could show an operation's effect
        // before the session has its result. An operation may create an org that the server does not have.
        // Then a first request asks for the current epoch, and operations are sent without subscriptions.
        let missing = self.pull.missing;
        let is_unknown = epoch.is_none() || missing.is_some_and(|missing| !missing.has_epoch);
        let asks_epoch = is_unknown && self.has_ops_to_send(now);
        // Operations come first, then the changes of the defs that they touch, in the same round trip.
        let Outgoing { ops, bytes, defs: touched, is_alone } =
            if asks_epoch { Outgoing::alone() } else { self.ops_to_send(now) };
        self.pull.needed.extend(touched);
        let waits = missing.is_some_and(|missing| !ops.is_empty() || now < missing.ask_at_ms);
        let is_nothing = waits || (self.pull.needed.is_empty() && self.pull.repairs.is_empty());
        if !asks_epoch && ops.is_empty() && is_nothing {
            return;
        }
        let era = self.ctx.memory.epoch().1;
        let mut defs: Vec<Def> = std::mem::take(&mut self.pull.needed).into_iter().collect();
        // Long loads come last, so that they delay nothing else.
        order::sort_by_key(&mut defs, |def| {
            self.ctx.memory.collection(def).is_some_and(|c| c.load.is_some())
        });
        let subs_max = if is_alone || waits { 0 } else { self.pull.subs_max };
        let repairs: SortedSet<Def> = order::set_of(self.pull.repairs.iter().take(subs_max).cloned());
        for def in &repairs {
            self.pull.repairs.remove(def);
        }
        let room = subs_max.saturating_sub(repairs.len());
        self.pull.needed.extend(defs.split_off(room.min(defs.len())));
        let mut subs: Vec<Sub> =
            repairs.iter().map(|def| Sub { def: def.clone(), v: 0, cursor: None }).collect();
        for def in defs {
            let Some(collection) = self.ctx.memory.collection(&def) else { continue };
            subs.push(match &collection.load {
                Some(load) => Sub { def, v: load.since, cursor: Some(load.cursor.clone()) },
                None => Sub { v: collection.v(era), def, cursor: None },
            });
        }
        if !asks_epoch && subs.is_empty() && ops.is_empty() {
            return;
        }
        let ids = ops.iter().map(|op| (op.id.clone(), op.seq)).collect();
        let number = self.pull.launch(&subs, repairs, (ids, bytes), self.token.number(), now);
        let request = SyncRequest { p: 1, session: self.session().to_owned(), epoch, ops, subs };
        self.ctx.effects.push(Effect::Send { number, request, token: self.token.value() });
    }
}
