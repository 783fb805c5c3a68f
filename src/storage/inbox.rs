//! The inbox at rest: what sessions that follow ask of the one that leads, each request sealed under a random name, so
//! that a write is durable whether or not anybody leads.

use super::writer::Layout;
use crate::crypto::Random;
use crate::error::Result;
use crate::journal::Request;
use crate::model::SortedSet;
use crate::store::{Batch, Durability, RecordKey, Snapshot, Store, Table};

/// Requests by their names, sealed.
pub type Requests = Vec<(RecordKey, Vec<u8>)>;

/// What was handed in, `found` of it in the store, with what only the copy beside the store has: the store was put back or
/// lost since, or whoever handed it in ended before it came there.
pub async fn with_copies<S: Store>(store: &S, mut found: Requests) -> Result<Requests> {
    let there: SortedSet<RecordKey> = found.iter().map(|(key, _)| *key).collect();
    let copies = store.copies(Table::Inbox).await?.into_iter();
    found.extend(copies.filter(|(key, _)| !there.contains(key)));
    Ok(found)
}

/// The numbers of the two records of the inbox that have a name of their own: nobody takes them out.
const BEAT: u64 = 0;
const SIGNAL: u64 = 1;

/// A store at one moment, and its inbox with what only the copy has.
pub(super) async fn snapshot_with_copies<S: Store>(store: &S) -> Result<Snapshot> {
    let mut found = store.snapshot().await?;
    found.inbox = with_copies(store, found.inbox).await?;
    Ok(found)
}

impl Layout {
    /// The batch that hands requests in. It is of no generation: whoever leads takes them.
    pub fn hand_in(&self, requests: &[(RecordKey, Request)], random: &mut dyn Random) -> Result<Batch> {
        let mut batch = Batch { durability: Durability::Strict, hands_in: true, ..Batch::default() };
        for (key, request) in requests {
            let sealed = self.keys.seal(Table::Inbox, *key, &request.encode()?, random)?;
            batch.puts.push((Table::Inbox, *key, sealed.into_bytes()));
        }
        Ok(batch)
    }

    /// Opens a request found on the device.
    pub fn open_request(&self, key: RecordKey, sealed: &[u8]) -> Result<Request> {
        Request::decode(&self.keys.open(Table::Inbox, key, sealed)?)
    }

    /// The record that the leader writes while it is there, where sessions cannot hear each other.
    pub fn beat_key(&self) -> RecordKey {
        self.keys.record_key(Table::Inbox, BEAT)
    }

    /// The record of what was last said to all.
    pub fn signal_key(&self) -> RecordKey {
        self.keys.record_key(Table::Inbox, SIGNAL)
    }

    /// Whether a record of the inbox is a request to the leader.
    pub fn is_request(&self, key: &RecordKey) -> bool {
        *key != self.beat_key() && *key != self.signal_key()
    }
}
