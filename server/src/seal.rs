//! The site key: seals the stored `data` of documents, and binds it to its place in the database.
//!
//! A stored `data` begins with one byte:
//!
//! - 0: clear text.
//! - 1: AES-256-GCM under the site key itself, as earlier versions wrote it. A nonce of 12 bytes and the ciphertext follow.
//! - 2: AES-256-GCM under a key of the org and the month. The month's number in four bytes, a nonce and the ciphertext follow.
//!
//! The seal is bound to the org, the class, the pk and the version. So data that was copied to another document, or put back at
//! another version, does not open.
//!
//! A nonce is random. Therefore no key may seal more than 2^32 records: each org has a key of its own for each month, which
//! allows 1,600 seals a second for all of it.
//!
//! Who can write into the database, and lacks the key, could put records in clear among the sealed ones. So a server with a
//! key opens none, except while it seals a database that was in clear.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use escale::model::Version;
use escale::{Code, Error, Result};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::provider::Place;

const CLEAR: u8 = 0;
const SEALED: u8 = 1;
const SEALED_IN_MONTH: u8 = 2;
const NONCE_BYTES: usize = 12;
const MONTH_BYTES: usize = 4;
const MONTH_MS: u128 = 30 * 24 * 3_600_000;

/// How `data` is stored: sealed under the site key, or in clear.
pub struct Seal {
    key: Option<Zeroizing<[u8; 32]>>,
    adopts: bool,
}

impl Seal {
    /// No site key: data is stored in clear.
    pub fn clear() -> Self {
        Seal { key: None, adopts: false }
    }

    /// Seals under these 32 bytes.
    pub fn with_key(key: &[u8; 32]) -> Self {
        Seal { key: Some(Zeroizing::new(*key)), adopts: false }
    }

    /// The same, for a database in clear: its opening seals all that it holds.
    pub fn adopting(self) -> Self {
        Seal { adopts: true, ..self }
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
        self.key.is_some()
    }

    /// Whether a database in clear may be sealed.
    pub fn may_adopt(&self) -> bool {
        self.adopts
    }

    /// Whether these stored bytes are in clear.
    pub fn is_clear(stored: &[u8]) -> bool {
        !matches!(stored.first(), Some(&(SEALED | SEALED_IN_MONTH)))
    }

    /// The bytes to store for `data` at that place and version.
    pub fn close(&self, at: Place, v: Version, data: &[u8]) -> Result<Vec<u8>> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.close_in((since.as_millis() / MONTH_MS) as u32, at, v, data)
    }

    fn close_in(&self, month: u32, at: Place, v: Version, data: &[u8]) -> Result<Vec<u8>> {
        let Some(key) = &self.key else {
            let mut stored = Vec::with_capacity(1 + data.len());
            stored.push(CLEAR);
            stored.extend_from_slice(data);
            return Ok(stored);
        };
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
        let payload = Payload { msg: data, aad: &bound(at, v) };
        let sealed = cipher_in(key, at.org, month)
            .encrypt(&Nonce::from(nonce), payload)
            .map_err(|_| Error::new(Code::Internal, "a document could not be sealed"))?;
        let mut stored = Vec::with_capacity(1 + MONTH_BYTES + NONCE_BYTES + sealed.len());
        stored.push(SEALED_IN_MONTH);
        stored.extend_from_slice(&month.to_be_bytes());
        stored.extend_from_slice(&nonce);
        stored.extend_from_slice(&sealed);
        Ok(stored)
    }

    /// Recovers the data stored at that place and version. Errors: `storage_failed`, also for data in clear although there is
    /// a site key.
    pub fn open(&self, at: Place, v: Version, stored: &[u8]) -> Result<Vec<u8>> {
        match stored.split_first() {
            Some((&CLEAR, _)) if self.is_sealing() => {
                Err(bad(at, "in clear, although the database is sealed: somebody else wrote it"))
            }
            _ => self.open_or_clear(at, v, stored),
        }
    }

    /// The same while a database is being sealed: its data may still be in clear.
    pub fn open_or_clear(&self, at: Place, v: Version, stored: &[u8]) -> Result<Vec<u8>> {
        let key = self.key.as_ref().ok_or_else(|| bad(at, "sealed, and there is no site key"));
        let cut = || bad(at, "cut short");
        let (cipher, rest) = match stored.split_first() {
            Some((&CLEAR, data)) => return Ok(data.to_vec()),
            Some((&SEALED, rest)) => (cipher_of(key?), rest),
            Some((&SEALED_IN_MONTH, rest)) => {
                let (month, rest) = rest.split_first_chunk::<MONTH_BYTES>().ok_or_else(cut)?;
                (cipher_in(key?, at.org, u32::from_be_bytes(*month)), rest)
            }
            _ => return Err(bad(at, "in no known form")),
        };
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>().ok_or_else(cut)?;
        let payload = Payload { msg: sealed, aad: &bound(at, v) };
        cipher.decrypt(&Nonce::from(*nonce), payload).map_err(|_| bad(at, "its seal is broken"))
    }
}

fn bad(at: Place, what: &str) -> Error {
    Error::new(Code::StorageFailed, format!("a document of {}: {what}", at.class))
}

fn cipher_of(key: &[u8; 32]) -> Aes256Gcm {
    Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key))
}

/// The cipher of an org in a month.
fn cipher_in(key: &[u8; 32], org: &str, month: u32) -> Aes256Gcm {
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key).expect("a key of any length");
    mac.update(b"escale-server/2\0");
    mac.update(&month.to_be_bytes());
    mac.update(org.as_bytes());
    let derived: Zeroizing<[u8; 32]> = Zeroizing::new(mac.finalize().into_bytes().into());
    cipher_of(&derived)
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
    fn a_server_with_a_key_opens_nothing_in_clear() {
        let stored = Seal::clear().close(AT, 5, b"data").unwrap();
        assert_eq!(Seal::clear().open(AT, 5, &stored).unwrap(), b"data");
        let seal = Seal::with_key(&[7; 32]);
        assert_eq!(seal.open(AT, 5, &stored).unwrap_err().code(), Code::StorageFailed);
        assert_eq!(seal.open_or_clear(AT, 5, &stored).unwrap(), b"data");
        assert!(seal.open(AT, 5, &[]).is_err() && seal.open_or_clear(AT, 5, &[3, 0]).is_err());
    }

    #[test]
    fn each_org_has_a_key_of_its_own_for_each_month() {
        let seal = Seal::with_key(&[7; 32]);
        let stored = seal.close_in(600, AT, 5, b"data").unwrap();
        assert_eq!(seal.open(AT, 5, &stored).unwrap(), b"data");
        // Another month, under the same place: the key is another one.
        let mut other = stored.clone();
        other[4] ^= 1;
        assert!(seal.open(AT, 5, &other).is_err());
        let keys = [("o", 600), ("o", 601), ("p", 600)].map(|(org, month)| {
            let sealed = cipher_in(&[7; 32], org, month).encrypt(&Nonce::from([0; 12]), &[0_u8; 32][..]);
            sealed.unwrap()
        });
        assert!(keys[0] != keys[1] && keys[0] != keys[2] && keys[1] != keys[2]);
    }

    #[test]
    fn data_that_an_earlier_version_sealed_opens() {
        let payload = Payload { msg: b"data", aad: &bound(AT, 5) };
        let sealed = cipher_of(&[7; 32]).encrypt(&Nonce::from([9; 12]), payload).unwrap();
        let stored = [&[SEALED][..], &[9; 12], &sealed].concat();
        assert!(!Seal::is_clear(&stored));
        assert_eq!(Seal::with_key(&[7; 32]).open(AT, 5, &stored).unwrap(), b"data");
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
