//! The doors: one for each kind of bytes that come from outside. The fuzz targets (`fuzz/targets`) and the
//! replay of the corpus use them.
//!
//! A door reads the bytes as the product does, and says whether they were valid. Valid input is written
//! again, and must read back the same. A decoder that accepts more than its encoder writes would give one
//! value two forms.

use std::fmt::Debug;

use super::session::session;
use escale::Result;
use escale::codec::{
    Data, Decode, Encode, FilesRequest, Format, LiveRequest, ServerFrame, SyncReply, SyncRequest, decode,
    encode, pack,
};
use escale::crypto::{AccountKey, DerivedKey, Header, SeededRandom, StoreKeys, WrapKind};
use escale::journal::{JournalRecord, Request};
use escale::limits::REPLY_BYTES_MAX;
use escale::model::schema::Schema;
use escale::model::{Name, Value};
use escale::storage::decoders::{HighWater, PAGE_BYTES_MAX, StateRecord, decode_page, encode_page};
use escale::store::Table;
use sha2::{Digest, Sha256};

/// A kind of bytes.
#[derive(Clone, Copy)]
pub struct Door {
    /// The name of the fuzz target, and of the folder of its corpus.
    pub name: &'static str,
    /// Reads the bytes. Returns whether they were valid.
    pub read: fn(&[u8]) -> bool,
    /// The number of bytes that its memory must be in proportion to.
    pub size: fn(&[u8]) -> usize,
}

/// All of them.
pub const DOORS: [Door; 17] = [
    door("row", row),
    Door { size: unpacked, ..door("page", page) },
    door("header", header),
    door("journal", journal),
    door("state", state),
    door("mark", mark),
    door("inbox", inbox),
    door("sealed", sealed),
    door("reply", reply),
    door("frame", frame),
    door("request", request),
    door("have", have),
    door("live", live),
    door("json", json),
    door("msgpack", msgpack),
    door("schema", schema),
    // Its fixed work costs as much as reading this many bytes.
    Door { size: |bytes| bytes.len() + (32 << 10), ..door("session", session) },
];

const fn door(name: &'static str, read: fn(&[u8]) -> bool) -> Door {
    Door { name, read, size: <[u8]>::len }
}

/// A document's data.
pub fn row(bytes: &[u8]) -> bool {
    let Ok(data) = Data::from_bytes(bytes) else { return false };
    let name = Name::new("id").expect("a name");
    let (map, picked, mut json) = (data.to_map(), data.pick(&[&name]), Vec::new());
    let is_written = data.write_json(&mut json).is_ok();
    assert_eq!((map.is_ok(), map.is_ok()), (picked.is_ok(), is_written), "what one reads, all read");
    let Ok(map) = map else { return false };
    let picked = picked.expect("as the whole");
    assert_eq!(picked.get("id"), map.get("id"));
    let again = Data::from_map(&map).and_then(|again| again.to_map()).expect("it can be written");
    assert_eq!(again, map);
    let of_json = decode::<Data>(Format::Json, &json, usize::MAX).and_then(|data| data.to_map());
    assert_eq!(of_json.expect("it reads back from JSON"), map);
    true
}

/// The plain bytes of a page.
pub fn page(bytes: &[u8]) -> bool {
    let Ok(rows) = decode_page(bytes) else { return false };
    let again = encode_page(&rows).and_then(|bytes| decode_page(&bytes));
    assert_eq!(again.expect("it reads back"), rows);
    true
}

/// The size that a page claims to unpack into, as far as decoders believe it.
fn unpacked(bytes: &[u8]) -> usize {
    match bytes.split_first_chunk::<5>() {
        // Snappy gives the length with seven bits in each byte, the lowest first.
        Some(([1, size @ ..], _)) => {
            let told = size.iter().scan(true, |goes_on, byte| {
                std::mem::replace(goes_on, byte & 0x80 != 0).then_some(usize::from(byte & 0x7f))
            });
            let size = told.enumerate().fold(0, |size, (at, bits)| size | bits << (7 * at));
            let is_believed = size <= PAGE_BYTES_MAX && size <= bytes.len().saturating_mul(24);
            bytes.len() + if is_believed { size } else { 0 }
        }
        _ => bytes.len(),
    }
}

/// A store's header: first as it is, then as the body of a header with a correct checksum, because anybody
/// can compute one.
pub fn header(bytes: &[u8]) -> bool {
    let mut made = [b"ESCL\x00\x01", bytes].concat();
    made.extend_from_slice(&Sha256::digest(&made));
    let read = [Header::from_bytes(bytes), Header::from_bytes(&made)];
    let is_read = read.iter().any(Result::is_ok);
    for header in read.into_iter().flatten() {
        for by in [WrapKind::Passphrase, WrapKind::Key] {
            let _ = header.rounds(by);
            assert!(
                header.unwrap(by, &DerivedKey::from_bytes([1; 32])).is_err(),
                "a key that was never given"
            );
        }
        let written = header.to_bytes();
        assert_eq!(Header::from_bytes(&written).expect("it reads back").to_bytes(), written);
    }
    is_read
}

/// The plain bytes of a journal record.
pub fn journal(bytes: &[u8]) -> bool {
    reads_back(JournalRecord::decode(bytes), JournalRecord::encode, JournalRecord::decode)
}

/// The plain bytes of a state record.
pub fn state(bytes: &[u8]) -> bool {
    reads_back(StateRecord::decode(bytes), StateRecord::encode, StateRecord::decode)
}

/// The plain bytes of a high-water mark.
pub fn mark(bytes: &[u8]) -> bool {
    let Some(mark) = HighWater::decode(bytes) else { return false };
    let written = pack(&mark).expect("a mark");
    assert_eq!(HighWater::decode(&written), Some(mark));
    true
}

/// The plain bytes of a request of the inbox.
pub fn inbox(bytes: &[u8]) -> bool {
    reads_back(Request::decode(bytes), Request::encode, Request::decode)
}

/// A sealed record of any table: without K, nobody can make one that opens.
pub fn sealed(bytes: &[u8]) -> bool {
    thread_local!(static KEYS: StoreKeys = keys());
    KEYS.with(|keys| {
        let place = keys.record_key(Table::Pages, 7);
        let is_open = |table| keys.open(table, place, bytes).is_ok();
        [Table::State, Table::Journal, Table::Inbox].into_iter().for_each(|table| assert!(!is_open(table)));
        is_open(Table::Pages)
    })
}

/// The keys of the sealed records of the corpus.
pub fn keys() -> StoreKeys {
    let key = AccountKey::make(&mut SeededRandom::new(7)).expect("a key");
    StoreKeys::derive(&key, &[7; 16])
}

/// A server's reply.
pub fn reply(bytes: &[u8]) -> bool {
    message(bytes, SyncReply::check)
}

/// A server's message on the socket.
pub fn frame(bytes: &[u8]) -> bool {
    message(bytes, |frame: &ServerFrame| match frame {
        ServerFrame::Parts(parts) => parts.check(),
        _ => Ok(()),
    })
}

/// A request to a server.
pub fn request(bytes: &[u8]) -> bool {
    message(bytes, SyncRequest::check)
}

/// A question about the objects of files.
pub fn have(bytes: &[u8]) -> bool {
    message(bytes, FilesRequest::check)
}

/// A session's message on the socket.
pub fn live(bytes: &[u8]) -> bool {
    message(bytes, |_: &LiveRequest| Ok(()))
}

/// A value in JSON: msgpack must be able to express it.
pub fn json(bytes: &[u8]) -> bool {
    crosses(bytes, Format::Json, Format::Msgpack)
}

/// A value in msgpack: JSON must be able to express it.
pub fn msgpack(bytes: &[u8]) -> bool {
    crosses(bytes, Format::Msgpack, Format::Json)
}

/// A schema.
pub fn schema(bytes: &[u8]) -> bool {
    let Some(Ok(schema)) = std::str::from_utf8(bytes).ok().map(Schema::from_json) else { return false };
    assert_eq!(Schema::from_json(&schema.to_json()).expect("it reads back"), schema);
    schema.check_follows(&schema).expect("it follows itself");
    true
}

fn reads_back<T: PartialEq + Debug>(
    read: Result<T>,
    encode: fn(&T) -> Result<Vec<u8>>,
    decode: fn(&[u8]) -> Result<T>,
) -> bool {
    let Ok(read) = read else { return false };
    let again = encode(&read).and_then(|bytes| decode(&bytes));
    assert_eq!(again.expect("it reads back"), read);
    true
}

/// A message in either format.
fn message<T>(bytes: &[u8], check: impl Fn(&T) -> Result<()>) -> bool
where
    T: Encode + Decode + PartialEq + Debug,
{
    let mut is_read = false;
    for format in [Format::Msgpack, Format::Json] {
        let Ok(read) = decode::<T>(format, bytes, REPLY_BYTES_MAX) else { continue };
        is_read |= check(&read).is_ok();
        let written = encode(format, &read).expect("what was read can be written");
        assert_eq!(decode::<T>(format, &written, usize::MAX).expect("it reads back"), read);
    }
    is_read
}

fn crosses(bytes: &[u8], from: Format, to: Format) -> bool {
    let Ok(value) = decode::<Value>(from, bytes, REPLY_BYTES_MAX) else { return false };
    for form in [from, to] {
        let written = encode(form, &value).expect("what was read can be written");
        assert_eq!(decode::<Value>(form, &written, usize::MAX).expect("it reads back"), value, "{form:?}");
    }
    true
}
