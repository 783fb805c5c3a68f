//! K, the keys derived from it, and the names that depend on the account (docs/format.md, R15).

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::random::Random;
use crate::error::Result;
use crate::model::{RecordKey, Table, sha_s};

/// The name of an account's store. A reader who guesses both org and account learns that a store exists
/// (R13).
pub fn store_name(org: &str, account: &str) -> String {
    format!("escale1-{}", sha_s(&format!("{org}/{account}")))
}

/// The salt of PBKDF2 for an account's passphrase: `SHA-256("escale/1/" + org + "/" + account)`.
pub fn kdf_salt(org: &str, account: &str) -> [u8; 32] {
    Sha256::digest(format!("escale/1/{org}/{account}").as_bytes()).into()
}

/// X: the key derived from the passphrase, or the application's own 32 bytes in its place. It unwraps K.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct DerivedKey([u8; 32]);

impl DerivedKey {
    /// The 32 bytes that the key derivation, or the application, gave.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        DerivedKey(bytes)
    }

    /// The 32 bytes, with which the application can open the same store again.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// A key derived from this one for one purpose.
    pub(super) fn derive(&self, purpose: &str, context: &[u8]) -> [u8; 32] {
        derive(&self.0, purpose, context)
    }
}

/// K: the account's key, which never changes. It is stored only wrapped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct AccountKey(pub(super) [u8; 32]);

impl AccountKey {
    /// A new K.
    pub fn make(random: &mut dyn Random) -> Result<Self> {
        // Filled in place: the bytes of K are nowhere else.
        let mut key = AccountKey([0; 32]);
        random.fill(&mut key.0)?;
        Ok(key)
    }
}

/// The sub-keys of K for one store: one to seal each table, one to name records.
///
/// They depend on the store's own random id, so that two devices of an account share no key and no nonce
/// budget.
#[derive(Clone, ZeroizeOnDrop)]
pub struct StoreKeys {
    seal: [[u8; 32]; Table::ALL.len()],
    index: [u8; 32],
    files: [[u8; 32]; 2],
}

impl StoreKeys {
    /// The keys of the store with that id.
    pub fn derive(key: &AccountKey, store_id: &[u8; 16]) -> Self {
        let seal = Table::ALL.map(|table| derive(&key.0, &format!("seal/{}", table.name()), store_id));
        let of = |purpose| derive(&key.0, purpose, store_id);
        StoreKeys { seal, index: of("index"), files: [of("files/seal"), of("files/index")] }
    }

    /// The name of the record with that number: equal stays equal, nothing else shows (R15).
    pub fn record_key(&self, table: Table, number: u64) -> RecordKey {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.index).expect("any length of key");
        mac.update(table.name().as_bytes());
        mac.update(&number.to_be_bytes());
        let digest = mac.finalize().into_bytes();
        RecordKey(digest[..16].try_into().expect("16 of 32 bytes"))
    }

    /// The keys of the store's files: to seal their records, and to name them.
    pub fn of_files(&self) -> &[[u8; 32]; 2] {
        &self.files
    }

    /// The key that the records of a table are sealed with. Only a device with its own cipher needs it.
    pub fn seal_key(&self, table: Table) -> &[u8; 32] {
        &self.seal[table as usize]
    }
}

/// HMAC-SHA-256 as a key derivation: the purposes are distinct, the key is uniform.
fn derive(key: &[u8; 32], purpose: &str, context: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length of key");
    mac.update(b"escale/1/");
    mac.update(purpose.as_bytes());
    mac.update(&[0]);
    mac.update(context);
    mac.finalize().into_bytes().into()
}
