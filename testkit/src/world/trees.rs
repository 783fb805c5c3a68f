//! R18 and R19: a tree that is whole equals one state that the server had, and a pending deletion of a parent
//! hides its items.

use std::collections::{BTreeMap, BTreeSet};

use escale::memory::tree::is_whole;
use escale::model::{Def, DefKind, Pk};
use escale::sync::Machine;

use super::World;
use crate::backend::{Backend, Entry};
use crate::schema::{Key, number_of, tree_of, with_trees};

/// The members of each def with their versions.
type State<'a> = BTreeMap<&'a Def, BTreeMap<Pk, u64>>;

impl<S: Backend> World<S> {
    /// Checked after every event.
    pub(super) fn check_trees(&mut self, number: usize) {
        let Some(machine) = &self.clients[number].machine else { return };
        let mut whole = 0;
        with_trees(|trees| {
            for (tree, defs) in trees {
                let is_held = |def: &&Def| machine.memory().collection(def).is_some();
                let defs: Vec<&Def> = defs.iter().filter(is_held).collect();
                if defs.len() > 1 && is_whole(machine.memory(), defs[0]) {
                    whole += u64::from(self.check_whole(number, machine, tree, &defs));
                }
            }
        });
        let hidden = self.check_hidden(number, machine);
        self.figures.whole += whole;
        self.figures.hidden += hidden;
    }

    /// Returns whether the tree has documents.
    fn check_whole(&self, number: usize, machine: &Machine, tree: &Key, defs: &[&Def]) -> bool {
        let memory = machine.memory();
        let (Some(epoch), era) = memory.epoch() else { return false };
        let mut shown: State = BTreeMap::new();
        for def in defs {
            let collection = memory.collection(def).expect("subscribed");
            let members = shown.entry(*def).or_default();
            for pk in collection.set.keys() {
                let key = memory.doc_key(def.class(), pk).expect("a class");
                let at = memory.document(&key).expect("R2").at;
                assert_eq!(at.era, era, "R18: client {number}, {def} is whole, and older than the epoch");
                members.insert(pk.clone(), at.v);
            }
        }
        let org = self.clients[number].setup.tenant.org;
        let history = self.server.history(org, epoch).unwrap_or_default();
        let entries: Vec<&Entry> = history.iter().filter(|entry| is_in(&entry.key, tree)).collect();
        let mut state: State = defs.iter().map(|def| (*def, BTreeMap::new())).collect();
        let mut is_found = state == shown;
        for transaction in entries.chunk_by(|one, other| one.v == other.v) {
            for entry in transaction {
                for (def, members) in &mut state {
                    if entry.key.0 == *def.class() {
                        members.remove(&entry.key.1);
                        if entry.defs.contains(def) {
                            members.insert(entry.key.1.clone(), entry.v);
                        }
                    }
                }
            }
            is_found |= state == shown;
        }
        let entries: Vec<_> =
            entries.iter().map(|entry| (&entry.key, entry.v, !entry.defs.is_empty())).collect();
        assert!(is_found, "R18: client {number} shows as whole what never was: {shown:?}, {entries:?}");
        shown.values().any(|members| !members.is_empty())
    }

    /// An item without operations of its own is not listed while an operation deletes its parent that the server has
    /// not executed. Returns how many are not listed for that reason.
    fn check_hidden(&self, number: usize, machine: &Machine) -> u64 {
        let memory = machine.memory();
        let mut hidden = 0;
        let items: Vec<&Def> = memory.collections().map(|(def, _)| def).filter(|def| is_items(def)).collect();
        if items.is_empty() {
            return 0;
        }
        let ledger = &self.clients[number].ledger;
        let operations = machine.operations();
        let operations: Vec<_> = operations.iter().map(|(op, _)| (*op, ledger.concerned(op))).collect();
        let of = self.clients[number].setup.tenant;
        for def in items {
            let (ids, _, _) = machine.list(def).expect("subscribed");
            let listed: BTreeSet<&Pk> = ids.iter().filter_map(|id| Some(&memory.by_id(*id)?.0.1)).collect();
            let members = memory.collection(def).into_iter().flat_map(|collection| collection.set.keys());
            for pk in members.chain(listed.iter().copied()) {
                let item = (def.class().clone(), pk.clone());
                let hiding = operations.iter().find(|(op, concerned)| {
                    op.state.refused.is_none()
                        && concerned.ends(&item)
                        && self.server.results(of, &op.state.issued.id).is_empty()
                });
                assert!(
                    hiding.is_none() || !listed.contains(pk),
                    "R19: client {number} lists {item:?} of a parent that {hiding:?} deletes"
                );
                hidden += u64::from(hiding.is_some());
            }
        }
        hidden
    }
}

fn is_in(key: &Key, tree: &Key) -> bool {
    key == tree || (number_of(key).is_some() && tree_of(key).as_ref() == Some(tree))
}

/// Whether a def has the items of one class and one parent.
pub(super) fn is_items(def: &Def) -> bool {
    matches!(def.kind(), DefKind::Collection(collection, _) if collection.as_str() == "in")
}
