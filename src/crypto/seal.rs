//! Seals and opens records: AES-256-GCM with a fresh nonce each time, bound to the record's table and key
//! (R14).

use std::ops::Deref;

pub use escale_cipher::NONCE_BYTES;

use super::keys::StoreKeys;
use super::random::{Random, drawn};
use crate::error::{Code, Error, Result};
use crate::model::{RecordKey, Table};

/// A record as it is stored: nonce, ciphertext, tag. A batch takes nothing else, so no plain bytes reach a
/// device. [`StoreKeys::seal`] makes one, and a device reads one back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// A record that a device found in its backup. Only devices call this, for [`Store::copies`]. The record
    /// was sealed before it was written there: no batch takes other bytes. If somebody changed it since, no
    /// key opens it (R14).
    ///
    /// [`Store::copies`]: crate::store::Store::copies
    pub fn from_backup(bytes: Vec<u8>) -> Self {
        Sealed(bytes)
    }

    /// Any bytes in place of a record, for tests of devices: these do not look into records.
    #[cfg(any(test, feature = "testing"))]
    pub fn stand_in(bytes: impl Into<Vec<u8>>) -> Self {
        Sealed(bytes.into())
    }

    /// The bytes to write.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl Deref for Sealed {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Identifies one sealing of a record. No other sealing has this id, even with the same content and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealId([u8; NONCE_BYTES]);

impl SealId {
    /// The id of a sealed record; `None` if the bytes are too short for one.
    pub fn of(sealed: &[u8]) -> Option<Self> {
        sealed.first_chunk().copied().map(SealId)
    }
}

impl StoreKeys {
    /// Seals a record for its table and key.
    pub fn seal(
        &self,
        table: Table,
        key: RecordKey,
        plain: &[u8],
        random: &mut dyn Random,
    ) -> Result<Sealed> {
        let bytes = seal_with(self.seal_key(table), &drawn(random)?, &place(table, key), plain)?;
        Ok(Sealed(bytes))
    }

    /// Opens a record that was found under that table and key. Error: `record_damaged` if it is not, byte for
    /// byte, the record that was sealed for them.
    pub fn open(&self, table: Table, key: RecordKey, sealed: &[u8]) -> Result<Vec<u8>> {
        open_with(self.seal_key(table), &place(table, key), sealed)
            .ok_or_else(|| Error::new(Code::RecordDamaged, format!("a record of table {}", table.name())))
    }
}

/// The associated data that binds a record to the format, its table and its key.
pub fn place(table: Table, key: RecordKey) -> Vec<u8> {
    let mut bytes = b"escale/1/".to_vec();
    bytes.extend_from_slice(table.name().as_bytes());
    bytes.extend_from_slice(&key.0);
    bytes
}

pub(super) fn seal_with(key: &[u8; 32], nonce: &[u8; 12], aad: &[u8], plain: &[u8]) -> Result<Vec<u8>> {
    escale_cipher::seal(key, nonce, aad, plain)
        .ok_or_else(|| Error::new(Code::TooLarge, "a record too large to seal"))
}

pub(super) fn open_with(key: &[u8; 32], aad: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    escale_cipher::open(key, aad, sealed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::{AccountKey, SeededRandom};

    fn keys(seed: u64) -> StoreKeys {
        let key = AccountKey::make(&mut SeededRandom::new(seed)).unwrap();
        StoreKeys::derive(&key, &[seed as u8; 16])
    }

    #[test]
    fn r14_every_bit_of_a_record_counts() {
        let (keys, mut random) = (keys(1), SeededRandom::new(2));
        let place = keys.record_key(Table::Pages, 5);
        let sealed = keys.seal(Table::Pages, place, b"hello, world", &mut random).unwrap().into_bytes();
        assert_eq!(keys.open(Table::Pages, place, &sealed).unwrap(), b"hello, world");
        for bit in 0..sealed.len() * 8 {
            let mut altered = sealed.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            let error = keys.open(Table::Pages, place, &altered).unwrap_err();
            assert_eq!(error.code(), Code::RecordDamaged, "bit {bit}");
        }
        for len in 0..sealed.len() {
            assert!(keys.open(Table::Pages, place, &sealed[..len]).is_err(), "truncated to {len}");
        }
    }

    #[test]
    fn a_record_without_content_opens() {
        let (keys, mut random) = (keys(1), SeededRandom::new(2));
        let place = keys.record_key(Table::Pages, 5);
        let sealed = keys.seal(Table::Pages, place, b"", &mut random).unwrap().into_bytes();
        assert_eq!(keys.open(Table::Pages, place, &sealed).unwrap(), b"");
    }

    #[test]
    fn r14_a_record_opens_at_its_own_place_only() {
        let (a, b, mut random) = (keys(1), keys(3), SeededRandom::new(2));
        let place = a.record_key(Table::Pages, 5);
        let sealed = a.seal(Table::Pages, place, b"x", &mut random).unwrap().into_bytes();
        assert!(a.open(Table::Pages, a.record_key(Table::Pages, 6), &sealed).is_err(), "another key");
        assert!(a.open(Table::State, place, &sealed).is_err(), "another table");
        assert!(b.open(Table::Pages, place, &sealed).is_err(), "another store");
    }

    #[test]
    fn r15_equal_stays_equal_and_nothing_else_shows() {
        let (a, b) = (keys(1), keys(3));
        assert_eq!(a.record_key(Table::State, 1), a.record_key(Table::State, 1));
        assert_ne!(a.record_key(Table::State, 1), a.record_key(Table::State, 2));
        assert_ne!(a.record_key(Table::State, 1), a.record_key(Table::Pages, 1));
        assert_ne!(a.record_key(Table::State, 1), b.record_key(Table::State, 1));
    }

    #[test]
    fn a_nonce_is_never_used_twice() {
        let (keys, mut random) = (keys(1), SeededRandom::new(7));
        let place = keys.record_key(Table::State, 0);
        let nonces: std::collections::HashSet<Vec<u8>> = (0..10_000)
            .map(|_| keys.seal(Table::State, place, b"", &mut random).unwrap().into_bytes()[..12].to_vec())
            .collect();
        assert_eq!(nonces.len(), 10_000);
    }
}
