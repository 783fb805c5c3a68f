//! The columns that are sealed with the data of a document. They say whether it is a tombstone, and when its lives end. They
//! hold its memberships and the values of its indexes.
//!
//! They are in the plaintext. So a reader that has looked up a membership, and not the row, can still tell whether the document
//! belongs there. Equal columns have equal bytes:
//!
//! - one byte: 1 for a tombstone, 2 with `max_life`, 4 with `ttl`, 8 with values of indexes;
//! - those of `max_life` and `ttl` that there are, in eight bytes each;
//! - SHA-256 of the values of indexes, if there are any: nobody looks for one of them here;
//! - each collection: its name, the number of hashes, and the hashes. Each text is preceded by its length;
//! - the number of all these bytes, in four.

use escale::model::{Def, DefKind};
use sha2::{Digest, Sha256};

use crate::provider::{Change, ChangeState, Document, Entry, EntryValue};

const DELETED: u8 = 1;
const HAS_LIFE: u8 = 2;
const HAS_TTL: u8 = 4;
const HAS_ENTRIES: u8 = 8;
const DIGEST_BYTES: usize = 32;

/// The columns of a document.
pub(super) fn of(document: &Document) -> Vec<u8> {
    let Document { deleted, max_life, ttl, shown, .. } = document;
    let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
    let mut row = Vec::with_capacity(64);
    row.push(
        flag(*deleted, DELETED)
            | flag(max_life.is_some(), HAS_LIFE)
            | flag(ttl.is_some(), HAS_TTL)
            | flag(!shown.entries.is_empty(), HAS_ENTRIES),
    );
    for number in [max_life, ttl].into_iter().flatten() {
        row.extend_from_slice(&number.to_be_bytes());
    }
    if !shown.entries.is_empty() {
        row.extend_from_slice(&digest_of(&shown.entries));
    }
    for (collection, hashes) in &shown.links {
        put_text(&mut row, collection);
        put_number(&mut row, hashes.len());
        for hash in hashes {
            put_text(&mut row, hash);
        }
    }
    let bytes = row.len();
    put_number(&mut row, bytes);
    row
}

/// The place in opened bytes where the columns begin. None if they do not end with columns.
pub(super) fn begin(opened: &[u8]) -> Option<usize> {
    let (rest, bytes) = opened.split_last_chunk::<4>()?;
    rest.len().checked_sub(u32::from_be_bytes(*bytes) as usize)
}

/// Whether these columns are those of that change of a def.
pub(super) fn describes(row: &[u8], def: &Def, change: &Change) -> bool {
    is_of_change(row, def, change).unwrap_or(false)
}

fn is_of_change(row: &[u8], def: &Def, change: &Change) -> Option<bool> {
    let (flags, mut rest) = row.split_first()?;
    let mut number = |flag: u8| match flags & flag {
        0 => Some(None),
        _ => take(&mut rest, 8)?.try_into().ok().map(u64::from_be_bytes).map(Some),
    };
    let (max_life, _) = (number(HAS_LIFE)?, number(HAS_TTL)?);
    if flags & HAS_ENTRIES != 0 {
        take(&mut rest, DIGEST_BYTES)?;
    }
    let state = if flags & DELETED == 0 { ChangeState::Alive } else { ChangeState::Deleted };
    let is_there = match def.kind() {
        DefKind::Class | DefKind::Document(_) => true,
        DefKind::Collection(name, hash) => is_member(rest, name.as_str(), hash.as_str())?,
    };
    Some(is_there && (state, max_life) == (change.state, change.max_life))
}

/// Whether a document is a member of a collection under that hash.
fn is_member(mut rest: &[u8], collection: &str, hash: &str) -> Option<bool> {
    // Four bytes are left at the end: the number of all.
    while rest.len() > 4 {
        let is_own = take_text(&mut rest)? == collection.as_bytes();
        for _ in 0..take_number(&mut rest)? {
            if take_text(&mut rest)? == hash.as_bytes() && is_own {
                return Some(true);
            }
        }
    }
    Some(false)
}

fn digest_of(entries: &[Entry]) -> [u8; DIGEST_BYTES] {
    let mut bytes = Vec::with_capacity(64 * entries.len());
    for Entry { index, value } in entries {
        put_text(&mut bytes, index);
        match value {
            EntryValue::Int(int) => {
                bytes.push(0);
                bytes.extend_from_slice(&int.to_be_bytes());
            }
            EntryValue::Float(float) => {
                bytes.push(1);
                bytes.extend_from_slice(&float.to_bits().to_be_bytes());
            }
            EntryValue::Text(text) => {
                bytes.push(2);
                put_text(&mut bytes, text);
            }
        }
    }
    Sha256::digest(&bytes).into()
}

/// Adds a text after its length.
pub(super) fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put_number(bytes, text.len());
    bytes.extend_from_slice(text.as_bytes());
}

fn put_number(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&(number as u32).to_be_bytes());
}

fn take<'b>(rest: &mut &'b [u8], bytes: usize) -> Option<&'b [u8]> {
    rest.split_off(..bytes)
}

fn take_number(rest: &mut &[u8]) -> Option<u32> {
    take(rest, 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn take_text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let bytes = take_number(rest)?;
    take(rest, bytes as usize)
}
