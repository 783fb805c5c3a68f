//! The log as a stream: a session that follows reads the state records that come after those it has.
//!
//! A checkpoint takes the place of the log before it, so the record that the present one begins with is read along: where
//! it is gone, the whole state is read anew. So is the newest record that it has: where a device fails and has written
//! nevertheless, the leader writes another one under the same number.

use super::delta::{Delta, StateRecord};
use super::open::{Opened, open};
use super::writer::Layout;
use crate::crypto::{SealId, StoreKeys};
use crate::error::Result;
use crate::memory::{DocumentAtRest, Memory};
use crate::model::schema::Schema;
use crate::store::{RecordKey, Store, Table};

/// Records read at a look.
const LOOK_RECORDS: u64 = 16;

/// A record of the log as it was read.
pub struct LogRecord {
    /// What it says.
    pub record: StateRecord,
    /// Which writing of it.
    seal: Option<SealId>,
}

/// What a look has found.
pub enum Tail {
    /// Nothing new.
    Same,
    /// The log goes on with these.
    On(Vec<LogRecord>),
    /// There is no way from here: the whole state must be read.
    Anew,
}

/// What reads the whole state anew, apart from the machine that wants it.
pub struct Reader {
    keys: StoreKeys,
    schema: Schema,
    session: String,
    leads: bool,
}

impl Reader {
    /// Reads it, as an opening does; for whoever is to lead, beside the mark: nobody else writes any more.
    pub async fn read<S: Store>(self, store: &S) -> Result<Opened> {
        let mark = if self.leads { store.witness().await?.mark } else { None };
        open(store, self.keys, self.schema, self.session, mark.as_deref()).await
    }
}

impl Layout {
    /// What reads this store anew; `leads` where it is for a session that is about to lead.
    pub fn reader(&self, schema: Schema, leads: bool) -> Reader {
        Reader { keys: self.keys.clone(), schema, session: self.session.clone(), leads }
    }

    /// The state records to look at: the one that the checkpoint begins with, the newest, and those that come next.
    pub fn look_keys(&self) -> Vec<RecordKey> {
        let next = self.next_record..self.next_record + LOOK_RECORDS;
        let held = [self.base, self.next_record.saturating_sub(1)];
        held.into_iter().chain(next).map(|n| self.keys.record_key(Table::State, n)).collect()
    }

    /// How far it has come: a look that finds nothing new leaves it.
    pub fn place_in_log(&self) -> (u64, u64) {
        (self.base, self.next_record)
    }

    /// Whether a look at these keys has found the state as it is known here, a store with none included.
    pub fn is_as_known(&self, found: &[Option<Vec<u8>>]) -> bool {
        let is_empty = self.newest.is_none() && found.iter().all(Option::is_none);
        is_empty || matches!(self.looked(found), Tail::Same)
    }

    /// Reads what a look at these keys has found.
    pub fn looked(&self, found: &[Option<Vec<u8>>]) -> Tail {
        let [Some(_), Some(newest), next @ ..] = found else { return Tail::Anew };
        if self.newest != SealId::of(newest) {
            return Tail::Anew;
        }
        let mut records = Vec::new();
        for (number, sealed) in (self.next_record..).zip(next) {
            let Some(sealed) = sealed else { break };
            match super::open::read(&self.keys, self.keys.record_key(Table::State, number), sealed) {
                Ok(record) if (record.base, record.chunks) == (self.base, self.chunks) => {
                    records.push(LogRecord { record, seal: SealId::of(sealed) });
                }
                _ => return Tail::Anew,
            }
        }
        if records.is_empty() { Tail::Same } else { Tail::On(records) }
    }

    /// Brings the memory to the state after a record.
    pub fn follow(&mut self, memory: &mut Memory, LogRecord { record, seal }: LogRecord) {
        self.newest = seal;
        self.next_record = record.number + 1;
        self.journal = record.journal;
        let Delta { head, collections, documents, links } = record.delta;
        if let Some(head) = head {
            memory.follow_epoch(head.epoch, head.era);
            self.session = head.session;
        }
        for (def, state) in collections {
            memory.follow_collection(&def, state.map(|state| (state.v, state.ready, state.load)));
        }
        for (class, states) in documents {
            let Some(position) = memory.schema().position(&class) else { continue };
            for (pk, state) in states {
                memory.follow_document((position as u16, pk), state.map(DocumentAtRest::from));
            }
        }
        for (def, states) in links {
            for state in states {
                memory.follow_link(&def, &state.0, state.member(), state.mark());
            }
        }
    }

    /// Goes on from the whole state as it was read anew.
    pub fn go_on_from(&mut self, mut opened: Layout) {
        if opened.header.is_empty() {
            opened.header = std::mem::take(&mut self.header);
        }
        opened.limits = self.limits;
        opened.is_beside_due |= self.is_beside_due;
        *self = opened;
    }
}
