//! The defs that hold a document.

use std::ops::Deref;
use std::sync::Arc;

use crate::model::Def;

/// The defs that hold a document, ascending. Most documents of a session are held by the same few, so lists are shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defs(Option<Arc<[Def]>>);

impl Defs {
    /// The same without a def. Gives whether it was there.
    pub(super) fn remove(&mut self, def: &Def) -> bool {
        let Ok(place) = self.binary_search(def) else { return false };
        let kept: Vec<Def> = self[..place].iter().chain(&self[place + 1..]).cloned().collect();
        self.0 = (!kept.is_empty()).then(|| kept.into());
        true
    }

    fn with(&self, place: usize, def: &Def) -> Self {
        let (before, after) = self.split_at(place);
        let mut defs = Vec::with_capacity(self.len() + 1);
        defs.extend_from_slice(before);
        defs.push(def.clone());
        defs.extend_from_slice(after);
        Defs(Some(defs.into()))
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

/// Adds defs to documents; the list made last is given to the next document that was held by the same ones.
#[derive(Default)]
pub(super) struct DefsSharing {
    before: Defs,
    after: Defs,
    added: Option<Def>,
}

impl DefsSharing {
    /// Adds a def. Gives whether it was not there.
    pub fn add(&mut self, defs: &mut Defs, def: &Def) -> bool {
        if self.added.as_ref() != Some(def) || !self.before.is_same(defs) {
            let Err(place) = defs.binary_search(def) else { return false };
            self.after = defs.with(place, def);
            self.before = defs.clone();
            self.added = Some(def.clone());
        }
        *defs = self.after.clone();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn def(text: &str) -> Def {
        text.parse().expect("a def")
    }

    #[test]
    fn defs_stay_in_order_are_there_once_and_are_shared() {
        let (a, b, c) = (def("A"), def("B"), def("C"));
        let mut sharing = DefsSharing::default();
        let (mut one, mut other) = (Defs::default(), Defs::default());
        for next in [&c, &a, &b] {
            assert!(sharing.add(&mut one, next));
            assert!(sharing.add(&mut other, next));
            assert!(!sharing.add(&mut one, next), "it is there");
            assert!(one.is_same(&other));
        }
        assert_eq!(*one, [a.clone(), b.clone(), c.clone()]);
        assert!(one.remove(&b) && !one.remove(&b));
        assert_eq!((&*one, &*other), (&[a.clone(), c.clone()][..], &[a.clone(), b, c.clone()][..]));
        assert!(one.remove(&a) && one.remove(&c));
        assert_eq!(one, Defs::default());
        assert!(sharing.add(&mut one, &c) && one.len() == 1);
    }
}
