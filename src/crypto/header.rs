//! The header of a store: how K is wrapped. It is the one record in clear; docs/format.md gives its bytes.
//!
//! Three failures have different errors (docs/security.md):
//! - no header: there is no store;
//! - a header that its own checksum or K's tag contradicts: `store_damaged`;
//! - a key that the header's check refuses: `wrong_passphrase`.

use sha2::{Digest, Sha256};

use super::keys::{AccountKey, DerivedKey};
use super::random::{Random, drawn};
use super::seal::{open_with, seal_with};
use crate::codec::{Blob, names, pack_named, record, unpack};
use crate::error::{Code, Error, Result, fail};
use crate::limits::KDF_ROUNDS;

const MAGIC: &[u8; 4] = b"ESCL";
/// The format of stores: it covers the header and every record.
const FORMAT: u16 = 1;
const SUM_BYTES: usize = 32;
const HEADER_BYTES_MAX: usize = 64 << 10;

/// The secret that X is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapKind {
    /// A passphrase, through PBKDF2-HMAC-SHA256.
    Passphrase,
    /// 32 bytes from the application.
    Key,
}

names!(WrapKind { Passphrase = "passphrase", Key = "key" });

/// K wrapped under one X. A header has a list of them, so that a second way to K can be added later (K held
/// by the server).
#[derive(Clone)]
struct Wrap {
    by: WrapKind,
    /// Rounds of PBKDF2; 0 for a key.
    rounds: u32,
    check: Blob,
    wrapped: Blob,
}

record!(Wrap { by, rounds, check, wrapped });

#[derive(Clone)]
struct Body {
    store: Blob,
    wraps: Vec<Wrap>,
}

record!(Body { store, wraps });

/// The header, read and checked.
#[derive(Clone)]
pub struct Header {
    store_id: [u8; 16],
    wraps: Vec<Wrap>,
}

impl Header {
    /// The header of a new store, with a new K wrapped under that X.
    pub fn make(
        by: WrapKind,
        x: &DerivedKey,
        rounds: u32,
        random: &mut dyn Random,
    ) -> Result<(Self, AccountKey)> {
        let store_id = drawn(random)?;
        let key = AccountKey::make(random)?;
        let wrap = wrap(by, rounds, x, &key, &store_id, random)?;
        Ok((Header { store_id, wraps: vec![wrap] }, key))
    }

    /// Reads a header. Errors: `store_too_new` for a later format, `store_damaged`.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::new(Code::StoreDamaged, "the store's header is damaged");
        if bytes.len() > HEADER_BYTES_MAX {
            return Err(damaged());
        }
        let (signed, sum) = bytes.split_last_chunk::<SUM_BYTES>().ok_or_else(damaged)?;
        let rest = signed.strip_prefix(MAGIC).ok_or_else(damaged)?;
        let (format, body) = rest.split_first_chunk().ok_or_else(damaged)?;
        if Sha256::digest(signed)[..] != sum[..] {
            return Err(damaged());
        }
        let format = u16::from_be_bytes(*format);
        if format == 0 {
            return Err(damaged());
        }
        if format > FORMAT {
            return fail(Code::StoreTooNew, format!("format {format}, this version knows {FORMAT}"));
        }
        let body: Body = unpack(body).ok_or_else(damaged)?;
        let store_id = body.store.0.try_into().map_err(|_| damaged())?;
        for wrap in &body.wraps {
            if wrap.by == WrapKind::Passphrase && !(KDF_ROUNDS.0..=KDF_ROUNDS.1).contains(&wrap.rounds) {
                return fail(Code::StoreDamaged, "the header asks for a number of rounds out of bounds");
            }
        }
        Ok(Header { store_id, wraps: body.wraps })
    }

    /// The bytes to write.
    pub fn to_bytes(&self) -> Vec<u8> {
        let body = Body { store: Blob(self.store_id.to_vec()), wraps: self.wraps.clone() };
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT.to_be_bytes());
        bytes.extend(pack_named(&body).expect("bytes and numbers always serialise"));
        let sum = Sha256::digest(&bytes);
        bytes.extend_from_slice(&sum);
        bytes
    }

    /// The random id of the store.
    pub fn store_id(&self) -> &[u8; 16] {
        &self.store_id
    }

    /// The rounds of PBKDF2 that lead to X; `wrong_passphrase` if K is not wrapped in that way.
    pub fn rounds(&self, by: WrapKind) -> Result<u32> {
        self.wrap(by).map(|wrap| wrap.rounds)
    }

    /// K. Errors: `wrong_passphrase`, `store_damaged`.
    pub fn unwrap(&self, by: WrapKind, x: &DerivedKey) -> Result<AccountKey> {
        let wrap = self.wrap(by)?;
        if check_of(x, &self.store_id) != wrap.check.0[..] {
            return fail(Code::WrongPassphrase, "the store does not open with it");
        }
        let damaged = || Error::new(Code::StoreDamaged, "the wrapped key is damaged");
        let aad = wrap_aad(wrap.by, wrap.rounds, &self.store_id);
        let plain =
            open_with(&x.derive("wrap", &self.store_id), &aad, &wrap.wrapped.0).ok_or_else(damaged)?;
        Ok(AccountKey(plain.try_into().map_err(|_| damaged())?))
    }

    /// The same store with K under another X. No record is encrypted again.
    pub fn rewrap(
        &self,
        key: &AccountKey,
        by: WrapKind,
        x: &DerivedKey,
        rounds: u32,
        random: &mut dyn Random,
    ) -> Result<Self> {
        let mut header = self.clone();
        header.wraps.retain(|wrap| wrap.by != by);
        header.wraps.push(wrap(by, rounds, x, key, &self.store_id, random)?);
        Ok(header)
    }

    fn wrap(&self, by: WrapKind) -> Result<&Wrap> {
        let detail = match by {
            WrapKind::Passphrase => "the store opens with a key, not with a passphrase",
            WrapKind::Key => "the store opens with a passphrase, not with a key",
        };
        self.wraps.iter().find(|wrap| wrap.by == by).ok_or_else(|| Error::new(Code::WrongPassphrase, detail))
    }
}

fn wrap(
    by: WrapKind,
    rounds: u32,
    x: &DerivedKey,
    key: &AccountKey,
    store_id: &[u8; 16],
    random: &mut dyn Random,
) -> Result<Wrap> {
    if by == WrapKind::Passphrase && !(KDF_ROUNDS.0..=KDF_ROUNDS.1).contains(&rounds) {
        return fail(Code::BadOption, format!("rounds must be {} to {}", KDF_ROUNDS.0, KDF_ROUNDS.1));
    }
    let nonce = drawn(random)?;
    let wrapped = seal_with(&x.derive("wrap", store_id), &nonce, &wrap_aad(by, rounds, store_id), &key.0)?;
    Ok(Wrap { by, rounds, check: Blob(check_of(x, store_id).to_vec()), wrapped: Blob(wrapped) })
}

/// A value that tells a wrong X from a damaged header, and reveals nothing of K.
fn check_of(x: &DerivedKey, store_id: &[u8; 16]) -> [u8; 32] {
    x.derive("check", store_id)
}

fn wrap_aad(by: WrapKind, rounds: u32, store_id: &[u8; 16]) -> Vec<u8> {
    let mut aad = b"escale/1/k/".to_vec();
    aad.push(by as u8);
    aad.extend_from_slice(&rounds.to_be_bytes());
    aad.extend_from_slice(store_id);
    aad
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::SeededRandom;

    const ROUNDS: u32 = 600_000;

    fn x(n: u8) -> DerivedKey {
        DerivedKey::from_bytes([n; 32])
    }

    fn made() -> (Header, AccountKey) {
        Header::make(WrapKind::Passphrase, &x(1), ROUNDS, &mut SeededRandom::new(9)).unwrap()
    }

    fn code<T>(result: Result<T>) -> Code {
        result.err().expect("an error").code()
    }

    #[test]
    fn k_comes_back_under_the_same_x_only() {
        let (header, key) = made();
        let read = Header::from_bytes(&header.to_bytes()).unwrap();
        assert_eq!(read.unwrap(WrapKind::Passphrase, &x(1)).unwrap().0, key.0);
        assert_eq!(code(read.unwrap(WrapKind::Passphrase, &x(2))), Code::WrongPassphrase);
        assert_eq!(code(read.unwrap(WrapKind::Key, &x(1))), Code::WrongPassphrase);
    }

    #[test]
    fn every_altered_byte_is_a_damaged_store_never_a_wrong_passphrase() {
        let bytes = made().0.to_bytes();
        for i in 0..bytes.len() {
            let mut altered = bytes.clone();
            altered[i] ^= 0x41;
            assert_eq!(code(Header::from_bytes(&altered)), Code::StoreDamaged, "byte {i}");
            assert_eq!(code(Header::from_bytes(&bytes[..i])), Code::StoreDamaged, "truncated to {i}");
        }
    }

    /// The associated data of K's seal names the kind of X, the rounds and the store. So none of them can be
    /// exchanged.
    #[test]
    fn k_is_sealed_for_its_kind_its_rounds_and_its_store_alone() {
        let (mut header, key) = made();
        let (id, other) = (*header.store_id(), [0x77; 16]);
        let aad = |kind: u8, rounds: u32, store: &[u8]| {
            [b"escale/1/k/".as_slice(), &[kind], &rounds.to_be_bytes(), store].concat()
        };
        let seals = [
            ("as it is", aad(0, ROUNDS, &id), true),
            ("another kind", aad(1, ROUNDS, &id), false),
            ("other rounds", aad(0, ROUNDS + 1, &id), false),
            ("another store", aad(0, ROUNDS, &other), false),
            ("no parameters", aad(0, ROUNDS, &id)[..11].to_vec(), false),
        ];
        for (what, aad, opens) in seals {
            let sealed = seal_with(&x(1).derive("wrap", &id), &[5; 12], &aad, &key.0).unwrap();
            header.wraps[0].wrapped = Blob(sealed);
            let opened = header.unwrap(WrapKind::Passphrase, &x(1));
            assert_eq!(opened.as_ref().ok().map(|opened| opened.0), opens.then_some(key.0), "{what}");
            assert_eq!(
                opened.err().map(|error| error.code()),
                (!opens).then_some(Code::StoreDamaged),
                "{what}"
            );
        }
    }

    #[test]
    fn a_later_format_is_refused_by_name() {
        for later in [FORMAT + 1, u16::MAX] {
            assert_eq!(code(Header::from_bytes(&of_format(later))), Code::StoreTooNew, "format {later}");
        }
    }

    #[test]
    fn there_is_no_format_zero() {
        assert_eq!(code(Header::from_bytes(&of_format(0))), Code::StoreDamaged);
    }

    /// A valid header of that format.
    fn of_format(format: u16) -> Vec<u8> {
        let mut bytes = made().0.to_bytes();
        bytes.truncate(bytes.len() - SUM_BYTES);
        bytes[MAGIC.len()..MAGIC.len() + 2].copy_from_slice(&format.to_be_bytes());
        let sum = Sha256::digest(&bytes);
        bytes.extend_from_slice(&sum);
        bytes
    }

    /// A browser gives wasm 1 MiB of stack, and the code that opens a store is already called from deep down.
    #[test]
    fn a_header_nested_deep_is_damaged_and_no_fallen_stack() {
        let mut bytes = made().0.to_bytes();
        bytes.truncate(MAGIC.len() + 2);
        bytes.extend_from_slice(b"\x81\xa1x");
        bytes.extend([0x91; 1_000]);
        bytes.push(0xc0);
        let sum = Sha256::digest(&bytes);
        bytes.extend_from_slice(&sum);
        let read = std::thread::Builder::new().stack_size(64 << 10);
        let read = read.spawn(move || code(Header::from_bytes(&bytes))).unwrap();
        assert_eq!(read.join().unwrap(), Code::StoreDamaged);
    }

    #[test]
    fn rounds_out_of_bounds_are_refused_before_any_work() {
        let (mut header, _) = made();
        for rounds in [0, 1, 599_999, 10_000_001, u32::MAX] {
            header.wraps[0].rounds = rounds;
            assert_eq!(code(Header::from_bytes(&header.to_bytes())), Code::StoreDamaged, "{rounds} rounds");
            let made = Header::make(WrapKind::Passphrase, &x(1), rounds, &mut SeededRandom::new(1));
            assert_eq!(code(made), Code::BadOption);
        }
    }

    #[test]
    fn a_header_has_at_most_64_kibibytes() {
        let (mut header, _) = made();
        let empty = header.to_bytes().len() - header.wraps[0].wrapped.0.len();
        // A longer length takes one byte more.
        for (bytes, is_fine) in [(HEADER_BYTES_MAX, true), (HEADER_BYTES_MAX + 1, false)] {
            header.wraps[0].wrapped.0 = vec![7; bytes - empty - 1];
            assert_eq!(header.to_bytes().len(), bytes);
            assert_eq!(Header::from_bytes(&header.to_bytes()).is_ok(), is_fine, "{bytes} bytes");
        }
    }

    #[test]
    fn a_key_and_a_passphrase_lead_to_the_same_k() {
        let (header, key) = made();
        let both = header.rewrap(&key, WrapKind::Key, &x(5), 0, &mut SeededRandom::new(3)).unwrap();
        assert_eq!(both.unwrap(WrapKind::Passphrase, &x(1)).unwrap().0, key.0);
        assert_eq!(both.unwrap(WrapKind::Key, &x(5)).unwrap().0, key.0);
        let rounds = |header: &Header| [WrapKind::Passphrase, WrapKind::Key].map(|by| header.rounds(by).ok());
        assert_eq!((rounds(&header), rounds(&both)), ([Some(ROUNDS), None], [Some(ROUNDS), Some(0)]));
    }

    #[test]
    fn a_new_passphrase_keeps_k_and_ends_the_old_one() {
        let (header, key) = made();
        let next =
            header.rewrap(&key, WrapKind::Passphrase, &x(5), ROUNDS, &mut SeededRandom::new(3)).unwrap();
        assert_eq!(next.unwrap(WrapKind::Passphrase, &x(5)).unwrap().0, key.0);
        assert_eq!(code(next.unwrap(WrapKind::Passphrase, &x(1))), Code::WrongPassphrase);
        assert_eq!(next.store_id(), header.store_id());
    }
}
