//! Primary keys of documents.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, de};
use smol_str::SmolStr;

use super::hash::sha_s;
use crate::error::{Code, Result, fail};
use crate::limits::TEXT_CHARS_MAX;

/// The primary key of a document within its class and org: `shaS(p1 + "/" + p2 ..)`. For the classes `Org`
/// and `Hdr` it is the org's code and `"1"` (docs/rules.md). Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Pk(SmolStr);

impl Pk {
    /// The pk of the document whose key properties have these values, in the schema's order.
    ///
    /// Every part but the last rejects `/`, so that two keys never make one pk.
    pub fn from_key(parts: &[&str]) -> Result<Self> {
        Ok(Pk(SmolStr::new(sha_s(&join_key(parts)?))))
    }

    /// A pk received from elsewhere: only its length and its characters are checked.
    pub fn parse(text: &str) -> Result<Self> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
        if text.is_empty() || text.len() > TEXT_CHARS_MAX || !text.bytes().all(plain) {
            return fail(Code::Malformed, "not a primary key");
        }
        Ok(Pk(SmolStr::new(text)))
    }

    /// Below every pk.
    pub(crate) const fn lowest() -> Self {
        Pk(SmolStr::new_inline(""))
    }

    /// The pk with the text of that hash, as [`Pk::from_key`] makes it.
    pub fn from_hash(hash: &[u8; 16]) -> Self {
        // An opening does this for each document: it allocates no intermediate text.
        let mut text = [0; 22];
        match URL_SAFE_NO_PAD.encode_slice(hash, &mut text).map(|len| std::str::from_utf8(&text[..len])) {
            Ok(Ok(text)) => Pk(SmolStr::new(text)),
            _ => unreachable!("sixteen bytes are twenty-two characters"),
        }
    }

    /// The hash that the pk represents; `None` if it is another text.
    pub fn to_hash(&self) -> Option<[u8; 16]> {
        // The decoder requires this much room.
        let mut bytes = [0; 18];
        if self.0.len() != 22 || URL_SAFE_NO_PAD.decode_slice(self.as_str(), &mut bytes) != Ok(16) {
            return None;
        }
        bytes.first_chunk().copied()
    }

    /// The text of the pk.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Joins the parts of a key by `/`; rejects a `/` in any part but the last.
pub(crate) fn join_key(parts: &[&str]) -> Result<String> {
    let Some((_, heads)) = parts.split_last() else {
        return fail(Code::BadKey, "a key has at least one property");
    };
    if heads.iter().any(|part| part.contains('/')) {
        return fail(Code::BadKey, "only the last property of a key may hold a slash");
    }
    Ok(parts.join("/"))
}

impl fmt::Display for Pk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Pk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Pk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Pk::parse(&SmolStr::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_is_refused_but_in_the_last_part() {
        assert!(Pk::from_key(&["a", "b/c"]).is_ok());
        assert_eq!(Pk::from_key(&["a/b", "c"]).unwrap_err().code(), Code::BadKey);
        assert_eq!(Pk::from_key(&[]).unwrap_err().code(), Code::BadKey);
    }

    #[test]
    fn a_hash_and_its_text_are_one_and_no_other_text_has_one() {
        for n in 0..1_000 {
            let pk = Pk::from_key(&[&n.to_string()]).unwrap();
            assert_eq!(Pk::from_hash(&pk.to_hash().unwrap()), pk);
        }
        assert!(Pk::parse("AAAAAAAAAAAAAAAAAAAAAA").unwrap().to_hash().is_some());
        // The last character has four bits that no hash sets.
        for text in ["AAAAAAAAAAAAAAAAAAAAAB", "AAAAAAAAAAAAAAAAAAAAA.", "AAAAAAAAAAAAAAAAAAAAA", "1"] {
            assert_eq!(Pk::parse(text).unwrap().to_hash(), None, "{text}");
        }
    }
}
