//! Recovery: opens a store again after its handle died under an open session, and checks that it is the same.

use super::layout::Layout;
use super::pages::Pages;
use crate::crypto::Header;
use crate::error::Result;
use crate::store::{RecordKey, Store, Table};

/// The records that a store must have to count as unchanged.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The newest state record; `None` if there is no checkpoint of this session.
    pub state: Option<RecordKey>,
    /// The records of operations that are not over.
    pub journal: Vec<RecordKey>,
    /// The state record of the batch that failed last. If it is there, that batch was written: it may have replaced all
    /// other records.
    pub failed: Option<RecordKey>,
}

/// The store as it was found.
#[derive(Clone, Debug)]
pub struct Reopened {
    /// The header.
    pub header: Option<Vec<u8>>,
    /// Whether all expected records are there.
    pub is_whole: bool,
}

/// The judgement of a store that was opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is unchanged.
    Same,
    /// It was wiped, or has lost records: the session writes its own content into it again.
    Again,
    /// Another session made another store in its place.
    Foreign,
}

/// Opens the store again, and looks for the expected records. Errors: those of [`Store::reopen`] and of
/// reading.
pub async fn reopen<S: Store>(store: &S, expected: &Expected) -> Result<Reopened> {
    store.reopen().await?;
    let header = store.header().await?;
    if store.get(Table::State, expected.failed.as_slice()).await?.iter().any(Option::is_some) {
        return Ok(Reopened { header, is_whole: true });
    }
    let state = store.get(Table::State, expected.state.as_slice()).await?;
    // If no state record is expected, as after damage, nothing shows that the store is whole.
    let mut is_whole = !state.is_empty() && state.iter().all(Option::is_some);
    for keys in expected.journal.chunks(256) {
        is_whole &= store.get(Table::Journal, keys).await?.iter().all(Option::is_some);
    }
    Ok(Reopened { header, is_whole })
}

impl Layout {
    /// Sets the stored header: a batch writes it again if it is gone.
    pub fn set_header(&mut self, header: Vec<u8>) {
        self.header = header;
    }

    /// The records that must be there when the store is opened again; `journal` holds the numbers of
    /// operations' records.
    pub fn expected(&self, journal: impl Iterator<Item = u64>) -> Expected {
        // Without a checkpoint, the base is the next number.
        let newest = (self.base..self.next_record).next_back();
        let failed = self.keys.record_key(Table::State, self.next_record);
        Expected {
            state: newest.map(|newest| self.keys.record_key(Table::State, newest)),
            journal: journal.map(|number| self.journal_key(number)).collect(),
            failed: self.maybe_written.contains(&(Table::State, failed)).then_some(failed),
        }
    }

    /// Judges a store that was opened again.
    pub fn judge(&self, found: &Reopened) -> Verdict {
        let id = |bytes: &[u8]| Header::from_bytes(bytes).ok().map(|header| *header.store_id());
        match found.header.as_deref() {
            // If the last batch was to restore a wiped store, nobody knows whether it was written. No state record
            // is expected then, so the store is not whole, and is written again.
            Some(header) if id(header) == id(&self.header) => {
                if found.is_whole {
                    Verdict::Same
                } else {
                    Verdict::Again
                }
            }
            // A damaged header counts as none: the records are bound to the header in memory.
            Some(header) if id(header).is_some() => Verdict::Foreign,
            _ => Verdict::Again,
        }
    }

    /// Nothing is stored any more. The next batch clears the store and writes the header and a whole
    /// checkpoint, in one transaction. Numbers continue: none is used twice.
    pub(crate) fn begin_again(&mut self) {
        self.is_rewrite_due = true;
        self.chunks = 0;
        self.base = self.next_record;
        self.pages = Pages::starting_at(self.pages.next);
        // The journal records of the next batch come with their own count.
        (self.journal.records, self.journal.pending) = (0, 0);
        self.restored.clear();
    }
}
