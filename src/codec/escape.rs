//! The forms of values that JSON lacks: bytes, and keys that look like theirs.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

/// The key under which JSON carries bytes.
pub const BYTES_KEY: &str = "$bytes";

/// Whether a map's key must be escaped in JSON: `$bytes`, `$$bytes`, and so on.
pub fn is_escaped(key: &str) -> bool {
    key.strip_suffix("bytes").is_some_and(|dollars| !dollars.is_empty() && dollars.bytes().all(|b| b == b'$'))
}

/// The text of bytes in JSON.
pub fn bytes_text(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
