//! Records: types with named fields, and types with variants.

use std::borrow::Cow;

use super::format::Format;
use super::node::{Node, NodeError};
use super::wire::Decode;

/// The fields of a record, taken in the order of the type.
pub struct Fields<'b> {
    nodes: std::vec::IntoIter<Option<Node<'b>>>,
    names: std::slice::Iter<'static, &'static str>,
    format: Format,
}

impl<'b> Fields<'b> {
    /// Finds each field by its name in a map, or by its position in an array. A map may have others: later versions add
    /// fields.
    pub fn new(node: Node<'b>, names: &'static [&'static str], format: Format) -> Result<Self, NodeError> {
        Fields::find(node, names, format, false)
    }

    /// The same, but a map may have no others: they are misspelled.
    pub fn only(node: Node<'b>, names: &'static [&'static str], format: Format) -> Result<Self, NodeError> {
        Fields::find(node, names, format, true)
    }

    fn find(
        node: Node<'b>,
        names: &'static [&'static str],
        format: Format,
        is_only: bool,
    ) -> Result<Self, NodeError> {
        let mut nodes: Vec<Option<Node<'b>>> = Vec::with_capacity(names.len());
        match node {
            Node::Array(items) if items.len() > names.len() => {
                return Err(NodeError::Words(format!(
                    "an unexpected length, {} items too many",
                    items.len() - names.len()
                )));
            }
            Node::Array(items) => nodes.extend(items.into_iter().map(Some)),
            Node::Map(entries) => {
                nodes.resize_with(names.len(), || None);
                for (key, value) in entries {
                    let Node::Text(key) = key else { return Err(NodeError::wrong_type("a field's name")) };
                    let Some(index) = names.iter().position(|name| *name == key) else {
                        if is_only {
                            return Err(unknown(&key, names));
                        }
                        continue;
                    };
                    if nodes[index].replace(value).is_some() {
                        return Err(NodeError::Words(format!("duplicate field `{}`", names[index])));
                    }
                }
            }
            _ => return Err(NodeError::wrong_type("a map")),
        }
        nodes.resize_with(names.len(), || None);
        Ok(Fields { nodes: nodes.into_iter(), names: names.iter(), format })
    }

    fn next(&mut self) -> (&'static str, Option<Node<'b>>) {
        (self.names.next().copied().unwrap_or_default(), self.nodes.next().flatten())
    }

    /// The next field.
    pub fn required<T: Decode>(&mut self) -> Result<T, NodeError> {
        let (name, node) = self.next();
        match node {
            Some(node) => T::decode(node, self.format).map_err(|error| error.within(name)),
            None => T::missing().ok_or_else(|| missing(name)),
        }
    }

    /// The next field, or its type's default.
    pub fn or_default<T: Decode + Default>(&mut self) -> Result<T, NodeError> {
        self.or(T::default())
    }

    /// The next field, or that value.
    pub fn or<T: Decode>(&mut self, missing: T) -> Result<T, NodeError> {
        let (name, node) = self.next();
        match node {
            Some(node) => T::decode(node, self.format).map_err(|error| error.within(name)),
            None => Ok(missing),
        }
    }
}

#[cold]
#[inline(never)]
fn unknown(name: &str, names: &[&str]) -> NodeError {
    NodeError::Words(format!("unknown field `{name}`, expected one of `{}`", names.join("`, `")))
}

#[cold]
#[inline(never)]
fn missing(name: &str) -> NodeError {
    NodeError::Words(format!("missing field `{name}`"))
}

/// A variant's name, and its content if it has any.
pub fn variant_of(node: Node<'_>) -> Result<(Cow<'_, str>, Option<Node<'_>>), NodeError> {
    match node {
        Node::Text(name) => Ok((name, None)),
        Node::Map(mut entries) if entries.len() == 1 => match entries.pop() {
            Some((Node::Text(name), content)) => Ok((name, Some(content))),
            _ => Err(NodeError::wrong_type("the name of a variant")),
        },
        _ => Err(NodeError::wrong_type("the name of a variant")),
    }
}

/// A variant's name, and its content.
pub fn content_of(node: Node<'_>) -> Result<(Cow<'_, str>, Node<'_>), NodeError> {
    let (name, content) = variant_of(node)?;
    content.map(|content| (name, content)).ok_or_else(unknown_variant)
}

/// The error of a variant that the type does not have.
#[cold]
#[inline(never)]
pub fn unknown_variant() -> NodeError {
    NodeError::wrong_value("a known variant")
}

/// Writes and reads a struct. A field `name` must be there. A field `name default` is always written, and may be missing
/// when read. A field `name optional` is written only if it holds something. `name("wire")` has another name in bytes.
macro_rules! record {
    ($type:ident { $($field:ident $(($wire:literal))? $($mode:ident)?),+ $(,)? }) => {
        impl $crate::codec::Encode for $type {
            fn encode(&self, out: &mut $crate::codec::Writer) {
                out.record(&[$((
                    $crate::codec::record!(@name $field $($wire)?),
                    $crate::codec::record!(@presence $($mode)?),
                    &self.$field,
                )),+]);
            }
        }

        $crate::codec::reads!(new $type { $($field $(($wire))? $($mode)?),+ });
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $wire:literal) => { $wire };
    (@presence optional) => { $crate::codec::Presence::Optional };
    (@presence $($mode:ident)?) => { $crate::codec::Presence::Required };
    (@read $fields:ident) => { $fields.required() };
    (@read $fields:ident $mode:ident) => { $fields.or_default() };
}

/// Reads a struct that nobody writes: `reads!(new ..)`, or `reads!(only ..)` if a map may have no other fields. Its fields
/// are those of `record!`.
macro_rules! reads {
    ($how:ident $type:ident { $($field:ident $(($wire:literal))? $($mode:ident)?),+ $(,)? }) => {
        impl $crate::codec::Decode for $type {
            fn decode(
                node: $crate::codec::Node<'_>,
                format: $crate::codec::Format,
            ) -> std::result::Result<Self, $crate::codec::NodeError> {
                const NAMES: &[&str] = &[$($crate::codec::record!(@name $field $($wire)?)),+];
                let mut fields = $crate::codec::Fields::$how(node, NAMES, format)?;
                Ok($type { $($field: $crate::codec::record!(@read fields $($mode)?)?),+ })
            }
        }
    };
}

/// Writes and reads an enum whose variants hold nothing, by their names.
macro_rules! names {
    ($type:ident { $($variant:ident = $name:literal),+ $(,)? }) => {
        impl $crate::codec::Encode for $type {
            fn encode(&self, out: &mut $crate::codec::Writer) {
                out.text(match self {
                    $($type::$variant => $name),+
                });
            }
        }

        impl $crate::codec::Decode for $type {
            fn decode(
                node: $crate::codec::Node<'_>,
                _: $crate::codec::Format,
            ) -> std::result::Result<Self, $crate::codec::NodeError> {
                match $crate::codec::variant_of(node)? {
                    $((name, None) if name == $name => Ok($type::$variant),)+
                    _ => Err($crate::codec::unknown_variant()),
                }
            }
        }
    };
}

pub(crate) use {names, reads, record};
