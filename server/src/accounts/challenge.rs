//! Challenges: signed, so that strangers cannot fill the database with them. Only those of accepted proofs are noted.

use super::formulas::hmac;

/// How long a challenge is valid, in milliseconds (R74).
pub(super) const VALID_MS: u64 = 60_000;

/// A challenge for a wrap of a login, made at that time.
pub(super) fn make(secret: &[u8; 32], place: &[&str; 3], now_ms: u64, random: [u8; 8]) -> [u8; 32] {
    let mut challenge = [0; 32];
    challenge[..8].copy_from_slice(&now_ms.to_be_bytes());
    challenge[8..16].copy_from_slice(&random);
    let tag = tag(secret, place, &challenge);
    challenge[16..].copy_from_slice(&tag);
    challenge
}

/// The time at which the challenge ends; none if it was made for another place, by another site, or has ended.
pub(super) fn until(secret: &[u8; 32], place: &[&str; 3], now_ms: u64, challenge: &[u8; 32]) -> Option<u64> {
    if tag(secret, place, challenge)[..] != challenge[16..] {
        return None;
    }
    let made = challenge.first_chunk().map(|ms| u64::from_be_bytes(*ms))?;
    let until = made.saturating_add(VALID_MS);
    // Another instance's clock may be a little ahead.
    (now_ms < until && made <= now_ms.saturating_add(VALID_MS)).then_some(until)
}

fn tag(secret: &[u8; 32], place: &[&str; 3], challenge: &[u8; 32]) -> [u8; 16] {
    let mut bytes = Vec::new();
    for text in place {
        bytes.extend_from_slice(&(text.len() as u64).to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    let full = hmac(secret, &[&bytes, &challenge[..16]]);
    full.first_chunk().copied().unwrap_or([0; 16])
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: [&str; 3] = ["o", "ada", "passphrase"];

    #[test]
    fn a_challenge_is_valid_for_a_minute_and_for_its_place_alone() {
        let (secret, now) = ([7; 32], 1_000_000);
        let made = make(&secret, &PLACE, now, [1; 8]);
        assert_eq!(until(&secret, &PLACE, now, &made), Some(now + VALID_MS));
        assert_eq!(until(&secret, &PLACE, now + VALID_MS, &made), None);
        assert_eq!(until(&[8; 32], &PLACE, now, &made), None, "another site");
        for place in [
            ["p", "ada", "passphrase"],
            ["o", "bob", "passphrase"],
            ["o", "ada", "x"],
            ["oa", "da", "passphrase"],
        ] {
            assert_eq!(until(&secret, &place, now, &made), None, "{place:?}");
        }
        for bit in 0..256 {
            let mut altered = made;
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(until(&secret, &PLACE, now, &altered), None, "bit {bit}");
        }
    }
}
