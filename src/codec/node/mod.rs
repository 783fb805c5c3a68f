//! Any message as a tree, and types out of the tree.
//!
//! Bytes are read in two steps: msgpack or JSON into nodes, which hold slices of what was received, then nodes into
//! the types of a message, by serde. So the code that reads a type is there once, not once for each form, and in its
//! plainest shape: reading types from the bytes directly made up a third of the wasm. What is read for each document
//! (`Data`) goes without the tree.

mod json;
mod msgpack;
mod types;
mod values;

use std::borrow::Cow;

pub(super) use json::parse as parse_json;
pub(super) use msgpack::parse as parse_msgpack;
pub(super) use types::NodeError;
pub(super) use values::Entry;

use serde::de::DeserializeOwned;

use crate::error::{Code, Error, Result};

/// Anything that either form can say.
#[derive(Debug)]
pub(super) enum Node<'b> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(Cow<'b, str>),
    Bytes(&'b [u8]),
    Array(Vec<Node<'b>>),
    Map(Vec<(Node<'b>, Node<'b>)>),
    /// An extension of msgpack: nothing here takes one.
    Extension,
}

/// Reads a type from a tree. `is_json` is what the type's own reading may depend on: bytes, and documents' data.
pub(super) fn from_node<T: DeserializeOwned>(
    node: Node<'_>,
    is_json: bool,
) -> std::result::Result<T, NodeError> {
    T::deserialize(types::Reader { node, is_json })
}

/// Reads msgpack that this library wrote itself; `None` where the bytes are something else.
pub fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (node, rest) = parse_msgpack(bytes, DEPTH_MAX).ok()?;
    if rest.is_empty() { from_node(node, false).ok() } else { None }
}

/// Writes msgpack for [`unpack`], structs as arrays.
pub fn pack<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    rmp_serde::to_vec(value).map_err(|e| Error::new(Code::Internal, e.to_string()))
}

/// Writes msgpack for [`unpack`], structs as maps: fields may be added later.
pub fn pack_named<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    rmp_serde::to_vec_named(value).map_err(|e| Error::new(Code::Internal, e.to_string()))
}

/// Depth of what rests on the device: a record's own over that of the values in it.
const DEPTH_MAX: usize = crate::limits::VALUE_DEPTH_MAX + 16;
