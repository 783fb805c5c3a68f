//! Files: a document references bytes by their hash (R23).
//!
//! A reference is a plain map in a property of the type `file` or `file[]`. The bytes are objects of their own, under
//! their hashes, and never in a document.

use std::collections::BTreeMap;

use super::Class;
use crate::error::{Code, Result, fail};
use crate::limits::{FILE_BYTES_MAX, FILES_MAX, TEXT_CHARS_MAX};
use crate::model::Value;

/// Characters of an object's name: base64url of 32 bytes.
const SHA_CHARS: usize = 43;

/// A reference to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRef<'d> {
    /// The name of its object.
    pub sha: &'d str,
    /// Its bytes.
    pub size: u64,
}

/// Whether this can be the name of an object: base64url of 32 bytes without padding, as an encoder writes it.
pub fn is_sha(text: &str) -> bool {
    let is_digit = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    // The last digit has four bits of the hash. The other two are 0: otherwise one hash would have several names.
    text.len() == SHA_CHARS
        && text.bytes().all(|c| is_digit(&c))
        && text.ends_with(|c| "AEIMQUYcgkosw048".contains(c))
}

impl<'d> FileRef<'d> {
    /// The reference that this value is; none if it has another form.
    pub fn read(value: &'d Value) -> Option<Self> {
        let map = value.as_map()?;
        let is_good = |(name, value): (&String, &Value)| match name.as_str() {
            "sha" => value.as_str().is_some_and(is_sha),
            "size" => value.as_u64().is_some_and(|size| size <= FILE_BYTES_MAX),
            "type" | "name" | "digest" => value.as_str().is_some_and(|text| text.len() <= TEXT_CHARS_MAX),
            _ => false,
        };
        if !map.iter().all(is_good) {
            return None;
        }
        Some(FileRef { sha: map.get("sha")?.as_str()?, size: map.get("size")?.as_u64()? })
    }
}

impl Class {
    /// Whether its documents may reference files.
    pub fn has_files(&self) -> bool {
        self.properties.iter().any(|(_, property)| property.has_files())
    }

    /// The files that a document with this data references. Errors: `bad_value` for another value than a reference,
    /// `too_large` for too many.
    pub fn files<'d>(&self, data: &'d BTreeMap<String, Value>) -> Result<Vec<FileRef<'d>>> {
        let mut found = Vec::new();
        for (name, property) in self.properties.iter().filter(|(_, property)| property.has_files()) {
            let kind = property.kind.as_str();
            let values = match data.get(name.as_str()) {
                None | Some(Value::Null) => continue,
                Some(Value::Array(values)) if kind == "file[]" => values.as_slice(),
                Some(value) if kind == "file" => std::slice::from_ref(value),
                Some(_) => return fail(Code::BadValue, format!("property {name} must be a list of files")),
            };
            for value in values {
                let Some(file) = FileRef::read(value) else {
                    let what = format!("property {name}: a file is {{ sha, size, type?, name?, digest? }}");
                    return fail(Code::BadValue, what);
                };
                found.push(file);
            }
        }
        if found.len() > FILES_MAX {
            return fail(Code::TooLarge, format!("a document references {FILES_MAX} files at most"));
        }
        Ok(found)
    }
}
