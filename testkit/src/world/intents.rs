//! R92 in the world: a session with the policy `merge` changes nothing on the server but by the wish of its
//! application.

use std::collections::BTreeSet;

use escale::journal::{ChangeKind, PendingOp, Policy};
use escale::model::Value;

use super::World;
use crate::backend::Backend;
use crate::schema::{Key, Map, tree_of};

/// The changes that the applications of a client have wanted.
#[derive(Clone, Debug, Default)]
pub struct Intents {
    /// Operations that were issued, and whose documents were not known yet.
    open: BTreeSet<String>,
    /// Each value that a write gave to a property, or took away.
    values: BTreeSet<(Key, String, String)>,
    deleted: BTreeSet<Key>,
    /// Documents that the application wrote as a whole when it resolved a refusal.
    resolved: BTreeSet<Key>,
}

fn wish(key: &Key, name: &str, value: Option<&Value>) -> (Key, String, String) {
    (key.clone(), name.to_owned(), format!("{value:?}"))
}

/// The properties in which two states differ.
fn differing<'m>(one: &'m Map, other: &'m Map) -> BTreeSet<&'m String> {
    one.keys().chain(other.keys()).filter(|name| one.get(*name) != other.get(*name)).collect()
}

impl Intents {
    pub fn issue(&mut self, id: String) {
        self.open.insert(id);
    }

    /// Whether an operation was issued whose changes are not noted.
    pub fn are_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The application gives a refused write other arguments.
    pub fn resolve(&mut self, key: &Key) {
        self.resolved.insert(key.clone());
    }

    /// Notes the changes of the operations to the documents that they were made on.
    pub fn note(&mut self, ops: &[(&PendingOp, bool)]) {
        let class = |of: u16| crate::schema::with(|schema| schema.classes()[usize::from(of)].name().clone());
        for (op, _) in ops.iter().filter(|(op, _)| op.prepared) {
            if !self.open.remove(&op.state.issued.id) {
                continue;
            }
            let mut before: Vec<(Key, Option<Map>)> = Vec::new();
            for change in op.changes.iter().flatten() {
                let key = (class(change.key.0), change.key.1.clone());
                let at = before.iter().position(|(of, _)| *of == key).unwrap_or_else(|| {
                    let base = op.base_of(&key.0, &key.1).map(|base| base.to_map().expect("a map"));
                    before.push((key.clone(), base));
                    before.len() - 1
                });
                let state = &mut before[at].1;
                let after = change.kind.apply(state.clone());
                if change.kind == ChangeKind::Delete {
                    self.deleted.insert(key.clone());
                }
                let (old, new) = (state.clone().unwrap_or_default(), after.clone().unwrap_or_default());
                let names = differing(&old, &new);
                self.values.extend(names.into_iter().map(|name| wish(&key, name, new.get(name))));
                if let (ChangeKind::Patch { set, .. }, None) = (&change.kind, &*state) {
                    // The document was not known here.
                    self.values.extend(set.iter().map(|(name, value)| wish(&key, name, Some(value))));
                }
                *state = after;
            }
        }
    }
}

impl<S: Backend> World<S> {
    /// Checked at the end: each property that such a session changed on the server has a value that its application
    /// wanted. Anything else would be an old value from its device, over the work of others.
    pub(super) fn compare_intents(&self) {
        for (number, client) in
            self.clients.iter().enumerate().filter(|(_, of)| of.setup.policy == Policy::Merge)
        {
            let (of, intents) = (client.setup.tenant, &client.ledger.intents);
            let history = self.server.history(of.org, self.server.epoch(of.org)).unwrap_or_default();
            for (id, issued) in &client.ledger.ops {
                let Some(ok) = self.server.result(of, id).and_then(|result| result.ok.as_ref()) else {
                    continue;
                };
                for key in issued.keys.iter().filter(|key| tree_of(key).is_none()) {
                    let written = history.iter().position(|entry| entry.key == *key && entry.v == ok.v);
                    let Some(at) = written.filter(|_| !intents.resolved.contains(key)) else { continue };
                    let Some(before) = history[..at].iter().rfind(|entry| entry.key == *key) else {
                        continue;
                    };
                    let after = &history[at];
                    if after.defs.is_empty() {
                        assert!(
                            intents.deleted.contains(key),
                            "R92: client {number} deleted {key:?} by {id}"
                        );
                        continue;
                    }
                    // A document past its life may have been purged, and is created again then.
                    let end = before.data.get("maxLife").and_then(Value::as_u64);
                    let is_over = end.is_some_and(|minute| minute.saturating_mul(60_000) <= after.v);
                    if before.defs.is_empty() || is_over {
                        continue;
                    }
                    for name in differing(&before.data, &after.data) {
                        // Operations of the application count in `n`.
                        let is_own = ["n", "release", "maxLife"].contains(&name.as_str());
                        let wished = wish(key, name, after.data.get(name));
                        assert!(
                            is_own || intents.values.contains(&wished),
                            "R92: client {number} changed {name} of {key:?} by {id}, from {:?}",
                            before.data.get(name)
                        );
                    }
                }
            }
        }
    }
}
