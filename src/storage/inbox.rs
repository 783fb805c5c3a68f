//! The inbox in storage: the commands of followers to the leader. Each is sealed under a random name, so that
//! a write is durable whether or not any session leads.

use super::layout::Layout;
use crate::crypto::Random;
use crate::error::Result;
use crate::journal::Request;
use crate::model::SortedSet;
use crate::store::{Batch, Durability, RecordKey, Snapshot, Store, Table};

/// Sealed commands by their names.
pub type Requests = Vec<(RecordKey, Vec<u8>)>;

/// The commands `found` in the store, and those that only the copy in the backup database has. The store was
/// put back or lost since then, or the follower ended before it wrote the command there.
pub async fn with_copies<S: Store>(store: &S, mut found: Requests) -> Result<Requests> {
    let there: SortedSet<RecordKey> = found.iter().map(|(key, _)| *key).collect();
    let copies = store.copies(Table::Inbox).await?.into_iter();
    let others = copies.filter(|(key, _)| !there.contains(key));
    found.extend(others.map(|(key, sealed)| (key, sealed.into_bytes())));
    Ok(found)
}

/// The numbers of the two records of the inbox with fixed names: no leader takes them out.
const BEAT: u64 = 0;
const SIGNAL: u64 = 1;

/// A store at one point in time; its inbox includes the commands that only the copy has.
pub(super) async fn snapshot_with_copies<S: Store>(store: &S) -> Result<Snapshot> {
    let mut found = store.snapshot().await?;
    let inbox = &mut found.records[Table::Inbox];
    *inbox = with_copies(store, std::mem::take(inbox)).await?;
    Ok(found)
}

impl Layout {
    /// The batch that stores commands. It has no generation: any leader takes them.
    pub fn hand_in(&self, requests: &[(RecordKey, Request)], random: &mut dyn Random) -> Result<Batch> {
        let mut batch = Batch { durability: Durability::Strict, hands_in: true, ..Batch::default() };
        for (key, request) in requests {
            let sealed = self.keys.seal(Table::Inbox, *key, &request.encode()?, random)?;
            batch.puts.push((Table::Inbox, *key, sealed));
        }
        Ok(batch)
    }

    /// Opens a stored command.
    pub fn open_request(&self, key: RecordKey, sealed: &[u8]) -> Result<Request> {
        Request::decode(&self.keys.open(Table::Inbox, key, sealed)?)
    }

    /// The key of the leader's sign of life, for sessions that cannot hear each other.
    pub fn beat_key(&self) -> RecordKey {
        self.keys.record_key(Table::Inbox, BEAT)
    }

    /// The key of the last message to all sessions.
    pub fn signal_key(&self) -> RecordKey {
        self.keys.record_key(Table::Inbox, SIGNAL)
    }

    /// Whether a record of the inbox is a command to the leader.
    pub fn is_request(&self, key: &RecordKey) -> bool {
        *key != self.beat_key() && *key != self.signal_key()
    }
}
