//! A store whose handle died, opened again under an open session: whether it is what it was.

use super::pages::Pages;
use super::writer::Layout;
use crate::crypto::Header;
use crate::error::Result;
use crate::store::{RecordKey, Store, Table};

/// What must be there for the store to be as it was left.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The newest state record; `None` where no checkpoint of this session stands.
    pub state: Option<RecordKey>,
    /// The records of operations that are not over.
    pub journal: Vec<RecordKey>,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Reopened {
    /// The header.
    pub header: Option<Vec<u8>>,
    /// Whether all that was expected is there.
    pub is_whole: bool,
}

/// What is to be done with a store that was opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is as it was left.
    Same,
    /// It was wiped, or has lost records: what the session holds is written into it anew.
    Anew,
    /// Somebody else made another store in its place.
    Foreign,
}

/// Opens the store again, and looks for what is expected. Errors: those of [`Store::reopen`] and of reading.
pub async fn reopen<S: Store>(store: &S, expected: &Expected) -> Result<Reopened> {
    store.reopen().await?;
    let header = store.header().await?;
    let state = store.get(Table::State, expected.state.as_slice()).await?;
    // Where nothing can be expected, as after damage, nothing is known of what is there.
    let mut is_whole = !state.is_empty() && state.iter().all(Option::is_some);
    for keys in expected.journal.chunks(256) {
        is_whole &= store.get(Table::Journal, keys).await?.iter().all(Option::is_some);
    }
    Ok(Reopened { header, is_whole })
}

impl Layout {
    /// The header as it rests, to be written again where it is gone.
    pub fn set_header(&mut self, header: Vec<u8>) {
        self.header = header;
    }

    /// What must be found where the store is opened again; `journal` are the numbers of records of operations.
    pub fn expected(&self, journal: impl Iterator<Item = u64>) -> Expected {
        let newest = self.next_record.checked_sub(1).filter(|newest| *newest >= self.base && self.chunks > 0);
        Expected {
            state: newest.map(|newest| self.keys.record_key(Table::State, newest)),
            journal: journal.map(|number| self.journal_key(number)).collect(),
        }
    }

    /// What to do with what was found.
    pub fn judge(&self, found: &Reopened) -> Verdict {
        let id = |bytes: &[u8]| Header::from_bytes(bytes).ok().map(|header| *header.store_id());
        match found.header.as_deref() {
            // A wiping that the last batch was to end may have been written or not: it is done again.
            Some(header) if id(header) == id(&self.header) => {
                if found.is_whole && !self.is_anew {
                    Verdict::Same
                } else {
                    Verdict::Anew
                }
            }
            // A damaged header is as good as none: the records are bound to the one that is held.
            Some(header) if id(header).is_some() => Verdict::Foreign,
            _ => Verdict::Anew,
        }
    }

    /// Nothing rests on the device any more: the next batch clears it and writes the header and a whole checkpoint, in
    /// one transaction. Numbers go on: none is used twice.
    pub(crate) fn begin_anew(&mut self) {
        self.is_anew = true;
        self.chunks = 0;
        self.base = self.next_record;
        self.log_bytes = 0;
        self.checkpoint_bytes = 0;
        self.pages = Pages::starting_at(self.pages.next);
        // What is to be written of the journal comes with its own count.
        (self.journal.records, self.journal.pending) = (0, 0);
        self.strays.clear();
        self.restored.clear();
        self.ghosts.clear();
    }
}
