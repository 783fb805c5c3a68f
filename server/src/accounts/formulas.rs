//! The formulas of R72 to R74: the id of an account, the proof of a secret, and the server's signature.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

/// Base64url without padding.
pub(super) fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The id of the account whose public key this is (R72).
pub fn account_id(org: &str, public: &[u8; 32]) -> String {
    let text = [b"escale/1/account\0".as_slice(), org.as_bytes(), b"\0", public].concat();
    b64(&Sha256::digest(text)[..16])
}

/// The fields that a proof and its signature are bound to (R74).
#[derive(Clone, Copy, Debug)]
pub struct Auth<'a> {
    /// The name of the request: `sign-in`, `wraps` or `close`.
    pub request: &'a str,
    /// The org's code.
    pub org: &'a str,
    /// The login.
    pub login: &'a str,
    /// The id of the wrap.
    pub wrap: &'a str,
    /// The server's challenge.
    pub challenge: &'a [u8; 32],
    /// The client's nonce.
    pub nonce: &'a [u8; 32],
    /// The rounds of PBKDF2.
    pub rounds: u32,
    /// The name of the key derivation.
    pub kdf: &'a str,
    /// The other fields of the request, as canonical msgpack.
    pub other: &'a [u8],
}

impl Auth<'_> {
    /// The bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"escale/1/auth".to_vec();
        for text in [self.request, self.org, self.login, self.wrap] {
            put_text(&mut bytes, text);
        }
        bytes.extend_from_slice(self.challenge);
        bytes.extend_from_slice(self.nonce);
        bytes.extend_from_slice(&self.rounds.to_be_bytes());
        put_text(&mut bytes, self.kdf);
        bytes.extend_from_slice(&Sha256::digest(self.other));
        bytes
    }
}

/// A text after its length in two bytes. Texts of requests have at most 4,096 bytes.
fn put_text(bytes: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(&text.as_bytes()[..usize::from(length)]);
}

/// Whether the proof shows the secret that `stored` was made from: SCRAM's construction (RFC 5802), over the bytes of
/// [`Auth::bytes`]. Only digests are compared.
pub fn is_proven(stored: &[u8; 32], auth: &[u8], proof: &[u8; 32]) -> bool {
    let mask = hmac(stored, &[auth]);
    let key: Vec<u8> = proof.iter().zip(mask).map(|(proof, mask)| proof ^ mask).collect();
    Sha256::digest(key)[..] == stored[..]
}

/// The server's signature of its answer to a sign-in, over the bytes of [`Auth::bytes`].
pub fn signature(server: &[u8; 32], auth: &[u8], public: &[u8], wrapped: &[u8]) -> [u8; 32] {
    hmac(server, &[auth, public, wrapped])
}

/// HMAC-SHA-256 over the parts.
pub(super) fn hmac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC takes keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}
