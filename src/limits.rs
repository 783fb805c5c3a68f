//! Every bound of the product in one place, each with its reason.

/// Depth of nested arrays and maps in a value. Deep enough for any record that people write by hand, and far
/// from the end of the stack in wasm (1 MiB by default).
pub const VALUE_DEPTH_MAX: usize = 32;

/// Bytes of one document's `data`: as many as a page of the protocol can hold.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// Bytes of a reply or socket frame that a session accepts. A page stops at [`PAGE_BYTES`], but one document
/// can exceed it, and `present` lists 25 bytes for each member.
pub const REPLY_BYTES_MAX: usize = 32 << 20;

/// Bytes of a request that a server accepts.
pub const REQUEST_BYTES_MAX: usize = 4 << 20;

/// Bytes of rows after which a reply stops and gives a cursor (docs/protocol.md).
pub const PAGE_BYTES: usize = 1 << 20;

/// Bytes of rows in the first page of a load: a slow line brings it within a second. Each further page may have four
/// times as many, up to [`PAGE_BYTES`].
pub const FIRST_PAGE_BYTES: usize = 64 << 10;

/// Bytes of the results of a reply in msgpack. Each conflict includes a document, and 500 of them would
/// exceed [`REPLY_BYTES_MAX`].
pub const RESULTS_BYTES_MAX: usize = 4 << 20;

/// Bytes of one operation's arguments: in JSON, with bytes as base64, still within [`REQUEST_BYTES_MAX`].
pub const OPERATION_BYTES_MAX: usize = 2 << 20;

/// Bytes of the operations in one request, unless a single one is larger: a common bound of proxies.
pub const OPS_BYTES_MAX: usize = 1 << 20;

/// Bytes of operations in the first request: a line of 8 KB a second carries them within the 10 s that the most impatient
/// proxies allow. A request of no more than the second number that fails tells nothing of the line.
pub const PIECE_BYTES: (usize, usize) = (64 << 10, 4 << 10);

/// Milliseconds in which a request shows a fast line: the next one may have four times its bytes, and takes 10 s at most.
pub const QUICK_MS: u64 = 2_500;

/// Bytes of a subscription in a request, roughly: so a slow line carries fewer of them as well.
pub const SUB_BYTES: usize = 64;

/// Subscriptions in the first message of a socket, for which a server waits 10 s. A line of 1 KB a second carries them.
pub const FIRST_SUBS_MAX: usize = 64;

/// How many requests may pass an operation that is larger than a slow line carries in one piece.
pub const PASSES_MAX: u8 = 8;

/// Deletions that a session remembers, so that it can refuse a patch of such a document at the call. They
/// take a megabyte at most.
pub const TOMBSTONES_MAX: usize = 10_000;

/// Operations in one request (docs/protocol.md).
pub const OPS_MAX: usize = 500;

/// Subscriptions in one request, and in one message of the socket.
pub const SUBS_MAX: usize = 1_000;

/// Most bytes of one subscription in msgpack: its cursor, a def of two names and a hash, a version.
const SUB_BYTES_MAX: usize = TEXT_CHARS_MAX + 2 * NAME_CHARS_MAX + 128;

// The largest request of a session has one operation of the greatest size and all its subscriptions. A server
// must accept it.
const _: () = assert!(
    OPERATION_BYTES_MAX + OPERATION_BYTES_MORE + SUBS_MAX * SUB_BYTES_MAX + 4_096 <= REQUEST_BYTES_MAX
        && OPS_BYTES_MAX <= OPERATION_BYTES_MAX
);

/// Most bytes of an operation in msgpack, without its arguments: its id, the id of the one that it depends
/// on, its name, two numbers.
const OPERATION_BYTES_MORE: usize = 2 * TEXT_CHARS_MAX + NAME_CHARS_MAX + 128;

/// Characters of a name (class, collection, property).
pub const NAME_CHARS_MAX: usize = 64;

/// Characters of an org's code, an account, a session's name, an id, a cursor.
pub const TEXT_CHARS_MAX: usize = 1_024;

/// Classes in a schema, and collections or indexes in a class.
pub const SCHEMA_ITEMS_MAX: usize = 256;

/// Classes of items in one class: a session pulls all subscribed defs of a tree in one request.
pub const ITEM_CLASSES_MAX: usize = 32;

/// Characters of an item's key behind its parent's (seed 004).
pub const ITEM_KEY_CHARS_MAX: usize = 255;

/// Bytes of a chunk: a file is cut there. A reader checks a chunk before it keeps it, so a lying server costs one.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Bytes of a file: as many as a list of digests describes that is itself no larger than a chunk.
pub const FILE_BYTES_MAX: u64 = 1 << 35;

/// Files that a document references: more are items of a class with one `file`.
pub const FILES_MAX: usize = 1_000;

/// Local documents on a device, and the bytes of their data: each opening reads them all.
pub const LOCAL_DOCUMENTS_MAX: usize = 2_000;
/// See [`LOCAL_DOCUMENTS_MAX`].
pub const LOCAL_BYTES_MAX: usize = 16 << 20;

/// The writes before it that the record of a local document names, in addition to those of its own batch. The session does
/// not carry them out a second time.
pub const LOCAL_REPLACED_MAX: usize = 16;

/// How often a session uploads the files of an operation again because the server lacks them.
pub const UPLOADS_AGAIN_MAX: usize = 3;

/// Names of objects in one request about files.
pub const HAVE_MAX: usize = 1_000;

/// Living items of one parent. `present` lists them all in one reply.
pub const ITEMS_MAX: usize = 100_000;

/// The greatest version, and the greatest integer that is exact in JavaScript: 2^53 - 1.
pub const VERSION_MAX: u64 = (1 << 53) - 1;

/// Milliseconds between two pulls of every def, on average of all sessions (docs/protocol.md).
pub const PULL_EVERY_MS: u64 = 5 * 60_000;

/// The interval of the session of that name: up to a fifth less or more. Sessions that came back together would otherwise
/// pull together for ever (R43).
pub fn pull_every_ms(session: &str) -> u64 {
    let share = session.bytes().fold(0, |sum: u64, byte| (sum * 31 + u64::from(byte)) % 401);
    PULL_EVERY_MS * (800 + share) / 1_000
}

/// Milliseconds: a session does not let the server put off its return for longer (R43).
pub const SPREAD_MAX_MS: u64 = 60_000;

/// Milliseconds between two pulls of every def while no socket announces all their changes, unless the
/// application chooses another interval (docs/protocol.md).
pub const POLL_EVERY_MS: u64 = 30_000;

/// Milliseconds of silence after which the session drops a socket (docs/protocol.md).
pub const SOCKET_SILENCE_MS: u64 = 25_000;

/// Milliseconds without an answer after which the session aborts a request, in addition to the time of its bytes.
pub const REQUEST_TIMEOUT_MS: u64 = 60_000;

/// Milliseconds for which a line may carry so many bytes: one of less than 800 bytes a second counts as dead. So a line of
/// 1 KB a second carries even the largest request.
pub const fn line_ms(bytes: usize) -> u64 {
    (bytes + bytes / 4) as u64
}

/// First and greatest delay of the reconnection, before jitter.
pub const BACKOFF_MS: (u64, u64) = (100, 30_000);

/// Number of damaged documents of one collection above which the whole collection is requested again (R14).
pub const DAMAGED_DOCUMENTS_MAX: usize = 100;

/// Fewest and most rounds of PBKDF2 that a store's header may demand. Fewer are too weak, and more would let
/// a tampered header block the page.
pub const KDF_ROUNDS: (u32, u32) = (600_000, 10_000_000);
