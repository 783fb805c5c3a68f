//! Positions in the feed of recent writes: the commits that a reader of it knows.

/// The commits that a reader of the feed has seen. It belongs to the instance that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen(pub(super) Position);

/// The form of a position, which depends on the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// The number of the last row. Numbers ascend in the order of the commits.
    Number(u64),
    /// A snapshot of the database, as its own text.
    #[cfg(feature = "postgres")]
    Snapshot {
        /// The connection that read it.
        connection: u64,
        text: String,
        /// The time of the look.
        at: std::time::Instant,
    },
}

/// The end of a look at the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Where the next look continues.
    pub seen: Seen,
    /// Whether the look met every row since the last one. If not, some were removed before they were read.
    pub is_whole: bool,
}

impl Seen {
    /// The number of the last row; 0 for a position of another kind of database.
    pub(super) fn number(&self) -> u64 {
        match &self.0 {
            Position::Number(number) => *number,
            #[cfg(feature = "postgres")]
            Position::Snapshot { .. } => 0,
        }
    }

    /// The connection that read the snapshot, its text, and the time of the look; none for another database.
    #[cfg(feature = "postgres")]
    pub(super) fn snapshot(&self) -> Option<(u64, &str, std::time::Instant)> {
        match &self.0 {
            Position::Snapshot { connection, text, at } => Some((*connection, text, *at)),
            Position::Number(_) => None,
        }
    }
}

impl Changed {
    /// The end of a look at a feed whose rows have numbers, of which `oldest` is the first one kept.
    pub(super) fn at_number(last: u64, since: Option<u64>, oldest: u64) -> Self {
        let is_whole = since.is_none_or(|since| oldest <= since + 1);
        Changed { seen: Seen(Position::Number(last)), is_whole }
    }
}
