//! The defs that hold a document.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::model::Def;

/// Of each def, so many lists are remembered that it was added to, or removed from.
const STEPS_MAX: usize = 8;

/// The defs that hold a document, ascending. Most documents of a session are held by the same few, so lists are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defs(Option<Arc<[Def]>>);

impl Defs {
    fn without(&self, def: &Def) -> Option<Self> {
        let place = self.binary_search(def).ok()?;
        let kept: Vec<Def> = self[..place].iter().chain(&self[place + 1..]).cloned().collect();
        Some(Defs((!kept.is_empty()).then(|| kept.into())))
    }

    fn with(&self, def: &Def) -> Option<Self> {
        let (before, after) = self.split_at(self.binary_search(def).err()?);
        let mut defs = Vec::with_capacity(self.len() + 1);
        defs.extend_from_slice(before);
        defs.push(def.clone());
        defs.extend_from_slice(after);
        Some(Defs(Some(defs.into())))
    }

    fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(own), Some(others)) => Arc::ptr_eq(own, others),
            (own, others) => own.is_none() && others.is_none(),
        }
    }
}

impl Deref for Defs {
    type Target = [Def];

    fn deref(&self) -> &[Def] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// Adds defs to documents, and removes them: documents that take the same steps share their lists.
#[derive(Default)]
pub(super) struct Sharing {
    added: HashMap<Def, Steps>,
    removed: HashMap<Def, Steps>,
}

impl Sharing {
    /// Adds a def to a document's list. Gives whether it was not there.
    pub fn add(&mut self, defs: &mut Defs, def: &Def) -> bool {
        steps_of(&mut self.added, def).add(defs, def)
    }

    /// Removes a def from a document's list. Gives whether it was there.
    pub fn remove(&mut self, defs: &mut Defs, def: &Def) -> bool {
        steps_of(&mut self.removed, def).step(defs, |defs| defs.without(def))
    }

    /// For one who adds the same def to many lists.
    pub fn steps(&mut self, def: &Def) -> &mut Steps {
        steps_of(&mut self.added, def)
    }

    /// The def is subscribed to no more.
    pub fn forget(&mut self, def: &Def) {
        self.added.remove(def);
        self.removed.remove(def);
    }
}

fn steps_of<'s>(steps: &'s mut HashMap<Def, Steps>, def: &Def) -> &'s mut Steps {
    if !steps.contains_key(def) {
        steps.insert(def.clone(), Steps::default());
    }
    steps.get_mut(def).expect("just there")
}

/// What a def made of which list, the latest ones.
#[derive(Default)]
pub(super) struct Steps(Vec<(Defs, Defs)>);

impl Steps {
    /// Adds the def, always the same one, to a document's list. Gives whether it was not there.
    pub fn add(&mut self, defs: &mut Defs, def: &Def) -> bool {
        self.step(defs, |defs| defs.with(def))
    }

    fn step(&mut self, defs: &mut Defs, make: impl FnOnce(&Defs) -> Option<Defs>) -> bool {
        let known = self.0.iter().find(|(before, _)| before.is_same(defs));
        let after = if let Some((_, after)) = known {
            after.clone()
        } else {
            let Some(after) = make(defs) else { return false };
            if self.0.len() == STEPS_MAX {
                self.0.remove(0);
            }
            self.0.push((defs.clone(), after.clone()));
            after
        };
        *defs = after;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::session::tests::{Seeded, below, seeds};

    fn def(text: &str) -> Def {
        text.parse().expect("a def")
    }

    /// Whatever order they come in, and however many other lists there are.
    #[test]
    fn defs_stay_in_order_and_are_there_once() {
        for seed in seeds() {
            let random = &mut Seeded(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let all: Vec<Def> = (0..6).map(|number| def(&format!("D{number}"))).collect();
            let mut sharing = Sharing::default();
            let mut documents: Vec<(Defs, BTreeSet<Def>)> = vec![Default::default(); 20];
            for _ in 0..300 {
                let (defs, wanted) = &mut documents[below(random, 20)];
                let def = &all[below(random, all.len())];
                let (done, is_meant) = match below(random, 20) {
                    0 => {
                        sharing.forget(def);
                        (false, false)
                    }
                    1..=12 => (sharing.add(defs, def), wanted.insert(def.clone())),
                    _ => (sharing.remove(defs, def), wanted.remove(def)),
                };
                assert_eq!(done, is_meant, "ESCALE_SEED={seed}");
                assert!(defs.iter().eq(wanted.iter()), "ESCALE_SEED={seed}: {defs:?}");
            }
        }
    }

    #[test]
    fn documents_that_take_the_same_steps_share_their_lists() {
        let (a, b) = (def("A"), def("B"));
        let mut sharing = Sharing::default();
        let mut documents = vec![Defs::default(); 3];
        // As replies tell them: each document's defs, one document after the other.
        for defs in &mut documents {
            assert!(sharing.add(defs, &b) && sharing.add(defs, &a));
        }
        assert!(documents.iter().all(|defs| defs.is_same(&documents[0])));
        for defs in &mut documents {
            assert!(sharing.remove(defs, &b));
        }
        assert!(documents.iter().all(|defs| defs.is_same(&documents[0])));
        assert_eq!(*documents[0], [a]);
    }
}
