//! Versions that can be compared across several epochs of a server's database.

use crate::codec::record;
use crate::model::Version;

/// A version in an era. Eras number the server's epochs in the order in which this store met them, and they
/// compare first.
///
/// A newer epoch replaces an older one's documents and links at any `v` (R8). The same comparisons keep a
/// lower version from replacing a higher one (R1). So every rule is written once, on stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp {
    /// The number of the epoch, in the order in which this store met them.
    pub era: u32,
    /// The version within it.
    pub v: Version,
}

record!(Stamp { era, v });

impl Stamp {
    /// The stamp of that version in that era.
    pub fn new(era: u32, v: Version) -> Self {
        Stamp { era, v }
    }
}
