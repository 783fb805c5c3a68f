//! Types to bytes and back: the traits, and the types that every message is made of.
//!
//! Reading is generic over the type alone, and writing over nothing: the same code serves msgpack and JSON, messages and
//! records. The wasm would otherwise hold each type's code once for each form.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::format::Format;
use super::node::{Node, NodeError};
use super::writer::Writer;
use crate::error::Error;
use crate::model::{Def, Epoch, Name, Pk, Value};

/// A type that can be written.
pub trait Encode {
    /// Writes it.
    fn encode(&self, out: &mut Writer);

    /// Whether an optional field that holds this is left out.
    fn is_missing(&self) -> bool {
        false
    }
}

/// Entries whose names are data, as a map.
pub struct Named<T>(pub Vec<(String, T)>);

impl<T: Encode> Encode for Named<T> {
    fn encode(&self, out: &mut Writer) {
        out.entries(self.0.iter().map(|(name, value)| (name.as_str(), value as &dyn Encode)));
    }

    fn is_missing(&self) -> bool {
        self.0.is_empty()
    }
}

/// A type that can be read.
pub trait Decode: Sized {
    /// Reads it from a tree. `format` is the form that the tree was read from: bytes and documents differ.
    fn decode(node: Node<'_>, format: Format) -> Result<Self, NodeError>;

    /// Its value in a record that does not name it; `None` if a record must.
    fn missing() -> Option<Self> {
        None
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn encode(&self, out: &mut Writer) {
        (**self).encode(out);
    }

    fn is_missing(&self) -> bool {
        (**self).is_missing()
    }
}

macro_rules! unsigned {
    ($($type:ident)+) => {$(
        impl Encode for $type {
            fn encode(&self, out: &mut Writer) {
                out.unsigned(u64::from(*self));
            }
        }

        impl Decode for $type {
            fn decode(node: Node<'_>, _: Format) -> Result<Self, NodeError> {
                let wrong = || NodeError::wrong_value(stringify!($type));
                $type::try_from(node.unsigned(stringify!($type))?).map_err(|_| wrong())
            }
        }
    )+};
}

unsigned!(u8 u16 u32 u64);

impl Encode for i64 {
    fn encode(&self, out: &mut Writer) {
        out.signed(*self);
    }
}

impl Decode for i64 {
    fn decode(node: Node<'_>, _: Format) -> Result<Self, NodeError> {
        match node {
            Node::Signed(n) => Ok(n),
            Node::Unsigned(n) => i64::try_from(n).map_err(|_| NodeError::wrong_value("i64")),
            _ => Err(NodeError::wrong_type("i64")),
        }
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut Writer) {
        out.bool(*self);
    }

    fn is_missing(&self) -> bool {
        !self
    }
}

impl Decode for bool {
    fn decode(node: Node<'_>, _: Format) -> Result<Self, NodeError> {
        match node {
            Node::Bool(value) => Ok(value),
            _ => Err(NodeError::wrong_type("a boolean")),
        }
    }
}

impl Encode for str {
    fn encode(&self, out: &mut Writer) {
        out.text(self);
    }
}

impl Encode for String {
    fn encode(&self, out: &mut Writer) {
        out.text(self);
    }
}

impl Decode for String {
    fn decode(node: Node<'_>, _: Format) -> Result<Self, NodeError> {
        node.text().map(std::borrow::Cow::into_owned)
    }
}

/// Bytes, as a type of their own: a list of numbers is another thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob(pub Vec<u8>);

impl Encode for Blob {
    fn encode(&self, out: &mut Writer) {
        out.bytes(&self.0);
    }
}

impl Decode for Blob {
    fn decode(node: Node<'_>, _: Format) -> Result<Self, NodeError> {
        match node {
            Node::Bytes(bytes) => Ok(Blob(bytes.to_owned())),
            _ => Err(NodeError::wrong_type("bytes")),
        }
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut Writer) {
        match self {
            Some(value) => value.encode(out),
            None => out.null(),
        }
    }

    fn is_missing(&self) -> bool {
        self.is_none()
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(node: Node<'_>, format: Format) -> Result<Self, NodeError> {
        match node {
            Node::Null => Ok(None),
            node => T::decode(node, format).map(Some),
        }
    }

    fn missing() -> Option<Self> {
        Some(None)
    }
}

impl<T: Encode> Encode for [T] {
    fn encode(&self, out: &mut Writer) {
        out.list(self.iter().map(|item| item as &dyn Encode));
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut Writer) {
        self.as_slice().encode(out);
    }

    fn is_missing(&self) -> bool {
        self.is_empty()
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(node: Node<'_>, format: Format) -> Result<Self, NodeError> {
        let items = node.items()?;
        let mut read = Vec::with_capacity(items.len());
        each(items, &mut |item| {
            read.push(T::decode(item, format)?);
            Ok(())
        })?;
        Ok(read)
    }
}

/// Reads each item of a list. It is no generic function, so the walk is compiled only once.
fn each<'b>(
    items: Vec<Node<'b>>,
    read: &mut dyn FnMut(Node<'b>) -> Result<(), NodeError>,
) -> Result<(), NodeError> {
    for (index, item) in items.into_iter().enumerate() {
        read(item).map_err(|error| error.in_item(index))?;
    }
    Ok(())
}

macro_rules! tuple {
    ($($type:ident $index:tt),+) => {
        impl<$($type: Encode),+> Encode for ($($type,)+) {
            fn encode(&self, out: &mut Writer) {
                let items: &[&dyn Encode] = &[$(&self.$index),+];
                out.list(items.iter().copied());
            }
        }

        impl<$($type: Decode),+> Decode for ($($type,)+) {
            fn decode(node: Node<'_>, format: Format) -> Result<Self, NodeError> {
                let mut items = node.tuple(const { [$($index),+].len() })?;
                Ok(($($type::decode(std::mem::replace(&mut items[$index], Node::Null), format)
                    .map_err(|error| error.in_item($index))?,)+))
            }
        }
    };
}

tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);

impl Encode for Value {
    fn encode(&self, out: &mut Writer) {
        out.value(self);
    }
}

impl Encode for BTreeMap<String, Value> {
    fn encode(&self, out: &mut Writer) {
        out.map(self);
    }
}

impl Decode for BTreeMap<String, Value> {
    fn decode(node: Node<'_>, format: Format) -> Result<Self, NodeError> {
        let Node::Map(entries) = node else { return Err(NodeError::wrong_type("a map")) };
        let mut map = BTreeMap::new();
        for (key, value) in entries {
            map.insert(key.text()?.into_owned(), Value::decode(value, format)?);
        }
        Ok(map)
    }
}

/// A type that is written as its text, and read by a check of it.
macro_rules! text {
    ($($type:ident: $parse:expr, $shown:expr);+ $(;)?) => {$(
        impl Encode for $type {
            fn encode(&self, out: &mut Writer) {
                let shown: fn(&$type) -> SmolStr = $shown;
                out.text(&shown(self));
            }
        }

        impl Decode for $type {
            fn decode(node: Node<'_>, _: Format) -> Result<Self, NodeError> {
                let parse: fn(&str) -> Result<$type, Error> = $parse;
                Ok(parse(&node.text()?)?)
            }
        }
    )+};
}

text! {
    Name: Name::new, |name| SmolStr::new(name.as_str());
    Pk: Pk::parse, |pk| SmolStr::new(pk.as_str());
    Def: str::parse, |def| smol_str::format_smolstr!("{def}");
}

impl Encode for Epoch {
    fn encode(&self, out: &mut Writer) {
        (self.ms(), self.random()).encode(out);
    }
}

impl Decode for Epoch {
    fn decode(node: Node<'_>, format: Format) -> Result<Self, NodeError> {
        let (ms, random) = <(u64, String)>::decode(node, format)?;
        Ok(Epoch::new(ms, &random)?)
    }
}
