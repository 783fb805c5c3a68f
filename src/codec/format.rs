//! The two forms of a message, and their bounds.

use super::node::{Node, NodeError, parse_json, parse_msgpack};
use super::wire::{Decode, Encode};
use super::writer::{Form, Writer};
use crate::error::{Code, Error, Result, fail};
use crate::limits::VALUE_DEPTH_MAX;

/// How a message is written. A server answers in kind (docs/protocol.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// `application/msgpack`; binary socket frames.
    #[default]
    Msgpack,
    /// `application/json`; text socket frames.
    Json,
}

impl Format {
    /// The media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Msgpack => "application/msgpack",
            Format::Json => "application/json",
        }
    }

    /// The format of that media type, its parameters ignored.
    pub fn from_content_type(text: &str) -> Option<Self> {
        match text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "application/msgpack" | "application/x-msgpack" | "application/vnd.msgpack" => {
                Some(Format::Msgpack)
            }
            "application/json" => Some(Format::Json),
            _ => None,
        }
    }
}

/// Depth of a stored record: its own over that of the values in it.
const RECORD_DEPTH_MAX: usize = VALUE_DEPTH_MAX + 16;

/// A message's own depth (reply, parts, part, rows, row) over that of the values in it.
const DEPTH_MAX: usize = VALUE_DEPTH_MAX + 8;

/// Writes a message.
pub fn encode<T: Encode + ?Sized>(format: Format, message: &T) -> Result<Vec<u8>> {
    let form = match format {
        Format::Msgpack => Form::Named,
        Format::Json => Form::Json,
    };
    write(form, &message)
}

/// Writes msgpack for [`unpack`], records as arrays.
pub fn pack<T: Encode + ?Sized>(value: &T) -> Result<Vec<u8>> {
    write(Form::Positional, &value)
}

/// Writes msgpack for [`unpack`], records as maps: fields may be added later.
pub fn pack_named<T: Encode + ?Sized>(value: &T) -> Result<Vec<u8>> {
    write(Form::Named, &value)
}

fn write(form: Form, value: &dyn Encode) -> Result<Vec<u8>> {
    let mut out = Writer::new(form);
    value.encode(&mut out);
    out.finish()
}

/// Reads msgpack that this library wrote; `None` if the bytes are something else.
pub fn unpack<T: Decode>(bytes: &[u8]) -> Option<T> {
    let (node, rest) = parse_msgpack(bytes, RECORD_DEPTH_MAX).ok()?;
    if rest.is_empty() { T::decode(node, Format::Msgpack).ok() } else { None }
}

/// Reads a message of at most `bytes_max` bytes. The error is `too_large`, `too_deep`, `wrong_protocol` or
/// `malformed`.
pub fn decode<T: Decode>(format: Format, bytes: &[u8], bytes_max: usize) -> Result<T> {
    if bytes.len() > bytes_max {
        return fail(Code::TooLarge, format!("a message of {} bytes, {bytes_max} at most", bytes.len()));
    }
    let node = match format {
        Format::Msgpack => parse_msgpack(bytes, DEPTH_MAX).and_then(|(node, rest)| match rest.len() {
            0 => Ok(node),
            n => Err(NodeError::Words(format!("{n} bytes after the message"))),
        }),
        Format::Json => parse_json(bytes),
    };
    let protocol = node.as_ref().ok().and_then(protocol_of);
    let result = node.and_then(|node| T::decode(node, format));
    match result {
        Ok(message) => Ok(message),
        Err(error) => match protocol {
            Some(p) if p != 1 => fail(Code::WrongProtocol, format!("protocol {p}, 1 expected")),
            // Looked at last: in msgpack its first byte is the number 60.
            _ if bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'<') => {
                fail(Code::Malformed, "the answer is a page of HTML, not a message")
            }
            _ => Err(unread(&error)),
        },
    }
}

/// Writes JSON for the application's side, which holds the core.
pub fn write_json(value: &dyn Encode) -> Result<String> {
    let text = write(Form::Json, value)?;
    String::from_utf8(text).map_err(|_| Error::new(Code::Internal, "JSON that is not UTF-8"))
}

/// Reads JSON of the application's side. The error has that code.
pub fn read_json<T: Decode>(text: &str, code: Code) -> Result<T> {
    let read = parse_json(text.as_bytes()).and_then(|node| T::decode(node, Format::Json));
    read.map_err(|error| Error::new(code, error.to_string()))
}

/// The `p` of a message that may not be readable. It tells a message of a later protocol from a malformed one.
fn protocol_of(message: &Node<'_>) -> Option<u64> {
    let Node::Map(entries) = message else { return None };
    entries.iter().find_map(|entry| match entry {
        (Node::Text(key), Node::Unsigned(p)) if key == "p" => Some(*p),
        _ => None,
    })
}

/// Why a message could not be read.
fn unread(error: &NodeError) -> Error {
    match error {
        NodeError::TooDeep => Error::new(Code::TooDeep, "nested too deep"),
        other => Error::new(Code::Malformed, other.to_string().chars().take(200).collect::<String>()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_beyond_the_bound_has_its_own_name_in_both_forms() {
        use crate::model::Value;
        for depth in [VALUE_DEPTH_MAX + 1, 10 * VALUE_DEPTH_MAX] {
            let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            let error = decode::<Value>(Format::Json, text.as_bytes(), 10_000).expect_err("too deep");
            assert_eq!(error.code(), Code::TooDeep, "{depth} in JSON");
            let bytes = [vec![0x91; depth], vec![0xc0]].concat();
            let error = decode::<Value>(Format::Msgpack, &bytes, 10_000).expect_err("too deep");
            assert_eq!(error.code(), Code::TooDeep, "{depth} in msgpack");
        }
    }

    #[test]
    fn a_message_reads_back_and_nothing_may_follow_it() {
        for format in [Format::Msgpack, Format::Json] {
            let mut bytes = encode(format, &("def", 7_u8, vec![true])).expect("written");
            let read: (String, u8, Vec<bool>) = decode(format, &bytes, 100).expect("read");
            assert_eq!(read, ("def".to_owned(), 7, vec![true]));
            bytes.push(b'1');
            let error = decode::<(String, u8, Vec<bool>)>(format, &bytes, 100).expect_err("left over");
            assert_eq!(error.code(), Code::Malformed);
        }
    }
}
