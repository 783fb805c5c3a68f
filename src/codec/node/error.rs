//! Why bytes are no message of a type.

use std::fmt;

/// Why bytes could not be read. It names fields and types, and never repeats a value.
#[derive(Debug)]
pub enum NodeError {
    /// The bytes end before the value does.
    CutShort,
    /// Nested deeper than the bound.
    TooDeep,
    /// In words.
    Words(String),
    /// In words, with the path in the message, as `parts[2].rows[17].v`.
    At {
        /// Names of fields and numbers of items, the outermost first.
        path: String,
        /// The fault.
        words: String,
    },
}

impl NodeError {
    /// The node is of another type than that.
    #[cold]
    #[inline(never)]
    pub fn wrong_type(expected: &str) -> Self {
        NodeError::Words(format!("an unexpected type, {expected} expected"))
    }

    /// The node is of that type, and out of its range.
    #[cold]
    #[inline(never)]
    pub fn wrong_value(expected: &str) -> Self {
        NodeError::Words(format!("an unexpected value, {expected} expected"))
    }

    /// The same error, in that item of a list.
    #[cold]
    #[inline(never)]
    pub fn in_item(self, index: usize) -> Self {
        self.within(&format!("[{index}]"))
    }

    /// The same error, in that field of a record.
    #[cold]
    #[inline(never)]
    pub fn within(self, outer: &str) -> Self {
        match self {
            NodeError::Words(words) => NodeError::At { path: outer.to_owned(), words },
            NodeError::At { path, words } => {
                let dot = if path.starts_with('[') { "" } else { "." };
                NodeError::At { path: format!("{outer}{dot}{path}"), words }
            }
            other => other,
        }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeError::CutShort => f.write_str("the message is cut short"),
            NodeError::TooDeep => f.write_str("nested too deep"),
            NodeError::Words(words) => f.write_str(words),
            NodeError::At { path, words } => write!(f, "{path}: {words}"),
        }
    }
}

impl std::error::Error for NodeError {}

impl From<crate::error::Error> for NodeError {
    fn from(error: crate::error::Error) -> Self {
        NodeError::Words(error.to_string())
    }
}
