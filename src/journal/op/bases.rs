//! The documents that an operation was made on: a conflict is judged on them (R92).

use super::PendingOp;
use crate::codec::Data;
use crate::journal::{Change, State};
use crate::memory::DocKey;
use crate::model::{Name, Pk};

impl PendingOp {
    /// A document's state when it was issued, for conflicts.
    pub fn base_of(&self, class: &Name, pk: &Pk) -> Option<&Data> {
        let of_batch = self.state.issued.bases.iter().find(|(own, of, _)| own == class && of == pk);
        of_batch.map(|(_, _, data)| data).or(self.state.issued.base.as_ref())
    }

    /// Its changes to a document, in order.
    pub fn changes_on<'a>(&'a self, key: &'a DocKey) -> impl DoubleEndedIterator<Item = &'a Change> {
        self.changes.iter().flatten().filter(move |change| change.key == *key)
    }

    /// The state that its changes make of that state of a document.
    pub fn result_on(&self, key: &DocKey, state: Option<State>) -> Option<State> {
        self.changes_on(key).fold(state, |state, change| change.kind.apply(state))
    }

    /// Keeps a document's state, unless one is known already.
    pub fn keep_base(&mut self, class: Name, pk: &Pk, base: Option<Data>) {
        let Some(base) = base.filter(|_| self.base_of(&class, pk).is_none()) else { return };
        if self.state.issued.name == "batch" {
            self.state.issued.bases.push((class, pk.clone(), base));
        } else {
            self.state.issued.base = Some(base);
        }
    }

    /// It stands on that state of a document from now on.
    pub fn set_base(&mut self, class: Name, pk: &Pk, base: Option<Data>) {
        self.state.issued.base = None;
        self.state.issued.bases.retain(|(own, of, _)| (own, of) != (&class, pk));
        self.keep_base(class, pk, base);
    }
}
