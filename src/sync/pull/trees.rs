//! Trees on the wire (R18): the defs of a tree are requested next to each other in one request, so that they come from
//! one snapshot. If one of them changes in any other way, all are requested again.

use super::schedule::Pull;
use crate::memory::DocKey;
use crate::model::{Def, SortedSet, order};
use crate::sync::context::Ctx;

impl Pull {
    /// Takes the next defs to request, `room` at most. Each comes with all other defs of its tree. Defs with a long
    /// load come last, so that they delay nothing else.
    pub(super) fn take_defs(&mut self, ctx: &Ctx, room: usize) -> Vec<Def> {
        let needed = std::mem::take(&mut self.needed);
        let mut trees: SortedSet<DocKey> = SortedSet::new();
        let mut groups: Vec<Vec<Def>> = Vec::new();
        for def in &needed {
            match ctx.memory.tree_of(def) {
                None => groups.push(vec![def.clone()]),
                Some(tree) if trees.insert(tree.clone()) => groups.push(ctx.memory.tree_defs(&tree)),
                Some(_) => {}
            }
        }
        let is_long = |def: &Def| ctx.memory.collection(def).is_some_and(|own| own.paged().is_some());
        order::sort_by_key(&mut groups, |group| group.iter().any(is_long));
        let mut defs: Vec<Def> = Vec::new();
        for group in groups {
            // A tree is never split. The first one goes even if the server has found fewer defs too many.
            if room > 0 && (defs.is_empty() || defs.len() + group.len() <= room) {
                defs.extend(group);
            } else {
                self.needed.extend(group);
            }
        }
        defs
    }

    /// Ends a reply. The trees that it changed are whole if it answered each of their defs without a cursor: those
    /// are `done`. The others are requested again, and not whole until then; so are those that a push has changed since
    /// the request. Defs that the server refuses do not count.
    pub fn settle_trees(&mut self, ctx: &mut Ctx, done: &SortedSet<Def>, pushed: &SortedSet<DocKey>) {
        let changed = ctx.memory.changed_defs().iter().filter_map(|def| ctx.memory.tree_of(def));
        for tree in order::set_of(changed) {
            let defs = ctx.memory.tree_defs(&tree);
            let is_done = |def: &Def| done.contains(def) && !pushed.contains(&tree);
            let answered = |def: &Def| is_done(def) || self.faults.contains_key(def);
            if defs.len() > 1 && !defs.iter().all(answered) {
                ctx.memory.await_tree(&defs);
                self.needed.extend(defs.iter().filter(|def| !self.faults.contains_key(*def)).cloned());
            }
            ctx.memory.report(defs);
        }
    }

    /// Ends a push. The one before it may be lost, so only a pull shows one state of a tree, and none that was sent
    /// before.
    pub fn stir_trees(&mut self, ctx: &mut Ctx) {
        if let Some(request) = &mut self.in_flight {
            request.pushed.extend(ctx.memory.changed_defs().iter().filter_map(|def| ctx.memory.tree_of(def)));
        }
        self.settle_trees(ctx, &SortedSet::new(), &SortedSet::new());
    }
}
