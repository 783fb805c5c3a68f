//! The names of stored records. They are below `crypto`, because the seal of a record is bound to its name
//! (R14), and a store takes sealed records only.

/// The name of a record: the output of a keyed pseudo-random function (R15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordKey(pub [u8; 16]);

/// The tables of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// The records that say which documents and collections exist. Read whole, at an opening.
    State,
    /// Documents' data. Read on demand.
    Pages,
    /// Operations and actions (R10). Read whole.
    Journal,
    /// Requests of followers to the leader. Only shared devices have this table.
    Inbox,
}

impl Table {
    /// The tables of every store. A shared store also has the inbox.
    pub const ALL: [Table; 3] = [Table::State, Table::Pages, Table::Journal];

    /// The tables of a shared store, in the order of their discriminants.
    pub const SHARED: [Table; 4] = [Table::State, Table::Pages, Table::Journal, Table::Inbox];

    /// The table's name in the browser's database: one letter, so that nothing of the application shows
    /// (R13).
    pub fn name(self) -> &'static str {
        match self {
            Table::State => "s",
            Table::Pages => "p",
            Table::Journal => "j",
            Table::Inbox => "i",
        }
    }
}
