//! A batch: everything that one step changes at rest, as one value (R7).

/// The name of a record: the output of a keyed pseudo-random function (R15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(pub [u8; 16]);

/// The tables of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// What is needed to open: which documents and collections there are. Read whole.
    State,
    /// Documents' data. Read on demand.
    Pages,
    /// Operations and actions (R10). Read whole.
    Journal,
    /// What other sessions of the same store want done by the one that leads: only where a device is shared.
    Inbox,
}

impl Table {
    /// The tables of every store; one that is shared has the inbox as well.
    pub const ALL: [Table; 3] = [Table::State, Table::Pages, Table::Journal];

    /// The tables of a store that is shared, in the order of their discriminants.
    pub const SHARED: [Table; 4] = [Table::State, Table::Pages, Table::Journal, Table::Inbox];

    /// Its name in the browser's database: one letter, so that nothing of the application shows (R13).
    pub fn name(self) -> &'static str {
        match self {
            Table::State => "s",
            Table::Pages => "p",
            Table::Journal => "j",
            Table::Inbox => "i",
        }
    }
}

/// How far a batch must have gone when its commit resolves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Handed to the operating system: what the server can send again.
    #[default]
    Relaxed,
    /// On the disk: what only this device knows.
    Strict,
}

/// Puts and deletes that are written together or not at all. Sealed before a transaction opens.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Everything that is in the store goes first: the batch is all there is to be. What the inbox holds stays, and so do
    /// generations: others have written it.
    pub clear: bool,
    /// A new header, in clear. A copy goes beside the store.
    pub header: Option<Vec<u8>>,
    /// The sealed mark that goes beside the store, once all the rest is written; no error where it cannot be. Without it
    /// and without a header nothing is written there.
    pub mark: Option<Vec<u8>>,
    /// The copy of the journal beside the store is not what the store held before this batch: it is made anew, of all
    /// that the store holds after it, as where it is cleared. Otherwise it takes what the batch does to the journal.
    pub recopy: bool,
    /// Records to write.
    pub puts: Vec<(Table, RecordKey, Vec<u8>)>,
    /// Records to delete; one that is not there is no error.
    pub deletes: Vec<(Table, RecordKey)>,
    /// How far it must have gone.
    pub durability: Durability,
    /// What it puts into the inbox goes beside the store too, and there first: whoever leads takes it from either.
    pub hands_in: bool,
    /// The generation of its writer: where a later one has begun, nothing is written. `None` writes whoever leads.
    pub generation: Option<u64>,
}

impl Batch {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        !self.clear && self.header.is_none() && self.puts.is_empty() && self.deletes.is_empty()
    }

    /// Bytes of the records to write.
    pub fn bytes(&self) -> usize {
        self.puts.iter().map(|(_, _, bytes)| bytes.len()).sum()
    }
}
