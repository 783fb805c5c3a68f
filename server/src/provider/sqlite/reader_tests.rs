//! Connections that are kept for the next snapshots.

use super::*;
use crate::engine::first_state;

#[test]
fn read_connections_are_kept_for_the_next_snapshots_up_to_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let provider = SqliteProvider::open(&folder.path().join("db"), &first_state(1).unwrap()).unwrap();
    let kept = || lock(&provider.readers).len();
    let before = kept();
    drop(provider.read().unwrap());
    assert_eq!(kept(), before.max(1));
    let many: Vec<_> = (0..IDLE_READERS_MAX + 2).map(|_| provider.read().unwrap()).collect();
    assert_eq!(kept(), 0, "each snapshot has its own");
    drop(many);
    assert_eq!(kept(), IDLE_READERS_MAX);
}
