//! A view of the package, for each def: it learns of changes alone, at times of its own, and shows the same as a whole
//! listing.

use std::collections::{BTreeMap, BTreeSet};

use escale::model::Def;
use escale::sync::{Effect, Machine};

use super::World;
use crate::backend::Backend;

/// The documents that a view shows.
#[derive(Debug)]
pub struct View {
    held: BTreeSet<u32>,
    left: BTreeSet<u32>,
    /// Something changed since the last listing.
    is_dirty: bool,
    /// The next listing has to be whole.
    is_lost: bool,
}

/// The views of a client.
pub type Views = BTreeMap<Def, View>;

impl View {
    fn new() -> Self {
        View { held: BTreeSet::new(), left: BTreeSet::new(), is_dirty: true, is_lost: true }
    }

    fn leave(&mut self, id: u32) {
        if self.held.contains(&id) {
            self.left.insert(id);
        }
    }

    fn read(&mut self, machine: &mut Machine, def: &Def) {
        let changes = machine.changes(def, self.is_lost).unwrap_or_default();
        (self.is_dirty, self.is_lost) = (false, false);
        let left = changes.left.unwrap_or_else(|| self.held.iter().copied().collect());
        for id in left {
            self.leave(id);
        }
        for id in &changes.ids {
            self.left.remove(id);
        }
        let left = std::mem::take(&mut self.left);
        self.held.retain(|id| !left.contains(id));
        self.held.extend(changes.ids);
    }
}

impl<S: Backend> World<S> {
    /// After an event: some views read, and each one that nothing was reported to since it read shows everything.
    pub(super) fn check_views(&mut self, number: usize, effects: &[Effect]) {
        let turn = self.figures.events;
        let client = &mut self.clients[number];
        let Some(machine) = &mut client.machine else { return };
        for effect in effects {
            let Effect::Changed { defs, gone, .. } = effect else { continue };
            for (def, view) in &mut client.views {
                // As the package does it: a view that has read everything hears only of its own def.
                view.is_dirty |= defs.contains(def);
                if view.is_dirty {
                    gone.iter().for_each(|id| view.leave(*id));
                }
            }
        }
        let defs: Vec<Def> = machine.memory().collections().map(|(def, _)| def.clone()).collect();
        client.views.retain(|def, _| defs.contains(def));
        for (at, def) in defs.iter().enumerate() {
            let view = client.views.entry(def.clone()).or_insert_with(View::new);
            if view.is_dirty && !(turn + at as u64).is_multiple_of(3) {
                view.read(machine, def);
            }
            if !view.is_dirty {
                let (ids, ..) = machine.list(def).expect("subscribed");
                let listed: BTreeSet<u32> = ids.into_iter().collect();
                assert_eq!(
                    view.held, listed,
                    "client {number}: the view of {def} shows what the session holds"
                );
            }
        }
    }
}
