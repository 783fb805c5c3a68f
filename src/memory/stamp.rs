//! Versions across the lives of a server's database.

use serde::{Deserialize, Serialize};

use crate::model::Version;

/// A version in an era: eras number the server's epochs as this store met them, and compare first.
///
/// So a newer epoch replaces an older one's documents and links at any `v` (R8) by the same comparisons that keep a
/// lower version from replacing a higher one (R1): every rule is written once, on stamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Which of the epochs that this store has met, in order.
    pub era: u32,
    /// The version within it.
    pub v: Version,
}

impl Stamp {
    /// That version in that era.
    pub fn new(era: u32, v: Version) -> Self {
        Stamp { era, v }
    }
}
