//! Nodes into types: serde's reader of a tree.

use std::borrow::Cow;
use std::fmt;
use std::vec::IntoIter;

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

use super::Node;

/// Why bytes are no message of the type. Names fields and types, never what was met.
#[derive(Debug)]
pub enum NodeError {
    /// The bytes end before the value does.
    CutShort,
    /// Nested deeper than the bound.
    TooDeep,
    /// In words.
    Words(String),
    /// In words, with the place in the message, as `parts[2].rows[17].v`.
    At {
        /// Names of fields and numbers of items, the outermost first.
        place: String,
        /// What is wrong there.
        words: String,
    },
}

impl NodeError {
    /// The same error, of what stands in that item. Out of line: readers are there once for each type.
    #[cold]
    #[inline(never)]
    fn in_item(self, place: usize) -> Self {
        self.within(&format!("[{place}]"))
    }

    /// The same error, of what stands in that field.
    #[cold]
    #[inline(never)]
    fn in_field(self, field: Option<&str>) -> Self {
        match field {
            Some(field) => self.within(field),
            None => self,
        }
    }

    #[inline(never)]
    fn within(self, outer: &str) -> Self {
        match self {
            NodeError::Words(words) => NodeError::At { place: outer.to_owned(), words },
            NodeError::At { place, words } => {
                let dot = if place.starts_with('[') { "" } else { "." };
                NodeError::At { place: format!("{outer}{dot}{place}"), words }
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
            NodeError::At { place, words } => write!(f, "{place}: {words}"),
        }
    }
}

impl std::error::Error for NodeError {}

impl de::Error for NodeError {
    fn custom<T: fmt::Display>(words: T) -> Self {
        NodeError::Words(words.to_string())
    }

    // serde's own words repeat the value.
    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        unexpected(expected)
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        NodeError::Words(format!("an unexpected value, {expected} expected"))
    }
}

/// A tree to read from.
pub struct Reader<'b> {
    pub node: Node<'b>,
    pub is_json: bool,
}

impl<'b> Reader<'b> {
    fn of(&self, node: Node<'b>) -> Self {
        Reader { node, is_json: self.is_json }
    }
}

/// Methods of serde that look for the same kind of node.
macro_rules! by {
    ($kind:ident: $($method:ident)+) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
            self.$kind(visitor)
        })+
    };
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = NodeError;

    fn is_human_readable(&self) -> bool {
        self.is_json
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match &self.node {
            Node::Null => self.deserialize_unit(visitor),
            Node::Bool(_) => self.deserialize_bool(visitor),
            Node::Unsigned(_) | Node::Signed(_) | Node::Float(_) => self.number(visitor),
            Node::Text(_) => self.text(visitor),
            Node::Bytes(_) => self.deserialize_bytes(visitor),
            Node::Array(_) => self.items(visitor),
            Node::Map(_) => self.entries(visitor),
            Node::Extension => Err(NodeError::Words("an extension of msgpack".into())),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.node {
            Node::Null => visitor.visit_unit(),
            _ => Err(unexpected(&visitor)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.node {
            Node::Bool(value) => visitor.visit_bool(value),
            _ => Err(unexpected(&visitor)),
        }
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.node {
            Node::Bytes(bytes) => visitor.visit_borrowed_bytes(bytes),
            _ => Err(unexpected(&visitor)),
        }
    }

    /// By its fields' names, or by their places.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        match &self.node {
            Node::Array(_) => self.items(visitor),
            _ => self.fields(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, NodeError> {
        self.items(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        self.items(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        self.deserialize_unit(visitor)
    }

    by! { number: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
    deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 }
    by! { text: deserialize_char deserialize_str deserialize_string deserialize_identifier }
    by! { deserialize_bytes: deserialize_byte_buf }
    by! { items: deserialize_seq }
    by! { entries: deserialize_map }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.node {
            Node::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        visitor.visit_newtype_struct(self)
    }

    /// A variant by its name or its number, or a map of its name and its content.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        let wrong = || NodeError::Words("an unexpected type, the name of a variant expected".into());
        match self.node {
            Node::Text(_) | Node::Unsigned(_) => visitor.visit_enum(Variant { name: self, content: None }),
            Node::Map(entries) if entries.len() == 1 => {
                let is_json = self.is_json;
                let (name, content) = entries.into_iter().next().ok_or_else(wrong)?;
                let [name, content] = [name, content].map(|node| Reader { node, is_json });
                visitor.visit_enum(Variant { name, content: Some(content) })
            }
            _ => Err(wrong()),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        visitor.visit_unit()
    }
}

// Each kind of type looks for its own kind of node alone: with all of them in one function, every type would have
// code for all of them.
impl<'de> Reader<'de> {
    fn number<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.node {
            Node::Unsigned(value) => visitor.visit_u64(value),
            Node::Signed(value) => visitor.visit_i64(value),
            Node::Float(value) => visitor.visit_f64(value),
            _ => Err(unexpected(&visitor)),
        }
    }

    fn text<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.node {
            Node::Text(text) => visitor.visit_str(&text),
            _ => Err(unexpected(&visitor)),
        }
    }

    fn items<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, NodeError> {
        let Node::Array(items) = std::mem::replace(&mut self.node, Node::Null) else {
            return Err(unexpected(&visitor));
        };
        let mut items = Items { left: items.into_iter(), next: 0, of: self };
        let value = visitor.visit_seq(&mut items)?;
        items.end().map(|()| value)
    }

    /// The entries of a map whose keys are the application's: an error does not repeat them.
    fn entries<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        self.named(visitor, false)
    }

    /// The entries of a struct: an error names the field.
    fn fields<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        self.named(visitor, true)
    }

    fn named<V: Visitor<'de>>(mut self, visitor: V, are_fields: bool) -> Result<V::Value, NodeError> {
        let Node::Map(entries) = std::mem::replace(&mut self.node, Node::Null) else {
            return Err(unexpected(&visitor));
        };
        let mut entries =
            Entries { left: entries.into_iter(), value: None, field: None, are_fields, of: self };
        let value = visitor.visit_map(&mut entries)?;
        entries.end().map(|()| value)
    }
}

fn unexpected(expected: &dyn Expected) -> NodeError {
    NodeError::Words(format!("an unexpected type, {expected} expected"))
}

struct Items<'b> {
    left: IntoIter<Node<'b>>,
    next: usize,
    of: Reader<'b>,
}

impl Items<'_> {
    fn end(self) -> Result<(), NodeError> {
        let left = self.left.len();
        if left == 0 {
            Ok(())
        } else {
            Err(NodeError::Words(format!("an unexpected length, {left} items too many")))
        }
    }
}

impl<'de> SeqAccess<'de> for &mut Items<'de> {
    type Error = NodeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, NodeError> {
        let Some(node) = self.left.next() else { return Ok(None) };
        let place = self.next;
        self.next += 1;
        seed.deserialize(self.of.of(node)).map(Some).map_err(|error| error.in_item(place))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

struct Entries<'b> {
    left: IntoIter<(Node<'b>, Node<'b>)>,
    value: Option<Node<'b>>,
    /// The name of the field that is read, in a struct.
    field: Option<Cow<'b, str>>,
    are_fields: bool,
    of: Reader<'b>,
}

impl<'b> Entries<'b> {
    /// Notes the name of the field that comes next.
    #[inline(never)]
    fn note(&mut self, key: &Node<'b>) {
        if let (true, Node::Text(name)) = (self.are_fields, key) {
            self.field = Some(name.clone());
        }
    }

    fn end(self) -> Result<(), NodeError> {
        let left = self.left.len();
        if left == 0 {
            Ok(())
        } else {
            Err(NodeError::Words(format!("an unexpected length, {left} entries too many")))
        }
    }
}

impl<'de> MapAccess<'de> for &mut Entries<'de> {
    type Error = NodeError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, NodeError> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        self.value = Some(value);
        self.note(&key);
        seed.deserialize(self.of.of(key)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, NodeError> {
        let value = self.value.take().unwrap_or(Node::Null);
        seed.deserialize(self.of.of(value)).map_err(|error| error.in_field(self.field.as_deref()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

struct Variant<'b> {
    name: Reader<'b>,
    content: Option<Reader<'b>>,
}

impl<'b> Variant<'b> {
    fn content(self) -> Result<Reader<'b>, NodeError> {
        self.content.ok_or_else(|| NodeError::Words("a variant without content".into()))
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = NodeError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), NodeError> {
        let name = match &self.name.node {
            Node::Unsigned(number) => return Ok((seed.deserialize(number.into_deserializer())?, self)),
            Node::Text(name) => name.as_ref(),
            _ => "",
        };
        Ok((seed.deserialize(name.into_deserializer())?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = NodeError;

    fn unit_variant(self) -> Result<(), NodeError> {
        match self.content {
            None => Ok(()),
            Some(_) => Err(NodeError::Words("a variant with content".into())),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, NodeError> {
        seed.deserialize(self.content()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, NodeError> {
        self.content()?.items(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        self.content()?.deserialize_struct("", fields, visitor)
    }
}
