//! A document's `data`: a msgpack map that stays bytes from the wire to the disk, decoded when first read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::format::{Format, pack};
use super::node::{Entry, Node, NodeError, parse_msgpack};
use super::value::read_value;
use super::wire::{Decode, Encode};
use super::writer::Writer;
use crate::error::{Code, Error, Result, fail};
use crate::limits::{DOCUMENT_BYTES_MAX, VALUE_DEPTH_MAX};
use crate::model::{Name, Value, order};

/// The bytes of a document's `data`. Cheap to clone; not validated until read.
///
/// On the wire it is bytes in msgpack, an object in JSON (docs/protocol.md).
#[derive(Clone, PartialEq, Eq)]
pub struct Data(Arc<[u8]>);

impl Data {
    /// Bytes from the wire or the disk, at most [`DOCUMENT_BYTES_MAX`]. Their content is checked when it is read.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return fail(
                Code::TooLarge,
                format!("a document of {} bytes, {DOCUMENT_BYTES_MAX} at most", bytes.len()),
            );
        }
        Ok(Data(Arc::from(bytes)))
    }

    /// Writes a map.
    pub fn from_map(map: &BTreeMap<String, Value>) -> Result<Self> {
        Data::from_bytes(&pack(map)?)
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads the whole map.
    pub fn to_map(&self) -> Result<BTreeMap<String, Value>> {
        self.read(|entries| {
            order::map_of(entries.iter().map(|(key, value)| ((*key).to_owned(), value.to_value())))
        })
    }

    /// Reads those properties only; the others are checked without being built: [`Data::to_map`]
    /// reads all bytes that this accepts.
    pub fn pick(&self, names: &[&Name]) -> Result<BTreeMap<String, Value>> {
        self.read(|entries| {
            let wanted = entries.iter().filter(|(key, _)| names.iter().any(|name| name.as_str() == *key));
            order::map_of(wanted.map(|(key, value)| ((*key).to_owned(), value.to_value())))
        })
    }

    /// Writes the map as JSON text, bytes and keys in the protocol's way. [`Data::to_map`] reads all bytes that
    /// this accepts.
    pub fn write_json(&self, out: &mut Vec<u8>) -> Result<()> {
        let node = self.parse()?;
        node.checked_entries().map_err(|error| unread(&error))?;
        node.write_json(out);
        Ok(())
    }

    /// The same but for the property of that name, which is returned separately if it is a number.
    pub fn write_json_but(&self, left_out: &str, out: &mut Vec<u8>) -> Result<Option<f64>> {
        let node = self.parse()?;
        let entries = node.checked_entries().map_err(|error| unread(&error))?;
        let found = entries.iter().find(|(key, _)| *key == left_out).map(|(_, value)| value.to_value());
        node.write_json_but(left_out, out);
        Ok(match found {
            Some(Value::Number(number)) => Some(number.as_f64()),
            _ => None,
        })
    }

    fn parse(&self) -> Result<Node<'_>> {
        // One more for the map itself.
        match parse_msgpack(self.as_bytes(), VALUE_DEPTH_MAX + 1) {
            Ok((node, [])) => Ok(node),
            Ok(_) => fail(Code::BadValue, "bytes after a document's data"),
            Err(error) => Err(unread(&error)),
        }
    }

    fn read<T>(&self, take: impl FnOnce(&[Entry<'_>]) -> T) -> Result<T> {
        let node = self.parse()?;
        let entries = node.checked_entries().map_err(|error| unread(&error))?;
        Ok(take(&entries))
    }
}

fn unread(error: &NodeError) -> Error {
    match error {
        NodeError::TooDeep => Error::new(Code::TooDeep, "a document nested too deep"),
        _ => Error::new(Code::BadValue, "a document's data is not a map of supported values"),
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.0.len())
    }
}

impl Encode for Data {
    fn encode(&self, out: &mut Writer) {
        if !out.is_json() {
            return out.bytes(&self.0);
        }
        match self.to_map() {
            Ok(map) => out.value(&Value::Map(map)),
            Err(error) => out.fail(error),
        }
    }
}

impl Decode for Data {
    fn decode(node: Node<'_>, format: Format) -> std::result::Result<Self, NodeError> {
        if format == Format::Msgpack {
            return match node {
                Node::Bytes(bytes) => Ok(Data::from_bytes(bytes)?),
                _ => Err(NodeError::wrong_type("bytes")),
            };
        }
        // One more for the map itself, as in msgpack.
        match read_value(node, format, VALUE_DEPTH_MAX + 1)? {
            Value::Map(map) => Ok(Data::from_map(&map)?),
            // An adapter's object may carry the msgpack bytes as they are.
            Value::Bytes(bytes) => Ok(Data::from_bytes(&bytes)?),
            _ => Err(NodeError::Words("data must be a map".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::decode;

    #[test]
    fn data_reads_back_and_nothing_may_follow_it() {
        let text = r#"{"z":null,"n":1.5,"raw":{"$bytes":"AQL6"},"deep":[{"a":1}],"s":"text"}"#;
        let data: Data = decode(Format::Json, text.as_bytes(), text.len()).expect("data");
        let map = data.to_map().expect("a map");
        assert_eq!(map["raw"], Value::Bytes(vec![1, 2, 250]));
        assert_eq!(Data::from_map(&map).expect("written"), data);
        let mut json = Vec::new();
        data.write_json(&mut json).expect("written");
        assert_eq!(decode::<Data>(Format::Json, &json, json.len()).expect("read"), data);
        let mut longer = data.as_bytes().to_vec();
        longer.push(0);
        let longer = Data::from_bytes(&longer).expect("not read yet");
        assert_eq!(longer.to_map().expect_err("left over").code(), Code::BadValue);
    }

    #[test]
    fn a_property_that_is_left_out_is_given_apart() {
        let without = |text: &str| {
            let data: Data = decode(Format::Json, text.as_bytes(), text.len()).expect("data");
            let mut json = Vec::new();
            let number = data.write_json_but("release", &mut json).expect("written");
            (String::from_utf8(json).expect("text"), number)
        };
        assert_eq!(without(r#"{"a":1,"release":3,"z":2}"#), (r#"{"a":1,"z":2}"#.into(), Some(3.0)));
        assert_eq!(without(r#"{"release":3}"#), ("{}".into(), Some(3.0)));
        assert_eq!(without(r#"{"a":{"release":3}}"#), (r#"{"a":{"release":3}}"#.into(), None));
        assert_eq!(without(r#"{"a":1,"release":"x"}"#), (r#"{"a":1}"#.into(), None));
    }

    #[test]
    fn picking_refuses_what_reading_refuses_wherever_it_stands() {
        let bad: [&[u8]; 7] = [
            b"\x81\xa1a\xd6\xff\x00\x00\x00\x00", // an extension: msgpack's timestamp
            b"\x81\xa1a\x91\xd6\xff\x00\x00\x00\x00", // the same, in an array
            b"\x81\xa1a\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", // not a number
            b"\x81\xa9__proto__\xc0",
            b"\x81\xa1a\x81\xa9__proto__\xc0",
            b"\x82\xa1a\xc0\xa1a\xc0", // the same key twice
            b"\x81\xa1a\x82\xa1b\xc0\xa1b\xc0",
        ];
        for bytes in bad {
            let data = Data::from_bytes(bytes).expect("not read yet");
            assert_eq!(data.to_map().expect_err("refused").code(), Code::BadValue, "{bytes:x?}");
            assert_eq!(data.pick(&[]).expect_err("refused").code(), Code::BadValue, "{bytes:x?}");
            assert_eq!(
                data.write_json(&mut Vec::new()).expect_err("refused").code(),
                Code::BadValue,
                "{bytes:x?}"
            );
        }
        let deep = [&b"\x81\xa1a"[..], &[0x91; 60], &[0xc0]].concat();
        let deep = Data::from_bytes(&deep).expect("not read yet");
        assert_eq!(deep.to_map().expect_err("refused").code(), Code::TooDeep);
        assert_eq!(deep.pick(&[]).expect_err("refused").code(), Code::TooDeep);
        let good =
            Data::from_bytes(b"\x82\xa1a\x93\xc0\xc4\x01\x07\xca\x3f\x80\x00\x00\xa1b\x80").expect("data");
        assert_eq!(good.to_map().expect("read").len(), 2);
        assert!(good.pick(&[]).expect("picked").is_empty());
    }
}
