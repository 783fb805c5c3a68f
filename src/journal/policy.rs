//! Conflict policies: how to resolve an operation whose document has another version than expected.

use std::collections::BTreeMap;

use crate::model::Value;

/// How a class resolves its conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Policy {
    /// Operations expect no version, so the last one counts. If the application gives one in `ifVersion` and it
    /// does not match, the operation is parked in `refused`, and the application decides.
    #[default]
    Overwrite,
    /// Operations expect the version that they were made on. If it does not match, the operation is parked in
    /// `refused` with base, mine and theirs, and the application decides.
    Ask,
    /// The server's document stays; the operation is discarded.
    Server,
    /// The operation's result replaces the server's document.
    Client,
    /// Property by property: those that the operation changed are the operation's, the others the server's.
    Merge,
    /// A function of the application decides from base, mine and theirs.
    Custom,
}

impl Policy {
    /// In the order of the variants.
    const NAMES: [(&'static str, Policy); 6] = [
        ("overwrite", Policy::Overwrite),
        ("ask", Policy::Ask),
        ("server", Policy::Server),
        ("client", Policy::Client),
        ("merge", Policy::Merge),
        ("custom", Policy::Custom),
    ];

    /// The policy of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Policy::NAMES.iter().find(|(own, _)| *own == name).map(|(_, policy)| *policy)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Policy::NAMES[self as usize].0
    }
}

/// A document's properties.
pub type State = BTreeMap<String, Value>;

/// The resolution of a conflict.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// The document becomes this.
    Put(State),
    /// The document is deleted.
    Delete,
    /// The server's document stays.
    Theirs,
}

/// Resolves a conflict by a policy that needs no function of the application. An absent document is a deleted
/// one.
pub fn settle(
    policy: Policy,
    base: Option<&State>,
    mine: Option<&State>,
    theirs: Option<&State>,
) -> Settlement {
    let put =
        |state: Option<&State>| state.map_or(Settlement::Delete, |state| Settlement::Put(state.clone()));
    match policy {
        Policy::Overwrite | Policy::Ask | Policy::Server | Policy::Custom => Settlement::Theirs,
        Policy::Client => put(mine),
        Policy::Merge => match (mine, theirs) {
            (None, _) => Settlement::Delete,
            (Some(mine), None) => Settlement::Put(mine.clone()),
            (Some(mine), Some(theirs)) => Settlement::Put(merge(base.unwrap_or(&State::new()), mine, theirs)),
        },
    }
}

fn merge(base: &State, mine: &State, theirs: &State) -> State {
    let mut merged = theirs.clone();
    for name in base.keys().chain(mine.keys()) {
        if base.get(name) == mine.get(name) {
            continue;
        }
        match mine.get(name) {
            Some(value) => merged.insert(name.clone(), value.clone()),
            None => merged.remove(name),
        };
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pairs: &[(&str, i64)]) -> State {
        pairs.iter().map(|(name, n)| ((*name).to_owned(), Value::from(*n))).collect()
    }

    #[test]
    fn a_merge_takes_what_each_side_changed() {
        let (base, mine) = (state(&[("a", 1), ("b", 1), ("c", 1)]), state(&[("a", 2), ("b", 1)]));
        let theirs = state(&[("a", 1), ("b", 3), ("c", 1), ("d", 4)]);
        let merged = settle(Policy::Merge, Some(&base), Some(&mine), Some(&theirs));
        assert_eq!(merged, Settlement::Put(state(&[("a", 2), ("b", 3), ("d", 4)])));
    }

    #[test]
    fn a_merge_of_a_deleted_document_or_without_a_base_takes_mine() {
        let (mine, theirs) = (state(&[("a", 2)]), state(&[("a", 3), ("b", 1)]));
        let merge = |mine: Option<&State>, theirs: Option<&State>| settle(Policy::Merge, None, mine, theirs);
        assert_eq!(merge(None, Some(&theirs)), Settlement::Delete, "deleted here");
        assert_eq!(merge(None, None), Settlement::Delete);
        assert_eq!(merge(Some(&mine), None), Settlement::Put(mine.clone()), "deleted there");
        let both = state(&[("a", 2), ("b", 1)]);
        assert_eq!(merge(Some(&mine), Some(&theirs)), Settlement::Put(both), "without a base all is changed");
    }

    #[test]
    fn each_policy_has_its_name() {
        let all =
            [Policy::Overwrite, Policy::Ask, Policy::Server, Policy::Client, Policy::Merge, Policy::Custom];
        let names = ["overwrite", "ask", "server", "client", "merge", "custom"];
        assert_eq!(names.map(Policy::parse), all.map(Some));
        assert_eq!(Policy::parse("none"), None);
        let mine = state(&[("a", 2)]);
        for policy in [Policy::Overwrite, Policy::Ask, Policy::Custom] {
            assert_eq!(settle(policy, None, Some(&mine), None), Settlement::Theirs);
        }
    }

    #[test]
    fn the_other_policies_take_one_side() {
        let (mine, theirs) = (state(&[("a", 2)]), state(&[("a", 3)]));
        assert_eq!(settle(Policy::Client, None, Some(&mine), Some(&theirs)), Settlement::Put(mine.clone()));
        assert_eq!(settle(Policy::Client, None, None, Some(&theirs)), Settlement::Delete);
        assert_eq!(settle(Policy::Server, None, Some(&mine), Some(&theirs)), Settlement::Theirs);
    }
}
