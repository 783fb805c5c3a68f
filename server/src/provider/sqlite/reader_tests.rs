//! Connections that are kept for the next snapshots.

use escale::model::Epoch;

use super::*;
use crate::provider::Site;

fn first() -> Site {
    let epoch = Epoch::new(1, "first").unwrap();
    let (last_epoch, cursor_key) = (epoch.clone(), vec![0; 32]);
    let (schema, seal_check) = (String::new(), Vec::new());
    Site {
        epoch,
        last_epoch,
        generation: 0,
        commits: 0,
        told: 0,
        cursor_key,
        schema,
        seal_check,
        server: None,
    }
}

#[test]
fn read_connections_are_kept_for_the_next_snapshots_up_to_a_bound() {
    let folder = tempfile::tempdir().unwrap();
    let provider = SqliteProvider::open(&folder.path().join("db"), &first()).unwrap();
    let kept = || lock(&provider.readers).len();
    let before = kept();
    drop(provider.read().unwrap());
    assert_eq!(kept(), before.max(1));
    let many: Vec<_> = (0..IDLE_READERS_MAX + 2).map(|_| provider.read().unwrap()).collect();
    assert_eq!(kept(), 0, "each snapshot has its own");
    drop(many);
    assert_eq!(kept(), IDLE_READERS_MAX);
}
