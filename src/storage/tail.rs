//! The log as a stream: a follower reads the state records after those that it has.
//!
//! A checkpoint replaces the log before it. The follower therefore also reads the first record of the
//! checkpoint that it knows: if that record is gone, it reads the whole state again. It also reads the newest
//! record that it has: if a device reports a failure but has written, the leader writes another record under
//! the same number.

use super::delta::StateRecord;
use super::layout::Layout;
use super::open::{Opened, open};
use crate::crypto::{SealId, StoreKeys};
use crate::error::Result;
use crate::memory::{Memory, Origin};
use crate::model::schema::Schema;
use crate::store::{RecordKey, Store, Table};

/// Records read in one poll.
const TAIL_RECORDS: u64 = 16;

/// A record of the log.
pub struct LogRecord {
    /// Its content.
    pub record: StateRecord,
    /// The id of its seal, which tells two writes of one number apart.
    seal: Option<SealId>,
}

/// The result of a poll.
pub enum Tail {
    /// Nothing new.
    Same,
    /// The log continues with these.
    On(Vec<LogRecord>),
    /// The log does not continue from here: the follower must read the whole state.
    Reload,
}

/// Reads the whole state from scratch, outside of the machine that needs it.
pub struct StateReader {
    keys: StoreKeys,
    schema: Schema,
    session: String,
    leads: bool,
}

impl StateReader {
    /// Reads it as an opening does. A future leader also reads the mark: no other session writes any more.
    pub async fn read<S: Store>(self, store: &S) -> Result<Opened> {
        let mark = if self.leads { store.backup_header().await?.mark } else { None };
        open(store, self.keys, self.schema, self.session, mark.as_deref()).await
    }
}

impl Layout {
    /// A reader of this store; `leads` if the session is about to lead.
    pub fn reader(&self, schema: Schema, leads: bool) -> StateReader {
        StateReader { keys: self.keys.clone(), schema, session: self.session.clone(), leads }
    }

    /// The state records to poll: the first of the checkpoint, the newest, and those after it.
    pub fn look_keys(&self) -> Vec<RecordKey> {
        let next = self.next_record..self.next_record + TAIL_RECORDS;
        let held = [self.base, self.next_record.saturating_sub(1)];
        held.into_iter().chain(next).map(|n| self.keys.record_key(Table::State, n)).collect()
    }

    /// Whether a poll of these keys found the state that this layout knows, or no state if it knows none.
    pub fn is_as_known(&self, found: &[Option<Vec<u8>>]) -> bool {
        let is_empty = self.newest.is_none() && found.iter().all(Option::is_none);
        is_empty || matches!(self.read_tail(found), Tail::Same)
    }

    /// Reads the records that a poll of these keys found.
    pub fn read_tail(&self, found: &[Option<Vec<u8>>]) -> Tail {
        let [Some(_), Some(newest), next @ ..] = found else { return Tail::Reload };
        if self.newest != SealId::of(newest) {
            return Tail::Reload;
        }
        let mut records = Vec::new();
        for (number, sealed) in (self.next_record..).zip(next) {
            let Some(sealed) = sealed else { break };
            match super::open::read(&self.keys, self.keys.record_key(Table::State, number), sealed) {
                Ok(record) if (record.base, record.chunks) == (self.base, self.chunks) => {
                    records.push(LogRecord { record, seal: SealId::of(sealed) });
                }
                _ => return Tail::Reload,
            }
        }
        if records.is_empty() { Tail::Same } else { Tail::On(records) }
    }

    /// Applies a record to the memory.
    pub fn follow(&mut self, memory: &mut Memory, LogRecord { record, seal }: LogRecord) {
        self.newest = seal;
        self.next_record = record.number + 1;
        self.journal = record.journal;
        let (head, mut changes) = record.delta.split();
        if let Some(head) = head {
            changes.epoch = Some((head.epoch, head.era));
            self.session = head.session;
        }
        memory.apply_stored(changes, Origin::Following);
    }

    /// Continues from the whole state that was read from scratch.
    pub fn go_on_from(&mut self, mut opened: Layout) {
        if opened.header.is_empty() {
            opened.header = std::mem::take(&mut self.header);
        }
        opened.limits = self.limits;
        opened.is_backup_due |= self.is_backup_due;
        *self = opened;
    }
}
