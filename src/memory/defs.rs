//! The list of defs that hold a document. Documents share these lists.

use std::ops::Deref;
use std::sync::Arc;

use crate::model::Def;

/// The number of recent results kept for adding a def, and again for removing it.
const STEPS_MAX: usize = 8;

/// The defs that hold a document, ascending. Most documents of a session are held by the same few defs, so
/// they share lists.
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

/// Adds one def, always the same, to documents' lists, and removes it. Documents with the same sequence of
/// changes share their lists.
#[derive(Clone, Debug, Default)]
pub(super) struct Sharing {
    added: Steps,
    removed: Steps,
}

impl Sharing {
    /// Adds the def to a document's list. Returns whether it was missing.
    pub fn add(&mut self, defs: &mut Defs, def: &Def) -> bool {
        self.added.step(defs, |defs| defs.with(def))
    }

    /// Removes the def from a document's list. Returns whether it was there.
    pub fn remove(&mut self, defs: &mut Defs, def: &Def) -> bool {
        self.removed.step(defs, |defs| defs.without(def))
    }
}

/// The most recent changes, each as a list before and after.
#[derive(Clone, Debug, Default)]
struct Steps(Vec<(Defs, Defs)>);

impl Steps {
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
    use crate::memory::tests::{Seeded, below, seeds};

    fn def(text: &str) -> Def {
        text.parse().expect("a def")
    }

    /// In any order of the changes, and with any number of other lists.
    #[test]
    fn defs_stay_in_order_and_are_there_once() {
        for seed in seeds(300) {
            let random = &mut Seeded::new(seed);
            let mut all: Vec<(Def, Sharing)> =
                (0..6).map(|number| (def(&format!("D{number}")), Sharing::default())).collect();
            let mut documents: Vec<(Defs, BTreeSet<Def>)> = vec![Default::default(); 20];
            for _ in 0..300 {
                let (defs, wanted) = &mut documents[below(random, 20)];
                let (def, sharing) = &mut all[below(random, 6)];
                let (done, is_meant) = match below(random, 20) {
                    0 => {
                        *sharing = Sharing::default();
                        (false, false)
                    }
                    1..=12 => (sharing.add(defs, def), wanted.insert(def.clone())),
                    _ => (sharing.remove(defs, def), wanted.remove(def)),
                };
                assert_eq!(done, is_meant, "ESCALE_SEED={seed}");
                let kept = sharing.added.0.len().max(sharing.removed.0.len());
                assert!(kept <= STEPS_MAX, "ESCALE_SEED={seed}: {kept} steps are kept");
                assert!(defs.iter().eq(wanted.iter()), "ESCALE_SEED={seed}: {defs:?}");
            }
        }
    }

    #[test]
    fn documents_that_take_the_same_steps_share_their_lists() {
        let (a, b) = (def("A"), def("B"));
        let (mut of_a, mut of_b) = (Sharing::default(), Sharing::default());
        let mut documents = vec![Defs::default(); 3];
        // As in replies: each document's defs, one document after the other.
        for defs in &mut documents {
            assert!(of_b.add(defs, &b) && of_a.add(defs, &a));
        }
        assert!(documents.iter().all(|defs| defs.is_same(&documents[0])));
        for defs in &mut documents {
            assert!(of_b.remove(defs, &b));
        }
        assert!(documents.iter().all(|defs| defs.is_same(&documents[0])));
        assert_eq!(*documents[0], [a]);
    }
}
