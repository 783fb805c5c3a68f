//! AES-256-GCM over whole records.
//!
//! A crate of its own, because the cipher is generic code: it is compiled where it is used, and with the optimisation
//! of that crate. The core is compiled for size, which makes the cipher several times slower.

use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::{Aes256Gcm, Nonce, Tag};

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 12;

/// Bytes of the tag that ends a sealed record.
pub const TAG_BYTES: usize = 16;

/// Seals `plain`: nonce, ciphertext, tag. `None` if it is too large for the cipher.
pub fn seal(key: &[u8; 32], nonce: &[u8; NONCE_BYTES], associated: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(NONCE_BYTES + plain.len() + TAG_BYTES);
    bytes.extend_from_slice(nonce);
    bytes.extend_from_slice(plain);
    let body = &mut bytes[NONCE_BYTES..];
    let tag = Aes256Gcm::new(key.into())
        .encrypt_inout_detached(&Nonce::from(*nonce), associated, body.into())
        .ok()?;
    bytes.extend_from_slice(&tag);
    Some(bytes)
}

/// Opens a sealed record. `None` if it is not, byte for byte, one that was sealed with that key and associated data.
pub fn open(key: &[u8; 32], associated: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, body) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let (body, tag) = body.split_last_chunk::<TAG_BYTES>()?;
    let mut plain = body.to_vec();
    Aes256Gcm::new(key.into())
        .decrypt_inout_detached(
            &Nonce::from(*nonce),
            associated,
            plain.as_mut_slice().into(),
            &Tag::from(*tag),
        )
        .ok()?;
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first vectors for 256 bits in the submission of GCM: a key and a nonce of zeros.
    #[test]
    fn it_is_aes_gcm() {
        let sealed =
            |plain: &[u8]| seal(&[0; 32], &[0; 12], &[], plain).expect("sealed")[NONCE_BYTES..].to_vec();
        assert_eq!(sealed(&[]), 0x530f_8afb_c745_36b9_a963_b4f1_c4cb_738b_u128.to_be_bytes());
        let [text, tag] =
            [0xcea7_403d_4d60_6b6e_074e_c5d3_baf3_9d18, 0xd0d1_c8a7_9999_6bf0_265b_98b5_d48a_b919_u128];
        assert_eq!(sealed(&[0; 16]), [text.to_be_bytes(), tag.to_be_bytes()].concat());
    }

    #[test]
    fn a_record_opens_with_its_key_and_its_place_alone() {
        let sealed = seal(&[1; 32], &[2; 12], b"place", b"plain").expect("sealed");
        assert_eq!(open(&[1; 32], b"place", &sealed).as_deref(), Some(&b"plain"[..]));
        assert_eq!(open(&[3; 32], b"place", &sealed), None);
        assert_eq!(open(&[1; 32], b"other", &sealed), None);
        for length in 0..sealed.len() {
            assert_eq!(open(&[1; 32], b"place", &sealed[..length]), None);
        }
    }
}
