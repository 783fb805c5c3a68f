//! Trees on the wire (R18): the defs of a tree are requested next to each other in one request, so that they come from
//! one snapshot. If one of them changes in any other way, all are requested again.

use super::schedule::Pull;
use crate::memory::tree::{await_tree, changed_trees, mark_changed, tree_defs, tree_of};
use crate::memory::{DocKey, Memory};
use crate::model::{Def, SortedSet, order};

/// Takes the next defs to request, `room` at most. Each comes with all other defs of its tree. Defs with a long load
/// come last, so that they delay nothing else.
pub fn take_defs(pull: &mut Pull, memory: &Memory, room: usize) -> Vec<Def> {
    let mut trees: SortedSet<DocKey> = SortedSet::new();
    let mut groups: Vec<Vec<Def>> = Vec::new();
    let needed = std::mem::take(&mut pull.needed);
    for def in &needed {
        match tree_of(memory, def) {
            None => groups.push(vec![def.clone()]),
            Some(tree) if trees.insert(tree.clone()) => {
                let mut defs = tree_defs(memory, &tree);
                // Only the first def of a reply is sure to have room: it is one that the last reply had none for.
                order::sort_by_key(&mut defs, |def| !needed.contains(def));
                groups.push(defs);
            }
            Some(_) => {}
        }
    }
    let is_long = |def: &Def| memory.collection(def).is_some_and(|own| own.paged().is_some());
    order::sort_by_key(&mut groups, |group| group.iter().any(is_long));
    let mut defs: Vec<Def> = Vec::new();
    for group in groups {
        // A tree is never split. The first one goes even if the server has found fewer defs too many.
        if room > 0 && (defs.is_empty() || defs.len() + group.len() <= room) {
            defs.extend(group);
        } else {
            pull.needed.extend(group);
        }
    }
    defs
}

/// Ends a reply. The trees that it changed are whole if it answered each of their defs without a cursor: those are
/// `done`. The others are requested again, and not whole until then. The same holds for those that a push has changed
/// since the request. Defs that the server refuses do not count.
pub fn confirm_trees(
    pull: &mut Pull,
    memory: &mut Memory,
    done: &SortedSet<Def>,
    pushed: &SortedSet<DocKey>,
) {
    for tree in changed_trees(memory) {
        let defs = tree_defs(memory, &tree);
        let is_done = |def: &Def| done.contains(def) && !pushed.contains(&tree);
        let is_refused = |def: &Def| pull.faults.contains_key(def);
        if defs.len() > 1 && !defs.iter().all(|def| is_done(def) || is_refused(def)) {
            await_tree(memory, &defs);
            // The others go along with these.
            let open: Vec<Def> =
                defs.iter().filter(|def| !is_refused(def) && !is_done(def)).cloned().collect();
            pull.needed.extend(open);
        }
        mark_changed(memory, defs);
    }
}

/// Ends a push. The one before it may be lost, so only a pull shows one state of a tree, and none that was sent before.
/// On the clock `sequence` the numbers show that none is lost: `exact` are the defs of those trees, which stay whole.
pub fn invalidate_trees(pull: &mut Pull, memory: &mut Memory, exact: &SortedSet<Def>) {
    if let Some(request) = &mut pull.in_flight {
        for tree in changed_trees(memory) {
            if !tree_defs(memory, &tree).iter().all(|def| exact.contains(def)) {
                request.pushed.insert(tree);
            }
        }
    }
    confirm_trees(pull, memory, exact, &SortedSet::new());
}
