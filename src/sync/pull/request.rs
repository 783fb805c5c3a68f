//! Builds the next request: the operations and the defs that it contains. At most one is in flight.

use super::in_flight::InFlight;
use super::schedule::Pull;
use super::trees::take_defs;
use crate::codec::{Sub, SyncRequest};
use crate::error::{Code, Error};
use crate::memory::tree::asked_v;
use crate::model::{Def, SortedSet, order};
use crate::sync::context::Ctx;
use crate::sync::facts::{Bearer, Outgoing};
use crate::sync::message::Effect;

impl Pull {
    /// Whether operations must wait for the epoch. An operation is sent for the epoch that the session knows,
    /// and executed in no other (R11). If the session knows none, it asks for the epoch only: subscriptions
    /// could show an operation's effect before the session has its result. An operation may create an org that
    /// the server does not have. Then a first request asks for the current epoch, and operations are sent
    /// without subscriptions.
    pub fn lacks_epoch(&self, ctx: &Ctx) -> bool {
        ctx.memory.epoch().0.is_none() || self.missing.is_some_and(|missing| !missing.has_epoch)
    }

    /// Sends the request that is due, if any. `outgoing` has the operations; `None` asks for the epoch only.
    /// Operations come first, then the changes of the defs that they touch, in the same round trip. The line carries
    /// `subs_max` subscriptions in time.
    pub fn send(&mut self, ctx: &mut Ctx, outgoing: Option<Outgoing>, bearer: &Bearer, subs_max: usize) {
        let now = ctx.clock.mono_ms;
        let asks_epoch = outgoing.is_none();
        let mut outgoing = outgoing.unwrap_or_else(Outgoing::alone);
        self.needed.extend(std::mem::take(&mut outgoing.defs));
        let has_ops = !outgoing.ops.is_empty();
        let waits = self.missing.is_some_and(|missing| has_ops || now < missing.ask_at_ms);
        let is_nothing = waits || (self.needed.is_empty() && self.repairs.is_empty());
        if !asks_epoch && !has_ops && is_nothing {
            return;
        }
        let subs_max = if outgoing.is_alone || waits { 0 } else { self.subs_max.min(subs_max) };
        let (subs, repairs) = self.take_subs(ctx, subs_max);
        if !asks_epoch && subs.is_empty() && !has_ops {
            return;
        }
        let in_flight = |number| InFlight::new(number, &subs, repairs, &outgoing, bearer.number);
        let number = self.launch(in_flight, now);
        let epoch = ctx.memory.epoch().0.cloned();
        let session = ctx.session().to_owned();
        // One def alone has each row once.
        let refs = subs.len() > 1 && !self.has_bad_refs;
        let page = self.page_size.bytes().filter(|_| !subs.is_empty());
        let request = SyncRequest { p: 1, session, epoch, ops: outgoing.ops, subs, refs, page };
        ctx.effects.push(Effect::Send { number, request, token: bearer.value.clone() });
    }

    /// Takes the next defs to request, and the damaged documents among them.
    fn take_subs(&mut self, ctx: &Ctx, subs_max: usize) -> (Vec<Sub>, SortedSet<Def>) {
        let repairs: SortedSet<Def> = order::set_of(self.repairs.iter().take(subs_max).cloned());
        for def in &repairs {
            self.repairs.remove(def);
        }
        let seeding: SortedSet<Def> =
            ctx.seeding.iter().filter(|def| self.needed.remove(def)).cloned().collect();
        let defs = take_defs(self, &ctx.memory, subs_max.saturating_sub(repairs.len()));
        self.needed.extend(seeding);
        let mut subs: Vec<Sub> =
            repairs.iter().map(|def| Sub { def: def.clone(), v: 0, cursor: None }).collect();
        for def in defs {
            let Some(collection) = ctx.memory.collection(&def) else { continue };
            subs.push(match collection.paged() {
                Some(load) => Sub { def, v: load.since, cursor: Some(load.cursor.clone()) },
                None => Sub { v: asked_v(&ctx.memory, &def), def, cursor: None },
            });
        }
        (subs, repairs)
    }

    /// A request without operations was refused whole. If its size or its depth was the reason, the next one
    /// takes fewer subscriptions.
    pub fn found_too_large(&mut self, request: &InFlight, error: &Error) {
        if request.ops.is_empty() && matches!(error.code(), Code::TooLarge | Code::TooDeep) {
            self.subs_max = (self.subs_max.min(request.subs) / 2).max(1);
        }
    }
}
