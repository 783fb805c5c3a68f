//! Documents from the server meet pending operations: parts of replies, and parts that the server pushes.

use super::dispatch::Router;
use crate::codec::{ServerParts, SyncReply};
use crate::error::Result;
use crate::memory::tree::{asked_v, is_known, is_sequence, tree_defs, tree_of};
use crate::memory::{DocKey, EpochChange, Memory, PartContext, PreparedPart};
use crate::model::{Def, SortedMap, SortedSet, Version};
use crate::sync::context::Ctx;
use crate::sync::facts::EffectsShown;
use crate::sync::outbox::{self, Outbox};
use crate::sync::pull::{InFlight, Pull, ReadPart, prepare, settle_trees, stir_trees};

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
        settle_trees(self.pull, &mut self.ctx.memory, &done, &pushed);
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
        let (numbered, others) = self.by_tree(parts);
        for part in others {
            let touched = self.touched_by(&part);
            if self.outbox.table.is_any_renumbered(&touched) {
                self.pull.hinted(self.ctx, part.def());
                continue;
            }
            rows.extend(touched);
            match part {
                ReadPart::Prepared(part) => {
                    self.ctx.memory.apply(part, context);
                }
                ReadPart::Unreadable(_, error) => self.ctx.errors.report(error),
                ReadPart::Refused(..) => {}
            }
        }
        // A push contains some documents only. A pull shows a def completely, and so does a push without a gap.
        let mut exact: SortedSet<Def> = SortedSet::new();
        for (tree, parts) in numbered {
            let defs = tree_defs(&self.ctx.memory, &tree);
            let touched: Vec<DocKey> = parts.iter().flat_map(|part| self.touched_by_rows(part)).collect();
            match reach_of(&self.ctx.memory, &defs, &parts) {
                Reach::Known => continue,
                Reach::Next if !self.outbox.table.is_any_renumbered(&touched) => {}
                Reach::Next | Reach::Gap => {
                    defs.iter().for_each(|def| self.pull.hinted(self.ctx, def));
                    continue;
                }
            }
            rows.extend(touched);
            for part in parts {
                self.ctx.memory.apply(part, context);
            }
            exact.extend(defs);
        }
        stir_trees(self.pull, &mut self.ctx.memory, &exact);
        let whole = exact.into_iter().map(|def| (def, EffectsShown::All)).collect();
        outbox::effects_seen(self.ctx, &mut self.outbox.table, pushed.seq, Some(&whole), &rows);
        if change == EpochChange::Later {
            self.outbox.enter_epoch_with(self.ctx, pushed.seq);
        }
        Ok(())
    }

    /// The pushed parts of trees of the clock `sequence`, tree by tree, and all others.
    fn by_tree(&self, parts: Vec<ReadPart>) -> (SortedMap<DocKey, Vec<PreparedPart>>, Vec<ReadPart>) {
        let mut trees: SortedMap<DocKey, Vec<PreparedPart>> = SortedMap::new();
        let mut others = Vec::new();
        for part in parts {
            let memory = &self.ctx.memory;
            let tree = tree_of(memory, part.def()).filter(|_| is_sequence(memory, part.def()));
            match (tree, part) {
                (Some(tree), ReadPart::Prepared(part)) => trees.entry(tree).or_default().push(part),
                (_, part) => others.push(part),
            }
        }
        (trees, others)
    }

    /// The documents in a part that pending operations touch.
    fn touched_by(&self, part: &ReadPart) -> Vec<DocKey> {
        match part {
            ReadPart::Prepared(part) => self.touched_by_rows(part),
            ReadPart::Refused(..) | ReadPart::Unreadable(..) => Vec::new(),
        }
    }

    fn touched_by_rows(&self, part: &PreparedPart) -> Vec<DocKey> {
        if self.outbox.table.is_empty() {
            Vec::new()
        } else {
            self.outbox.table.touched(part.keys(&self.ctx.memory))
        }
    }
}

/// Where a push stands to the number up to which the session knows a tree (R21).
enum Reach {
    /// It says nothing new.
    Known,
    /// It goes on from there.
    Next,
    /// Something between the two is missing, or the push lacks a def of the tree.
    Gap,
}

fn reach_of(memory: &Memory, defs: &[Def], parts: &[PreparedPart]) -> Reach {
    let mut numbers: SortedSet<Version> = SortedSet::new();
    let mut goes_on = true;
    for def in defs {
        let part = parts.iter().find(|part| part.def() == def);
        let Some((Some(n), from)) = part.map(PreparedPart::numbers) else { return Reach::Gap };
        numbers.insert(n);
        // The session knows nothing of a def that is being loaded.
        goes_on &= from.is_some_and(|from| is_known(memory, def, from));
    }
    let mut numbers = numbers.iter().copied();
    match (numbers.next(), numbers.next()) {
        (Some(n), None) if defs.iter().all(|def| is_known(memory, def, n)) => Reach::Known,
        // Where some defs are behind `n` and others above it, only a pull shows one state.
        (Some(n), None) if goes_on && defs.iter().all(|def| asked_v(memory, def) <= n) => Reach::Next,
        _ => Reach::Gap,
    }
}
