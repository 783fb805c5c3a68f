//! Documents that the server reported as deleted while the session is open: no patch of them is possible.

use super::document::DocKey;
use super::stamp::Stamp;
use crate::limits::TOMBSTONES_MAX;
use crate::model::QuickMap;

/// The reported deletions, each with its version. They are not stored: a session that opens again leaves the
/// decision to the server until it receives them again.
#[derive(Debug, Default)]
pub(super) struct Tombstones(QuickMap<DocKey, Stamp>);

impl Tombstones {
    /// The document was deleted at that version.
    pub fn bury(&mut self, key: &DocKey, at: Stamp) {
        if self.0.len() >= TOMBSTONES_MAX && !self.0.contains_key(key) {
            // Forgetting only costs the rejection at the call: the server refuses such an operation anyway.
            self.0.clear();
        }
        let buried = self.0.entry(key.clone()).or_insert(at);
        *buried = (*buried).max(at);
    }

    /// The document exists at that version.
    pub fn raise(&mut self, key: &DocKey, at: Stamp) {
        if self.0.get(key).is_some_and(|buried| *buried <= at) {
            self.0.remove(key);
        }
    }

    /// In another epoch, the deleted documents may exist again.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// Whether the server's last report of the document was its deletion.
    pub fn holds(&self, key: &DocKey) -> bool {
        self.0.contains_key(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Pk;

    fn key(number: usize) -> DocKey {
        (0, Pk::from_key(&[&number.to_string()]).unwrap())
    }

    #[test]
    fn the_later_of_a_deletion_and_a_write_counts() {
        let mut tombstones = Tombstones::default();
        for (buried, raised, holds) in [(5, 4, true), (5, 5, false), (5, 6, false)] {
            for at in [buried - 2, buried, buried - 2] {
                tombstones.bury(&key(1), Stamp::new(0, at));
            }
            tombstones.raise(&key(1), Stamp::new(0, raised));
            assert_eq!(tombstones.holds(&key(1)), holds, "deleted at {buried}, written at {raised}");
            assert!(!tombstones.holds(&key(2)));
        }
        tombstones.bury(&key(1), Stamp::new(0, 9));
        tombstones.forget();
        assert!(!tombstones.holds(&key(1)), "of another epoch");
    }

    #[test]
    fn the_bound_forgets_all_but_what_is_there_already() {
        let mut tombstones = Tombstones::default();
        for number in 0..TOMBSTONES_MAX {
            tombstones.bury(&key(number), Stamp::new(0, 1));
        }
        tombstones.bury(&key(3), Stamp::new(0, 2));
        assert!(tombstones.holds(&key(0)), "one that is known needs no room");
        tombstones.bury(&key(TOMBSTONES_MAX), Stamp::new(0, 1));
        assert!(!tombstones.holds(&key(0)) && tombstones.holds(&key(TOMBSTONES_MAX)));
    }
}
