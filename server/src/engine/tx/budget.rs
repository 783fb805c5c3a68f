//! The bytes that a request may add to the database: ten times its own, and 64 KiB.
//!
//! They are counted as the columns of the rows have them, without the org. A row that replaces another one counts as the
//! difference. Functions of the application are trusted: their writes follow from no bytes of the request.

use escale::codec::Op;
use escale::model::{Number, Value};
use escale::{Code, Error, Result};

use crate::provider::{Document, EntryValue, FeedRow, Place, Shown};

/// Bytes that each byte of a request may add.
const GROWTH_FACTOR: i64 = 10;

/// Bytes that any request may add.
const GROWTH_BYTES: i64 = 64 << 10;

/// Bytes of a number, and of the few others that a row has.
const NUMBER: usize = 8;

/// The bytes that a request with these operations may add.
pub(in crate::engine) fn allowance(ops: &[Op]) -> i64 {
    let sent: usize = ops.iter().map(|op| op.id.len() + op.name.len() + least_bytes(&op.args)).sum();
    sent as i64 * GROWTH_FACTOR + GROWTH_BYTES
}

/// The fewest bytes in which a message can have a value.
fn least_bytes(value: &Value) -> usize {
    1 + match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::Array(items) => items.iter().map(least_bytes).sum(),
        Value::Map(map) => map.iter().map(|(name, value)| 1 + name.len() + least_bytes(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(Number::Int(-32..128)) => 0,
        Value::Number(Number::Int(_)) => 1,
        // As text, it has a point or an exponent, and a comma follows.
        Value::Number(Number::Float(_)) => 3,
    }
}

/// The bytes of a document's row.
pub(in crate::engine) fn row_bytes(at: Place, document: &Document) -> i64 {
    (at.class.len() + at.pk.len() + 5 * NUMBER + shown_bytes(&document.shown) + document.data.len()) as i64
}

/// At least the bytes of these columns as text.
fn shown_bytes(shown: &Shown) -> usize {
    let links = shown
        .links
        .iter()
        .map(|(name, hashes)| name.len() + NUMBER + hashes.iter().map(|hash| hash.len() + 3).sum::<usize>());
    let entries =
        shown.entries.iter().map(|entry| 3 * NUMBER + entry.index.len() + value_bytes(&entry.value));
    links.sum::<usize>() + entries.sum::<usize>()
}

fn value_bytes(value: &EntryValue) -> usize {
    match value {
        EntryValue::Text(text) => text.len(),
        EntryValue::Int(_) | EntryValue::Float(_) => 3 * NUMBER,
    }
}

/// The bytes of the memberships and the values of indexes that a document has now and had not before.
pub(in crate::engine) fn added_rows(at: Place, old: &Shown, new: &Shown) -> i64 {
    let own = at.class.len() + at.pk.len() + 3 * NUMBER;
    let links = new.links.iter().map(|(name, hashes)| {
        let had = old.links.get(name).map_or(&[][..], Vec::as_slice);
        let fresh = hashes.iter().filter(|hash| had.binary_search(hash).is_err());
        fresh.map(|hash| own + name.len() + hash.len()).sum::<usize>()
    });
    let entries = new.entries.iter().filter(|entry| !old.entries.contains(entry));
    let entries = entries.map(|entry| own + entry.index.len() + value_bytes(&entry.value));
    (links.sum::<usize>() + entries.sum::<usize>()) as i64
}

/// The bytes of a row of the feed.
pub(in crate::engine) fn feed_bytes(row: &FeedRow) -> i64 {
    let links = row
        .links
        .iter()
        .map(|(name, hashes)| name.len() + NUMBER + hashes.iter().map(|hash| hash.len() + 3).sum::<usize>());
    (row.class.len() + row.pk.len() + 2 * NUMBER + links.sum::<usize>()) as i64
}

/// The bytes that a write has added, and its bound.
#[derive(Default)]
pub(in crate::engine) struct Growth {
    /// It may fall: a document can become smaller.
    pub(in crate::engine) added: i64,
    /// The most that it may add; no bound without a request.
    pub(in crate::engine) most: Option<i64>,
    /// Whether it met the bound.
    pub(in crate::engine) is_over: bool,
    /// Whether a function of the application has written. Then nothing tells whose trees and counters these are.
    pub(in crate::engine) has_trusted: bool,
}

impl Growth {
    /// Counts nothing: a function of the application writes.
    pub(in crate::engine) fn of_application() -> Self {
        Growth { has_trusted: true, ..Growth::default() }
    }

    /// Counts on after a function of the application.
    pub(in crate::engine) fn after_application(self) -> Self {
        Growth { has_trusted: true, ..self }
    }

    /// Counts bytes that are about to be written. Errors: `too_large` above the bound.
    pub(in crate::engine) fn add(&mut self, bytes: i64) -> Result<()> {
        self.added += bytes;
        if self.most.is_none_or(|most| self.added <= most) {
            return Ok(());
        }
        self.is_over = true;
        let what =
            "an operation may store ten times its bytes and 64 KiB: its lists have very many short values";
        Err(Error::new(Code::TooLarge, what))
    }

    /// Counts bytes that a write adds once, for all its documents together.
    pub(in crate::engine) fn add_at_end(&mut self, bytes: i64) -> Result<()> {
        if self.has_trusted { Ok(()) } else { self.add(bytes) }
    }
}
