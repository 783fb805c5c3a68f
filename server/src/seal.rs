//! The site key: seals the stored `data` of documents, and binds it to its place in the database.
//!
//! A stored `data` begins with one byte:
//!
//! - 0: clear text.
//! - 1: AES-256-GCM under the site key itself, as earlier versions wrote it. A nonce of 12 bytes and the ciphertext follow.
//! - 2: AES-256-GCM under a key of the org and the month. The month's number in four bytes, a nonce and the ciphertext follow.
//! - 3: the same, of a document with the columns of its [row](row).
//!
//! The seal is bound to the org, the class, the pk and the version. So data that was copied to another document, or put back at
//! another version, does not open. That of a document also tells whether its other columns are those that it was stored with.
//! Results, objects and the changes in the journal have no such columns, and form 2.
//!
//! A nonce is random. Therefore no key may seal more than 2^32 records: each org has a key of its own for each month, which
//! allows 1,600 seals a second for all of it.
//!
//! Who can write into the database, and lacks the site key, could put records in clear among the sealed ones, or documents in
//! an earlier form. So a server with a key opens none of these, except while it seals a whole database.

mod key;
mod row;

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use aes_gcm::aead::{Aead, AeadInOut, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use escale::model::{Def, Version};
use escale::{Code, Error, Result};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::provider::{Change, Document, Place};

const CLEAR: u8 = 0;
const SEALED: u8 = 1;
const SEALED_IN_MONTH: u8 = 2;
const SEALED_WITH_ROW: u8 = 3;
const NONCE_BYTES: usize = 12;
const MONTH_BYTES: usize = 4;
const TAG_BYTES: usize = 16;
const MONTH_MS: u128 = 30 * 24 * 3_600_000;

/// How `data` is stored: sealed under the site key, or in clear.
pub struct Seal {
    key: Option<Zeroizing<[u8; 32]>>,
    adopts: bool,
    /// The cipher that was used last: to derive its key takes longer than to seal a small record.
    last: RwLock<Option<Arc<OrgCipher>>>,
}

/// The cipher of an org in a month.
struct OrgCipher {
    org: String,
    month: u32,
    cipher: Aes256Gcm,
}

impl Seal {
    /// No site key: data is stored in clear.
    pub fn clear() -> Self {
        Seal { key: None, adopts: false, last: RwLock::default() }
    }

    /// Seals under these 32 bytes.
    pub fn with_key(key: &[u8; 32]) -> Self {
        Seal { key: Some(Zeroizing::new(*key)), ..Seal::clear() }
    }

    /// The same, for a database in clear: its opening seals all that it holds.
    pub fn adopting(self) -> Self {
        Seal { adopts: true, ..self }
    }

    /// Reads a key file: 32 bytes as 64 hexadecimal digits or in base64.
    pub fn from_file(path: &Path) -> Result<Self> {
        Ok(Seal::with_key(&*key::read(path)?))
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
        !matches!(stored.first(), Some(&(SEALED | SEALED_IN_MONTH | SEALED_WITH_ROW)))
    }

    /// The bytes to store for `data` at that place and version.
    pub fn close(&self, at: Place, v: Version, data: &[u8]) -> Result<Vec<u8>> {
        self.close_in(this_month(), SEALED_IN_MONTH, (at, v), [data, &[]])
    }

    /// The document to store at that place, with this data. Its other columns are sealed with it.
    pub fn close_document(&self, at: Place, document: Document, data: &[u8]) -> Result<Document> {
        let row = if self.is_sealing() { row::of(&document) } else { Vec::new() };
        let data = self.close_in(this_month(), SEALED_WITH_ROW, (at, document.v), [data, &row])?;
        Ok(Document { data, ..document })
    }

    fn close_in(
        &self,
        month: u32,
        form: u8,
        (at, v): (Place, Version),
        parts: [&[u8]; 2],
    ) -> Result<Vec<u8>> {
        let bytes = parts[0].len() + parts[1].len();
        let Some(key) = &self.key else {
            let mut stored = Vec::with_capacity(1 + bytes);
            stored.push(CLEAR);
            for part in parts {
                stored.extend_from_slice(part);
            }
            return Ok(stored);
        };
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|e| Error::new(Code::Internal, e.to_string()))?;
        let mut stored = Vec::with_capacity(1 + MONTH_BYTES + NONCE_BYTES + bytes + TAG_BYTES);
        stored.push(form);
        stored.extend_from_slice(&month.to_be_bytes());
        stored.extend_from_slice(&nonce);
        let begin = stored.len();
        for part in parts {
            stored.extend_from_slice(part);
        }
        let tag = self
            .cipher_in(key, at.org, month)
            .cipher
            .encrypt_inout_detached(&Nonce::from(nonce), &bound(form, at, v), stored[begin..].as_mut().into())
            .map_err(|_| Error::new(Code::Internal, "a document could not be sealed"))?;
        stored.extend_from_slice(&tag);
        Ok(stored)
    }

    /// Recovers the data stored at that place and version, if it is not a document's. Errors: `storage_failed`, also for data
    /// in clear although there is a site key.
    pub fn open(&self, at: Place, v: Version, stored: &[u8]) -> Result<Vec<u8>> {
        match stored.first() {
            Some(&CLEAR) if self.is_sealing() => Err(in_clear(at)),
            Some(&SEALED_WITH_ROW) => Err(bad(at, "sealed as a document, and read as something else")),
            _ => self.open_or_clear(at, v, stored),
        }
    }

    /// The same while a database is being sealed: its data may still be in clear.
    pub fn open_or_clear(&self, at: Place, v: Version, stored: &[u8]) -> Result<Vec<u8>> {
        match stored.split_first() {
            Some((&CLEAR, data)) => Ok(data.to_vec()),
            _ => self.decrypt((at, v), stored),
        }
    }

    /// Recovers the state of a document from an entry of the journal, which has no other columns of it. Errors: as for
    /// [`Seal::open`].
    pub fn open_state(&self, at: Place, v: Version, stored: &[u8]) -> Result<Vec<u8>> {
        match stored.first() {
            Some(&SEALED_WITH_ROW) => self.decrypt_checked((at, v), stored, |_| true),
            _ => self.open(at, v, stored),
        }
    }

    /// Recovers the data of a document or tombstone. Errors: `storage_failed`, also if another column is not as the document
    /// was stored.
    pub fn open_document(&self, at: Place, document: &Document) -> Result<Vec<u8>> {
        self.open_checked((at, document.v), &document.data, |row| row == row::of(document))
    }

    /// The same for the member or the tombstone of a def. Errors: also if the document does not belong there.
    pub fn open_change(&self, (org, def): (&str, &Def), change: &Change) -> Result<Vec<u8>> {
        let at = Place { org, class: def.class().as_str(), pk: &change.pk };
        self.open_checked((at, change.v), &change.data, |row| row::describes(row, def, change))
    }

    /// The same while a whole database is sealed. The document may have an earlier form. It may be in clear if the whole
    /// database is.
    pub fn open_earlier(&self, at: Place, document: &Document, is_clear: bool) -> Result<Vec<u8>> {
        match document.data.first() {
            Some(&SEALED_WITH_ROW) => self.open_document(at, document),
            Some(&CLEAR) if is_clear => self.open_or_clear(at, document.v, &document.data),
            _ => self.open(at, document.v, &document.data),
        }
    }

    /// Opens the data of a document whose row passes. Without a site key there is no row.
    fn open_checked(
        &self,
        (at, v): (Place, Version),
        stored: &[u8],
        is_right: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Vec<u8>> {
        match stored.first() {
            _ if !self.is_sealing() => self.open_or_clear(at, v, stored),
            Some(&CLEAR) => Err(in_clear(at)),
            Some(&(SEALED | SEALED_IN_MONTH)) => {
                Err(bad(at, "sealed without its row: somebody has put it back"))
            }
            _ => self.decrypt_checked((at, v), stored, is_right),
        }
    }

    fn decrypt_checked(
        &self,
        (at, v): (Place, Version),
        stored: &[u8],
        is_right: impl FnOnce(&[u8]) -> bool,
    ) -> Result<Vec<u8>> {
        let mut data = self.decrypt((at, v), stored)?;
        let begin = row::begin(&data).filter(|begin| is_right(&data[*begin..]));
        data.truncate(
            begin.ok_or_else(|| bad(at, "its row is not as it was sealed: somebody has altered it"))?,
        );
        Ok(data)
    }

    /// Opens bytes that are sealed.
    fn decrypt(&self, (at, v): (Place, Version), stored: &[u8]) -> Result<Vec<u8>> {
        let key = self.key.as_ref().ok_or_else(|| bad(at, "sealed, and there is no site key"));
        let cut = || bad(at, "cut short");
        let open = |form: u8, cipher: &Aes256Gcm, rest: &[u8]| {
            let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>().ok_or_else(cut)?;
            let payload = Payload { msg: sealed, aad: &bound(form, at, v) };
            cipher.decrypt(&Nonce::from(*nonce), payload).map_err(|_| bad(at, "its seal is broken"))
        };
        match stored.split_first() {
            Some((&SEALED, rest)) => open(SEALED, &cipher_of(key?), rest),
            Some((&form @ (SEALED_IN_MONTH | SEALED_WITH_ROW), rest)) => {
                let (month, rest) = rest.split_first_chunk::<MONTH_BYTES>().ok_or_else(cut)?;
                open(form, &self.cipher_in(key?, at.org, u32::from_be_bytes(*month)).cipher, rest)
            }
            _ => Err(bad(at, "in no known form")),
        }
    }

    /// The cipher of an org in a month.
    fn cipher_in(&self, key: &[u8; 32], org: &str, month: u32) -> Arc<OrgCipher> {
        let last = self.last.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(last) = last.filter(|last| last.month == month && last.org == org) {
            return last;
        }
        let derived = Arc::new(OrgCipher { org: org.to_owned(), month, cipher: derived(key, org, month) });
        *self.last.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&derived));
        derived
    }
}

/// The number of this month.
fn this_month() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_millis() / MONTH_MS) as u32
}

fn in_clear(at: Place) -> Error {
    bad(at, "in clear, although the database is sealed: somebody else wrote it")
}

fn bad(at: Place, what: &str) -> Error {
    Error::new(Code::StorageFailed, format!("a document of {}: {what}", at.class))
}

fn cipher_of(key: &[u8; 32]) -> Aes256Gcm {
    Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key))
}

/// The cipher of an org in a month, from the site key.
fn derived(key: &[u8; 32], org: &str, month: u32) -> Aes256Gcm {
    let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key).expect("a key of any length");
    mac.update(b"escale-server/2\0");
    mac.update(&month.to_be_bytes());
    mac.update(org.as_bytes());
    let derived: Zeroizing<[u8; 32]> = Zeroizing::new(mac.finalize().into_bytes().into());
    cipher_of(&derived)
}

/// The text that a seal is bound to. Each part is preceded by its length, so that no two places give the same
/// bytes. With a row, a seal opens as nothing else.
fn bound(form: u8, at: Place, v: Version) -> Vec<u8> {
    let label: &[u8] = if form == SEALED_WITH_ROW { b"escale-server/3" } else { b"escale-server/1" };
    let mut bytes = label.to_vec();
    for text in [at.org, at.class, at.pk] {
        row::put_text(&mut bytes, text);
    }
    bytes.extend_from_slice(&v.to_be_bytes());
    bytes
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
