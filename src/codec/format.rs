//! The two forms of a message, and their bounds.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::value::NESTED_TOO_DEEP;
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

/// A message's own depth (reply, parts, part, rows, row) over that of the values in it.
const DEPTH_MAX: usize = VALUE_DEPTH_MAX + 8;

/// Writes a message.
pub fn encode<T: Serialize>(format: Format, message: &T) -> Result<Vec<u8>> {
    let internal = |detail: String| Error::new(Code::Internal, detail);
    match format {
        Format::Msgpack => rmp_serde::to_vec_named(message).map_err(|e| internal(e.to_string())),
        Format::Json => serde_json::to_vec(message).map_err(|e| internal(e.to_string())),
    }
}

/// Reads a message of at most `bytes_max` bytes. The error is `too_large`, `too_deep`, `wrong_protocol` or
/// `malformed`.
pub fn decode<T: DeserializeOwned>(format: Format, bytes: &[u8], bytes_max: usize) -> Result<T> {
    if bytes.len() > bytes_max {
        return fail(Code::TooLarge, format!("a message of {} bytes, {bytes_max} at most", bytes.len()));
    }
    if bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'<') {
        return fail(Code::Malformed, "the answer is a page of HTML, not a message");
    }
    let result = match format {
        Format::Msgpack => {
            // A reader that moves its slice on, so that what is left over shows.
            let mut reader = rmp_serde::Deserializer::new(bytes);
            reader.set_max_depth(DEPTH_MAX);
            let message = T::deserialize(&mut reader).map_err(|e| match e {
                e if is_too_deep(&e) => Error::new(Code::TooDeep, "nested too deep"),
                other => Error::new(Code::Malformed, msgpack_detail(&other)),
            });
            message.and_then(|message| match reader.get_ref().len() {
                0 => Ok(message),
                n => fail(Code::Malformed, format!("{n} bytes after the message")),
            })
        }
        Format::Json => serde_json::from_slice(bytes).map_err(|e| {
            let text = e.to_string();
            if text.contains("recursion limit") || text.contains(NESTED_TOO_DEEP) {
                Error::new(Code::TooDeep, "nested too deep")
            } else {
                Error::new(Code::Malformed, format!("at line {} column {}", e.line(), e.column()))
            }
        }),
    };
    match result {
        Ok(message) => Ok(message),
        Err(error) => match protocol_of(format, bytes) {
            Some(p) if p != 1 => fail(Code::WrongProtocol, format!("protocol {p}, 1 expected")),
            _ => Err(error),
        },
    }
}

/// The `p` of a message that could not be read: one of a later protocol is told from a malformed one.
fn protocol_of(format: Format, bytes: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Probe {
        p: u64,
    }
    let probe: Option<Probe> = match format {
        Format::Msgpack => {
            let mut reader = rmp_serde::Deserializer::from_read_ref(bytes);
            reader.set_max_depth(DEPTH_MAX);
            serde::Deserialize::deserialize(&mut reader).ok()
        }
        Format::Json => serde_json::from_slice(bytes).ok(),
    };
    probe.map(|probe| probe.p)
}

/// Whether a reader met its own limit, or a value's.
pub(super) fn is_too_deep(error: &rmp_serde::decode::Error) -> bool {
    use rmp_serde::decode::Error as E;
    match error {
        E::DepthLimitExceeded => true,
        E::Uncategorized(text) | E::Syntax(text) => text == NESTED_TOO_DEEP,
        _ => false,
    }
}

/// What was expected and found, without the bytes themselves.
fn msgpack_detail(error: &rmp_serde::decode::Error) -> String {
    use rmp_serde::decode::Error as E;
    match error {
        E::InvalidMarkerRead(_) | E::InvalidDataRead(_) => "the message is cut short".into(),
        E::TypeMismatch(marker) => format!("an unexpected type, {marker:?}"),
        E::OutOfRange => "a number out of range".into(),
        E::LengthMismatch(n) => format!("an unexpected length, {n}"),
        E::Utf8Error(_) => "a string that is not UTF-8".into(),
        E::DepthLimitExceeded => "nested too deep".into(),
        // serde's own words name fields and types; custom errors are ours.
        E::Uncategorized(text) | E::Syntax(text) => text.chars().take(200).collect(),
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
            let mut bytes = encode(format, &("def", 7, [true])).expect("written");
            let read: (String, u8, [bool; 1]) = decode(format, &bytes, 100).expect("read");
            assert_eq!(read, ("def".to_owned(), 7, [true]));
            bytes.push(b'1');
            let error = decode::<(String, u8, [bool; 1])>(format, &bytes, 100).expect_err("left over");
            assert_eq!(error.code(), Code::Malformed);
        }
    }
}
