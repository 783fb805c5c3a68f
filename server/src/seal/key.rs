//! The file of the site key.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use escale::{Code, Error, Result};
use zeroize::Zeroizing;

/// Reads a key file. Errors: `bad_option`.
pub(super) fn read(path: &Path) -> Result<Zeroizing<[u8; 32]>> {
    let bad = |what: &str| Error::new(Code::BadOption, format!("--site-key {}: {what}", path.display()));
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(|e| bad(&e.to_string()))?);
    key_of(text.trim()).ok_or_else(|| bad("32 bytes expected, in hexadecimal or base64"))
}

fn key_of(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
        let mut key = Zeroizing::new([0; 32]);
        for (i, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
        }
        return Some(key);
    }
    let bytes = URL_SAFE_NO_PAD
        .decode(text.trim_end_matches('='))
        .or_else(|_| STANDARD.decode(text))
        .ok()
        .map(Zeroizing::new)?;
    let key: Option<[u8; 32]> = bytes.as_slice().try_into().ok();
    key.map(Zeroizing::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_in_both_forms() {
        let key = [0xfa; 32];
        let hex = "fa".repeat(32);
        for text in [hex.clone(), STANDARD.encode(key), URL_SAFE_NO_PAD.encode(key)] {
            assert_eq!(key_of(&text).as_deref(), Some(&key));
        }
        assert_eq!(key_of(&hex[2..]), None);
        assert_eq!(key_of("not a key"), None);
    }
}
