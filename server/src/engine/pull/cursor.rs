//! Cursors: the position where an answer of several pages continues. They are opaque to sessions, signed, and
//! bound to one answer.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use escale::model::{Def, Epoch, Version};
use escale::{Code, Error, Result};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Bytes of the signature that a cursor carries.
const TAG_BYTES: usize = 16;

/// The position where a page ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::engine) struct Cursor {
    /// The `now` of the first page, or its `n` for the clock `sequence`.
    pub first: Version,
    /// The last change sent: its version,
    pub v: Version,
    /// and its pk.
    pub pk: String,
    /// The number of rows of the whole answer, counted at its beginning.
    pub total: u64,
}

/// The answer that a cursor belongs to. It is refused for any other.
#[derive(Clone, Copy, Serialize)]
pub(in crate::engine) struct Bound<'a> {
    pub epoch: &'a Epoch,
    pub org: &'a str,
    pub def: &'a Def,
    pub asked: Version,
}

impl Cursor {
    /// The text that the session sends back.
    pub(in crate::engine) fn sign(&self, key: &[u8], bound: Bound) -> Result<String> {
        let body = serde_json::to_vec(&(self.first, self.v, &self.pk, self.total)).map_err(internal)?;
        let tag = mac(key, &body, bound)?.finalize().into_bytes();
        let mut bytes = tag[..TAG_BYTES].to_vec();
        bytes.extend_from_slice(&body);
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads a cursor that this server signed for this answer. Errors: `bad_cursor`.
    pub(in crate::engine) fn verify(text: &str, key: &[u8], bound: Bound) -> Result<Self> {
        let bad = || Error::new(Code::BadCursor, "the cursor does not belong to this answer");
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| bad())?;
        let (tag, body) = bytes.split_at_checked(TAG_BYTES).ok_or_else(bad)?;
        mac(key, body, bound)?.verify_truncated_left(tag).map_err(|_| bad())?;
        let (first, v, pk, total) = serde_json::from_slice(body).map_err(|_| bad())?;
        Ok(Cursor { first, v, pk, total })
    }
}

fn mac(key: &[u8], body: &[u8], bound: Bound) -> Result<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(internal)?;
    let bound = serde_json::to_vec(&bound).map_err(internal)?;
    mac.update(&(bound.len() as u64).to_be_bytes());
    mac.update(&bound);
    mac.update(body);
    Ok(mac)
}

fn internal(error: impl std::fmt::Display) -> Error {
    Error::new(Code::Internal, error.to_string())
}
