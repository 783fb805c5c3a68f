//! Any message as a tree.
//!
//! Bytes are read in two steps: msgpack or JSON into nodes, which hold slices of the bytes received, then nodes into the
//! types of a message. A document's data is read from its nodes without a type.

mod error;
mod json;
mod msgpack;
mod values;

use std::borrow::Cow;

pub use error::NodeError;
pub(super) use json::{parse as parse_json, write_text};
pub(super) use msgpack::parse as parse_msgpack;
pub(super) use values::{Entry, write_number};

/// Anything that either form can say.
#[derive(Debug)]
pub enum Node<'b> {
    /// Nothing.
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number that is not negative.
    Unsigned(u64),
    /// A negative whole number.
    Signed(i64),
    /// Any other number.
    Float(f64),
    /// A string.
    Text(Cow<'b, str>),
    /// Bytes; JSON has none.
    Bytes(&'b [u8]),
    /// A list.
    Array(Vec<Node<'b>>),
    /// A map, in the order of its bytes.
    Map(Vec<(Node<'b>, Node<'b>)>),
    /// An extension of msgpack: nothing here takes one.
    Extension,
}

impl<'b> Node<'b> {
    /// The number of a type that has no negative ones.
    pub(super) fn unsigned(&self, expected: &str) -> Result<u64, NodeError> {
        match self {
            Node::Unsigned(n) => Ok(*n),
            Node::Signed(_) => Err(NodeError::wrong_value(expected)),
            _ => Err(NodeError::wrong_type(expected)),
        }
    }

    /// The string.
    pub(super) fn text(self) -> Result<Cow<'b, str>, NodeError> {
        match self {
            Node::Text(text) => Ok(text),
            _ => Err(NodeError::wrong_type("a string")),
        }
    }

    /// The items of a list.
    pub(super) fn items(self) -> Result<Vec<Node<'b>>, NodeError> {
        match self {
            Node::Array(items) => Ok(items),
            _ => Err(NodeError::wrong_type("a list")),
        }
    }

    /// The items of a list of that length.
    pub(super) fn tuple(self, len: usize) -> Result<Vec<Node<'b>>, NodeError> {
        let items = self.items()?;
        if items.len() == len {
            Ok(items)
        } else {
            Err(NodeError::Words(format!("an unexpected length, {len} items expected")))
        }
    }
}
