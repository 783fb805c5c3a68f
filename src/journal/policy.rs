//! Conflicts: what becomes of an operation whose document is of another version than it expected.

use std::collections::BTreeMap;

use crate::model::Value;

/// How a class settles its conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Policy {
    /// The operation is parked in `refused`: the application decides.
    #[default]
    Ask,
    /// The server's document stays; the operation is given up.
    Server,
    /// The operation's outcome replaces the server's document.
    Client,
    /// Property by property: what the operation changed is its own, the rest is the server's.
    Merge,
    /// A function of the application decides from base, mine and theirs.
    Custom,
}

impl Policy {
    /// The policy of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "ask" => Policy::Ask,
            "server" => Policy::Server,
            "client" => Policy::Client,
            "merge" => Policy::Merge,
            "custom" => Policy::Custom,
            _ => return None,
        })
    }
}

/// A document's properties.
pub type State = BTreeMap<String, Value>;

/// What a policy makes of a conflict.
#[derive(Clone, Debug, PartialEq)]
pub enum Settlement {
    /// The document shall be this.
    Put(State),
    /// The document shall be deleted.
    Delete,
    /// The server's stays.
    Theirs,
}

/// Settles a conflict by one of the policies that need nobody; absent documents are deleted ones.
pub fn settle(
    policy: Policy,
    base: Option<&State>,
    mine: Option<&State>,
    theirs: Option<&State>,
) -> Settlement {
    let put =
        |state: Option<&State>| state.map_or(Settlement::Delete, |state| Settlement::Put(state.clone()));
    match policy {
        Policy::Server | Policy::Ask | Policy::Custom => Settlement::Theirs,
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
    fn the_other_policies_take_one_side() {
        let (mine, theirs) = (state(&[("a", 2)]), state(&[("a", 3)]));
        assert_eq!(settle(Policy::Client, None, Some(&mine), Some(&theirs)), Settlement::Put(mine.clone()));
        assert_eq!(settle(Policy::Client, None, None, Some(&theirs)), Settlement::Delete);
        assert_eq!(settle(Policy::Server, None, Some(&mine), Some(&theirs)), Settlement::Theirs);
    }
}
