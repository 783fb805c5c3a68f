//! The documents, writes and readings that the tests of the suite share.

use std::collections::BTreeMap;
use std::time::Duration;

use escale::model::Def;
use smol_str::SmolStr;

use crate::provider::{
    Change, ChangeState, Changed, Document, Edit, FeedRow, Link, Place, Provider, Seen, Shown, Snapshot,
    Transaction,
};

pub(super) const WAIT: Duration = Duration::from_secs(5);
pub(super) const HASH: &str = "AAAAAAAAAAAAAAAAAAAAAA";

pub(super) fn at(pk: &str) -> Place<'_> {
    Place { org: "o", class: "C", pk }
}

pub(super) fn document(v: u64) -> Document {
    let links = BTreeMap::from([(SmolStr::new("c"), vec![SmolStr::new(HASH)])]);
    let shown = Shown { links, entries: Vec::new() };
    Document { v, deleted: false, max_life: None, ttl: None, shown, data: vec![0, 1, 255] }
}

pub(super) fn row(pk: &str, v: u64) -> FeedRow {
    let links = document(0).shown.links;
    FeedRow { org: "o".into(), class: "C".into(), pk: pk.into(), v, links }
}

pub(super) fn def(text: &str) -> Def {
    text.parse().expect("a def")
}

pub(super) fn in_collection() -> Def {
    def(&format!("C/c@{HASH}"))
}

pub(super) fn link(v: u64, state: ChangeState) -> Link<'static> {
    Link { collection: "c", hash: HASH, v, state, max_life: None }
}

pub(super) fn write<P: Provider>(provider: &P, run: impl FnOnce(&mut dyn Transaction)) {
    write_to(provider, "o", run);
}

pub(super) fn write_to<P: Provider>(provider: &P, org: &str, run: impl FnOnce(&mut dyn Transaction)) -> u64 {
    let mut tx = provider.write(org, WAIT).expect("a write");
    run(tx.as_mut());
    tx.commit().expect("a commit")
}

/// A document and its membership.
pub(super) fn put(tx: &mut dyn Edit, pk: &str, v: u64) {
    tx.put_document(at(pk), &document(v)).expect("put_document");
    tx.put_link(at(pk), &link(v, ChangeState::Alive)).expect("put_link");
}

pub(super) fn changes(
    snapshot: &dyn Snapshot,
    def: &Def,
    after: (u64, &str),
    gone_from: u64,
) -> Vec<(String, u64, ChangeState)> {
    let mut seen = Vec::new();
    let mut visit = |change: Change| {
        assert_eq!(change.data.is_empty(), change.state == ChangeState::Left, "no data of those that left");
        seen.push((change.pk, change.v, change.state));
        Ok(true)
    };
    snapshot.changes("o", def, after, gone_from, &mut visit).expect("changes");
    seen
}

/// The pks of the feed's rows since that position, and the position after them.
pub(super) fn fed<P: Provider>(provider: &P, since: &Seen) -> (Vec<String>, Seen) {
    let mut pks = Vec::new();
    let mut visit = |row: FeedRow| {
        pks.push(row.pk);
        Ok(())
    };
    let Changed { seen, is_whole } = provider.changed(Some(since), &mut visit).expect("changed");
    assert!(is_whole, "nothing was removed");
    (pks, seen)
}

/// The present end of the feed.
pub(super) fn end_of_feed<P: Provider>(provider: &P) -> Seen {
    provider.changed(None, &mut |_| panic!("a row without a position")).expect("changed").seen
}
