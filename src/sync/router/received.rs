//! Documents from the server meet pending operations: parts of replies, and parts that the server pushes.

use super::dispatch::Router;
use crate::codec::{ServerParts, SyncReply};
use crate::error::Result;
use crate::memory::tree::{asked_v, is_known, is_sequence, tree_defs, tree_of};
use crate::memory::{DocKey, EpochChange, PartContext};
use crate::model::{Def, SortedMap, SortedSet};
use crate::sync::context::Ctx;
use crate::sync::facts::EffectsShown;
use crate::sync::outbox::{self, Outbox};
use crate::sync::pull::{InFlight, Pull, ReadPart, confirm_trees, invalidate_trees, is_withdrawn, prepare};

/// The parts that documents from the server concern.
pub struct Received<'a> {
    ctx: &'a mut Ctx,
    pull: &'a mut Pull,
    outbox: &'a mut Outbox,
}

impl Router {
    /// The parts that documents from the server concern.
    pub fn received(&mut self) -> Received<'_> {
        let Router { ctx, pull, outbox, .. } = self;
        Received { ctx, pull, outbox }
    }
}

impl Received<'_> {
    /// Applies the parts of a reply, except those with documents of operations that are in doubt.
    pub fn apply_parts(
        &mut self,
        mut request: InFlight,
        parts: Vec<ReadPart>,
        reply: &SyncReply,
        (in_doubt, mut is_progress): (&SortedSet<u64>, bool),
    ) -> Result<()> {
        let settled = reply.now.saturating_sub(reply.delta);
        let mut answered: SortedSet<Def> = SortedSet::new();
        let mut whole: SortedMap<Def, EffectsShown> = SortedMap::new();
        let mut rows: SortedSet<DocKey> = SortedSet::new();
        let mut done: SortedSet<Def> = SortedSet::new();
        let is_alone = parts.iter().all(ReadPart::is_empty);
        let is_cut = parts.iter().any(ReadPart::is_page);
        for (index, part) in parts.into_iter().enumerate() {
            let def = part.def().clone();
            if !request.asks(&def) || answered.contains(&def) {
                continue;
            }
            let touched = self.touched_by(&part);
            // Requested again: a later reply will have the results.
            if self.outbox.table.touches_any(&touched, in_doubt) {
                continue;
            }
            answered.insert(def.clone());
            is_progress |= part.is_page();
            if self.pull.refuse_endless(self.ctx, (index, &part), &request, is_alone)? {
                continue;
            }
            rows.extend(touched);
            let all = self.pull.apply_part(self.ctx, part, &request, settled)?;
            // R22: the right to it has ended, and so does the subscription.
            if is_withdrawn(&self.pull.faults, &def) {
                self.end(&def);
                continue;
            }
            if all.is_some() && !request.has_cursor(&def) {
                done.insert(def.clone());
            }
            whole.extend(all.map(|all| (def, all)));
        }
        if is_progress || (!is_alone && !self.ctx.memory.unreported.is_empty()) {
            self.pull.progressed();
        }
        // The reply had no room for the other defs: they are requested again.
        request.forget(&answered);
        self.pull.page_size.note_reply(is_cut || request.is_unanswered());
        let pushed = std::mem::take(&mut request.pushed);
        self.pull.ask_again(request);
        confirm_trees(self.pull, &mut self.ctx.memory, &done, &pushed);
        outbox::effects_seen(self.ctx, &mut self.outbox.table, reply.seq, Some(&whole), &rows);
        Ok(())
    }

    /// Applies parts that the server pushed over the socket. A part that touches operations which may be
    /// executed under other numbers is pulled instead: only a reply shows, with their results, whether it
    /// contains their effects. On the clock `sequence`, a tree is applied as a whole, or pulled if there is a gap (R21).
    pub fn pushed(&mut self, pushed: ServerParts) -> Result<()> {
        pushed.check()?;
        let parts = prepare(&self.ctx.memory, pushed.parts);
        let change = self.pull.enter(self.ctx, &pushed.epoch, pushed.now);
        if change == EpochChange::Earlier {
            return Ok(());
        }
        let context = PartContext {
            era: self.ctx.memory.epoch().1,
            settled: pushed.now.saturating_sub(pushed.delta),
            asked: None,
        };
        let mut rows: SortedSet<DocKey> = SortedSet::new();
        let exact = self.exact_in(&parts);
        for part in parts {
            let touched = self.touched_by(&part);
            let is_exact = exact.contains(part.def());
            if !is_exact && self.outbox.table.is_any_renumbered(&touched) {
                self.pull.hinted(self.ctx, part.def());
                continue;
            }
            match part {
                // Pulled, because there is a gap, or known already.
                ReadPart::Prepared(part) if !is_exact && is_sequence(&self.ctx.memory, part.def()) => {
                    continue;
                }
                ReadPart::Prepared(part) => {
                    self.ctx.memory.apply(part, context);
                }
                ReadPart::Unreadable(_, error) => self.ctx.errors.report(error),
                ReadPart::Refused(..) => {}
            }
            rows.extend(touched);
        }
        invalidate_trees(self.pull, &mut self.ctx.memory, &exact);
        // A push contains some documents only; a pull alone shows a def completely.
        outbox::effects_seen(self.ctx, &mut self.outbox.table, pushed.seq, None, &rows);
        if change == EpochChange::Later {
            self.outbox.enter_epoch_with(self.ctx, pushed.seq);
        }
        Ok(())
    }

    /// The defs of those trees of the clock `sequence` that a push brings to a later number (R21). Trees of which
    /// something is missing are pulled instead.
    fn exact_in(&mut self, parts: &[ReadPart]) -> SortedSet<Def> {
        let mut exact: SortedSet<Def> = SortedSet::new();
        for part in parts.iter().filter(|part| is_sequence(&self.ctx.memory, part.def())) {
            let memory = &self.ctx.memory;
            let Some(tree) = tree_of(memory, part.def()) else { continue };
            let defs = tree_defs(memory, &tree);
            let n = part.numbers().0;
            let (mut is_known_all, mut goes_on) = (true, true);
            for def in &defs {
                let mut of_def = parts.iter().filter(|part| part.def() == def);
                let (own, from) = of_def.next().map_or((None, None), ReadPart::numbers);
                is_known_all &= n.is_some_and(|n| is_known(memory, def, n));
                // It goes on from the known number, and the session is not ahead of it.
                goes_on &= own == n && own >= Some(asked_v(memory, def)) && of_def.next().is_none();
                goes_on &= from.is_some_and(|from| is_known(memory, def, from));
            }
            if is_known_all {
                continue;
            }
            for part in parts.iter().filter(|part| defs.contains(part.def())) {
                goes_on &= !self.outbox.table.is_any_renumbered(&self.touched_by(part));
            }
            for def in defs {
                if goes_on {
                    exact.insert(def);
                } else {
                    self.pull.hinted(self.ctx, &def);
                }
            }
        }
        exact
    }

    /// Ends a subscription, and forgets all that was due for it.
    pub fn end(&mut self, def: &Def) {
        self.pull.unsubscribed(def);
        self.ctx.seeding.remove(def);
        self.ctx.memory.unsubscribe(def);
        outbox::await_no_more(self.ctx, &mut self.outbox.table, def);
        outbox::show_again(self.ctx, &mut self.outbox.table, def);
        if self.outbox.table.has_nothing_to_do(self.ctx) {
            self.pull.rest(self.ctx);
        }
    }

    /// The documents in a part that pending operations touch.
    fn touched_by(&self, part: &ReadPart) -> Vec<DocKey> {
        if self.outbox.table.is_empty() {
            Vec::new()
        } else {
            self.outbox.table.touched(part.keys(&self.ctx.memory))
        }
    }
}
