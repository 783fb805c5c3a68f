//! Writes messages and records, in msgpack or JSON, piece by piece.

use std::collections::BTreeMap;

use rmp::encode as msgpack;
use serde::Serialize;

use super::Encode;
use super::escape::{BYTES_KEY, bytes_text, is_escaped};
use super::node::{write_number, write_text};
use crate::error::{Code, Error, Result};
use crate::model::Value;

/// How a record's fields are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// JSON objects.
    Json,
    /// Msgpack maps: fields may be added later.
    Named,
    /// Msgpack arrays: the order of the fields is the format.
    Positional,
}

/// When a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Always.
    Required,
    /// Only if it holds something, but in an array, where the next fields need their positions.
    Optional,
}

/// A field to write: its name, when it is written, and its value.
pub type FieldOut<'a> = (&'static str, Presence, &'a dyn Encode);

/// The bytes written so far.
///
/// Memory takes every write of msgpack. Only [`Writer::fail`] makes the whole fail.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
    form: Form,
    error: Option<Error>,
}

impl Writer {
    /// An empty one.
    pub fn new(form: Form) -> Self {
        Writer { bytes: Vec::new(), form, error: None }
    }

    /// The bytes, or the first error.
    pub fn finish(self) -> Result<Vec<u8>> {
        match self.error {
            None => Ok(self.bytes),
            Some(error) => Err(error),
        }
    }

    /// Makes the whole fail: a value has no form in these bytes.
    pub fn fail(&mut self, error: impl ToString) {
        self.error.get_or_insert_with(|| Error::new(Code::Internal, error.to_string()));
    }

    /// Whether it writes JSON.
    pub fn is_json(&self) -> bool {
        self.form == Form::Json
    }

    /// Nothing.
    pub fn null(&mut self) {
        self.next();
        if self.is_json() {
            self.bytes.extend(b"null");
        } else {
            let _ = msgpack::write_nil(&mut self.bytes);
        }
    }

    /// A boolean.
    pub fn bool(&mut self, value: bool) {
        self.next();
        if self.is_json() {
            self.bytes.extend(if value { &b"true"[..] } else { &b"false"[..] });
        } else {
            let _ = msgpack::write_bool(&mut self.bytes, value);
        }
    }

    /// A number that is not negative, in the fewest bytes.
    pub fn unsigned(&mut self, value: u64) {
        self.next();
        if self.is_json() {
            self.bytes.extend(value.to_string().as_bytes());
        } else {
            let _ = msgpack::write_uint(&mut self.bytes, value);
        }
    }

    /// A number, in the fewest bytes.
    pub fn signed(&mut self, value: i64) {
        self.next();
        if self.is_json() {
            self.bytes.extend(value.to_string().as_bytes());
        } else {
            let _ = msgpack::write_sint(&mut self.bytes, value);
        }
    }

    /// A string.
    pub fn text(&mut self, text: &str) {
        self.next();
        self.bare_text(text);
    }

    /// Bytes; in JSON the form of a value that holds bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if !self.is_json() {
            let _ = msgpack::write_bin(&mut self.bytes, bytes);
            return;
        }
        self.open(b'{', 1);
        self.key(BYTES_KEY);
        self.text(&bytes_text(bytes));
        self.close(b'}');
    }

    /// A value of a document or of an operation's arguments.
    pub fn value(&mut self, value: &Value) {
        if !self.is_json() {
            return self.serialize(value);
        }
        match value {
            Value::Null => self.null(),
            Value::Bool(value) => self.bool(*value),
            Value::Number(number) => {
                self.next();
                write_number(*number, &mut self.bytes);
            }
            Value::String(text) => self.text(text),
            Value::Bytes(bytes) => self.bytes(bytes),
            Value::Array(items) => self.list(items.iter().map(|item| item as &dyn Encode)),
            Value::Map(entries) => {
                self.open(b'{', entries.len());
                for (key, value) in entries {
                    if is_escaped(key) {
                        self.key(&format!("${key}"));
                    } else {
                        self.key(key);
                    }
                    self.value(value);
                }
                self.close(b'}');
            }
        }
    }

    /// A map of values, as the data of a document. JSON escapes none of its own keys.
    pub fn map(&mut self, map: &BTreeMap<String, Value>) {
        if !self.is_json() {
            return self.serialize(map);
        }
        self.open(b'{', map.len());
        for (key, value) in map {
            self.key(key);
            self.value(value);
        }
        self.close(b'}');
    }

    fn serialize(&mut self, value: &impl Serialize) {
        if rmp_serde::encode::write(&mut self.bytes, value).is_err() {
            self.fail("a value that msgpack does not take");
        }
    }

    /// A list of known length.
    pub fn list<'a>(&mut self, items: impl ExactSizeIterator<Item = &'a dyn Encode>) {
        self.open(b'[', items.len());
        for item in items {
            item.encode(self);
        }
        self.close(b']');
    }

    /// A record. An array keeps the positions of its fields: only optional ones at its end are left out.
    pub fn record(&mut self, fields: &[FieldOut<'_>]) {
        let is_written =
            |(_, presence, value): &FieldOut<'_>| *presence == Presence::Required || !value.is_missing();
        if self.form == Form::Positional {
            let len = fields.iter().rposition(is_written).map_or(0, |last| last + 1);
            return self.list(fields.iter().take(len).map(|(_, _, value)| *value));
        }
        self.open(b'{', fields.iter().filter(|field| is_written(field)).count());
        for field in fields.iter().filter(|field| is_written(field)) {
            self.key(field.0);
            field.2.encode(self);
        }
        self.close(b'}');
    }

    /// A map whose keys are data.
    pub fn entries<'a>(&mut self, entries: impl ExactSizeIterator<Item = (&'a str, &'a dyn Encode)>) {
        self.open(b'{', entries.len());
        for (name, value) in entries {
            self.key(name);
            value.encode(self);
        }
        self.close(b'}');
    }

    /// A variant that holds something: a map of its name and its content.
    pub fn variant(&mut self, name: &str, content: &dyn Encode) {
        self.open(b'{', 1);
        self.key(name);
        content.encode(self);
        self.close(b'}');
    }

    /// A variant with fields: a map of its name and its record.
    pub fn variant_record(&mut self, name: &str, fields: &[FieldOut<'_>]) {
        self.open(b'{', 1);
        self.key(name);
        self.record(fields);
        self.close(b'}');
    }

    fn open(&mut self, bracket: u8, len: usize) {
        self.next();
        // A length is of things that are in memory.
        let len_32 = u32::try_from(len).unwrap_or(u32::MAX);
        match (self.form, bracket) {
            (Form::Json, _) => self.bytes.push(bracket),
            (_, b'[') => drop(msgpack::write_array_len(&mut self.bytes, len_32)),
            _ => drop(msgpack::write_map_len(&mut self.bytes, len_32)),
        }
    }

    fn close(&mut self, bracket: u8) {
        if self.is_json() {
            self.bytes.push(bracket);
        }
    }

    fn key(&mut self, name: &str) {
        self.next();
        self.bare_text(name);
        if self.is_json() {
            self.bytes.push(b':');
        }
    }

    fn bare_text(&mut self, text: &str) {
        if self.is_json() {
            write_text(text, &mut self.bytes);
        } else {
            let _ = msgpack::write_str(&mut self.bytes, text);
        }
    }

    /// In JSON a comma precedes each value and key but the first. No value ends with an opening bracket or a colon: a
    /// string ends with its quote.
    fn next(&mut self) {
        if self.is_json() && !matches!(self.bytes.last(), None | Some(b'[' | b'{' | b':')) {
            self.bytes.push(b',');
        }
    }
}
