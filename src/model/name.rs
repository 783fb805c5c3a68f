//! Names of classes, collections, indexes and properties.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};
use smol_str::SmolStr;

use crate::error::{Code, Error, Result, fail};
use crate::limits::NAME_CHARS_MAX;

/// A name that the schema declares: `[A-Za-z][A-Za-z0-9]*`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Name(SmolStr);

impl Name {
    /// Validates a name.
    pub fn new(text: &str) -> Result<Self> {
        let mut bytes = text.bytes();
        let starts = bytes.next().is_some_and(|b| b.is_ascii_alphabetic());
        if starts && text.len() <= NAME_CHARS_MAX && bytes.all(|b| b.is_ascii_alphanumeric()) {
            Ok(Name(SmolStr::new(text)))
        } else {
            fail(Code::BadSchema, "a name must be a letter followed by letters and digits, 64 at most")
        }
    }

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Name {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Name::new(text)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = SmolStr::deserialize(deserializer)?;
        Name::new(&text).map_err(de::Error::custom)
    }
}
