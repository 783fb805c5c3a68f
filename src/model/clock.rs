//! Versions of documents, and epochs of a server's database.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use smol_str::SmolStr;

use crate::error::{Code, Result, fail};
use crate::limits::{TEXT_CHARS_MAX, VERSION_MAX};

/// Milliseconds since 1970 UTC, below 2^53, of the operation that wrote a document (clock `time`). Zero means
/// "never loaded".
pub type Version = u64;

/// Rejects a version that JavaScript could not represent exactly.
fn check_version(v: u64) -> Result<Version> {
    if v <= VERSION_MAX { Ok(v) } else { fail(Code::Malformed, "a version must be below 2^53") }
}

/// The epoch of a server's database, `[ms of its creation, random]`: the later one wins (R8).
///
/// The default epoch is older than any that a server can make.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    ms: u64,
    random: SmolStr,
}

impl Epoch {
    /// The epoch created at `ms`, with that random text.
    pub fn new(ms: u64, random: &str) -> Result<Self> {
        if random.len() > TEXT_CHARS_MAX {
            return fail(Code::Malformed, "an epoch's random text is too long");
        }
        Ok(Epoch { ms: check_version(ms)?, random: SmolStr::new(random) })
    }

    /// The random text that tells epochs of one millisecond apart.
    pub(crate) fn random(&self) -> &str {
        &self.random
    }

    /// Milliseconds since 1970 UTC of its creation.
    pub fn ms(&self) -> u64 {
        self.ms
    }
}

impl Serialize for Epoch {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        (self.ms, &self.random).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Epoch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let (ms, random) = <(u64, SmolStr)>::deserialize(deserializer)?;
        Epoch::new(ms, &random).map_err(de::Error::custom)
    }
}
