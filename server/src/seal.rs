//! The site key: seals the stored `data` of documents, and binds it to its place in the database.
//!
//! A stored `data` begins with one byte: 0 for clear text, or 1 for AES-256-GCM with a nonce of 12 bytes. The
//! seal is bound to the org, the class, the pk and the version. So data that was copied to another document,
//! or put back at an older version, does not open.

use std::path::Path;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use escale::model::Version;
use escale::{Code, Error, Result};
use zeroize::Zeroizing;

use crate::provider::Place;

const CLEAR: u8 = 0;
const SEALED: u8 = 1;
const NONCE_BYTES: usize = 12;

/// How `data` is stored: sealed under the site key, or in clear.
pub struct Seal {
    cipher: Option<Box<Aes256Gcm>>,
}

impl Seal {
    /// No site key: data is stored in clear.
    pub fn clear() -> Self {
        Seal { cipher: None }
    }

    /// Seals under these 32 bytes.
    pub fn with_key(key: &[u8; 32]) -> Self {
        Seal { cipher: Some(Box::new(Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key)))) }
    }

    /// Reads a key file: 32 bytes as 64 hexadecimal digits or in base64.
    pub fn from_file(path: &Path) -> Result<Self> {
        let bad = |what: &str| Error::new(Code::BadOption, format!("--site-key {}: {what}", path.display()));
        let text = Zeroizing::new(std::fs::read_to_string(path).map_err(|e| bad(&e.to_string()))?);
        let key = key_of(text.trim()).ok_or_else(|| bad("32 bytes expected, in hexadecimal or base64"))?;
        Ok(Seal::with_key(&key))
    }

    /// Whether there is a site key.
    pub fn is_sealing(&self) -> bool {
        self.cipher.is_some()
    }

    /// Whether these stored bytes are in clear.
    pub fn is_clear(stored: &[u8]) -> bool {
        stored.first() != Some(&SEALED)
    }

    /// The bytes to store for `data` at that place and version.
    pub fn close(&self, at: Place, v: Version, data: &[u8]) -> Result<Vec<u8>> {
        let Some(cipher) = &self.cipher else {
            let mut stored = Vec::with_capacity(1 + data.len());
            stored.push(CLEAR);
            stored.extend_from_slice(data);
            return Ok(stored);
        };
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
        let payload = Payload { msg: data, aad: &bound(at, v) };
        let sealed = cipher
            .encrypt(&Nonce::from(nonce), payload)
            .map_err(|_| Error::new(Code::Internal, "a document could not be sealed"))?;
        let mut stored = Vec::with_capacity(1 + NONCE_BYTES + sealed.len());
        stored.push(SEALED);
        stored.extend_from_slice(&nonce);
        stored.extend_from_slice(&sealed);
        Ok(stored)
    }

    /// Recovers the data stored at that place and version. Errors: `storage_failed`.
    pub fn open(&self, at: Place, v: Version, stored: &[u8]) -> Result<Vec<u8>> {
        let bad = |what: &str| Error::new(Code::StorageFailed, format!("a document of {}: {what}", at.class));
        match (stored.split_first(), &self.cipher) {
            (Some((&CLEAR, data)), _) => Ok(data.to_vec()),
            (Some((&SEALED, rest)), Some(cipher)) => {
                let (nonce, sealed) =
                    rest.split_first_chunk::<NONCE_BYTES>().ok_or_else(|| bad("cut short"))?;
                cipher
                    .decrypt(&Nonce::from(*nonce), Payload { msg: sealed, aad: &bound(at, v) })
                    .map_err(|_| bad("its seal is broken"))
            }
            (Some((&SEALED, _)), None) => Err(bad("sealed, and there is no site key")),
            _ => Err(bad("in no known form")),
        }
    }
}

/// The text that a seal is bound to. Each part is preceded by its length, so that no two places give the same
/// bytes.
fn bound(at: Place, v: Version) -> Vec<u8> {
    let mut bytes = b"escale-server/1".to_vec();
    for text in [at.org, at.class, at.pk] {
        bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(&v.to_be_bytes());
    bytes
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const AT: Place = Place { org: "o", class: "C", pk: "p" };

    #[test]
    fn what_was_sealed_opens_where_it_stood_and_nowhere_else() {
        let seal = Seal::with_key(&[7; 32]);
        let stored = seal.close(AT, 5, b"data").unwrap();
        assert!(!stored.windows(4).any(|w| w == b"data"));
        assert_eq!(seal.open(AT, 5, &stored).unwrap(), b"data");
        for (at, v) in [(AT, 4), (Place { pk: "q", ..AT }, 5), (Place { org: "oC", class: "", ..AT }, 5)] {
            assert_eq!(seal.open(at, v, &stored).unwrap_err().code(), Code::StorageFailed);
        }
        for i in 0..stored.len() {
            let mut altered = stored.clone();
            altered[i] ^= 0x80;
            assert!(seal.open(AT, 5, &altered).is_err(), "byte {i}");
            assert!(seal.open(AT, 5, &stored[..i]).is_err(), "cut at {i}");
        }
        assert!(Seal::clear().open(AT, 5, &stored).is_err());
    }

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
