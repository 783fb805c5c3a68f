//! The two hashes of docs/rules.md. They name things whose real names a database must not show.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};

/// `sha32(s)`: base64url without padding of the SHA-256 of the string, 43 characters.
///
/// ```
/// assert_eq!(escale::model::sha32("Zola"), "0koFE8QD73URYucI8dur4zj-2TnVC7gccO_B-idpDMU");
/// ```
pub fn sha32(s: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(s.as_bytes()))
}

/// `shaS(s)`: base64url without padding of bytes 3 to 19 (19 excluded) of the same digest, 22 characters.
///
/// ```
/// assert_eq!(escale::model::sha_s("Zola"), "E8QD73URYucI8dur4zj-2Q");
/// ```
pub fn sha_s(s: &str) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(s.as_bytes())[3..19])
}
