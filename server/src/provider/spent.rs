//! The permanent remains of operations: that their ids were used, and the versions that they gave (R11).

use escale::model::Version;
use sha2::{Digest, Sha256};

/// Bytes that represent an id.
pub(super) const KEY_BYTES: usize = 16;

/// The first of these bytes: the time that a UUID v7 begins with.
const TIME_BYTES: usize = 6;

/// The remains of an operation whose result was purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// The version that it gave; none if it was refused.
    pub v: Option<Version>,
}

/// The key that represents an id within its org and account: a hash, preceded by the time that a UUID v7
/// begins with. So ids of one time are next to each other. A new id is looked up at the end of the index,
/// whose pages are in memory however many ids there are.
pub(super) fn spent_key(org: &str, account: &str, id: &str) -> [u8; KEY_BYTES] {
    let mut hash = Sha256::new();
    for text in [org, account, id] {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    let mut key: [u8; KEY_BYTES] = *hash.finalize()[..].first_chunk().expect("16 of 32 bytes");
    if let Some(ms) = time_of(id) {
        key[..TIME_BYTES].copy_from_slice(&ms.to_be_bytes()[8 - TIME_BYTES..]);
    }
    key
}

/// Milliseconds since 1970 at which a UUID v7 was made; none for any other id.
fn time_of(id: &str) -> Option<u64> {
    let is_uuid = id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            14 => byte == b'7',
            _ => byte.is_ascii_hexdigit(),
        });
    let hex = is_uuid.then(|| [&id[..8], &id[9..13]].concat())?;
    u64::from_str_radix(&hex, 16).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_of_one_time_lie_together_and_differ() {
        let id = |n: u64| format!("018bcfe5-{:04x}-7abc-8def-0123456{n:05x}", 0x6800 + n / 10);
        let keys: Vec<_> = (0..1_000).map(|n| spent_key("o", "a", &id(n))).collect();
        assert_eq!(keys[0][..TIME_BYTES], [0x01, 0x8b, 0xcf, 0xe5, 0x68, 0x00]);
        assert!(keys.iter().map(|key| &key[..TIME_BYTES]).is_sorted());
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
    }

    #[test]
    fn org_account_and_id_count_and_where_each_ends() {
        let of = [
            ("o", "a", "i"),
            ("p", "a", "i"),
            ("o", "b", "i"),
            ("o", "a", "j"),
            ("oa", "", "i"),
            ("", "oa", "i"),
            ("o", "ai", ""),
        ];
        let keys: BTreeSet<_> = of.map(|(org, account, id)| spent_key(org, account, id)).into();
        assert_eq!(keys.len(), of.len());
    }

    #[test]
    fn an_id_that_is_no_uuid_has_no_time() {
        let id = "0190163d-8694-739b-aea5-966c26f8ad91";
        assert_eq!(time_of(id), Some(0x0190_163d_8694));
        let others =
            [id.replace("-7", "-4"), id.replace('-', "0"), id.replace("91", "\u{e9}"), id[1..].to_owned()];
        for other in others.iter().map(String::as_str).chain(["", "op-1"]) {
            assert_eq!(time_of(other), None, "{other}");
        }
    }
}
