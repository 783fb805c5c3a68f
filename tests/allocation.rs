//! False lengths: a message of a few bytes that claims gigabytes must not be believed. Every allocation of
//! this test's own process is counted.

#![cfg(not(target_family = "wasm"))] // needs a machine
#![allow(clippy::pedantic)]
#![allow(unsafe_code)] // a counting allocator cannot be written otherwise

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use escale::codec::{Data, Format, LiveRequest, ServerFrame, SyncReply, SyncRequest, decode};
use escale::crypto::Header;
use escale::model::Value;
use escale::model::schema::Schema;
use escale::storage::decoders::{StateRecord, decode_page};

struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most bytes held at once during `run`, above those held before.
fn most(run: impl FnOnce()) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    run();
    MOST.load(Ordering::Relaxed) - before
}

/// Reads the bytes as every kind of input from outside.
fn read_all(bytes: &[u8]) {
    for format in [Format::Msgpack, Format::Json] {
        let _ = decode::<SyncReply>(format, bytes, 32 << 20);
        let _ = decode::<SyncRequest>(format, bytes, 32 << 20);
        let _ = decode::<ServerFrame>(format, bytes, 32 << 20);
        let _ = decode::<LiveRequest>(format, bytes, 32 << 20);
        let _ = decode::<Value>(format, bytes, 32 << 20);
    }
    let _ = Data::from_bytes(bytes).map(|data| data.to_map());
    let _ = StateRecord::decode(bytes);
    let _ = decode_page(bytes);
    let _ = Header::from_bytes(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Schema::from_json(text);
    }
}

/// The cost allowed for a few bytes: serde reserves a little ahead for a sequence.
const A_LITTLE: usize = 4 << 20;

// A single test, so that nothing else allocates meanwhile.
#[test]
fn no_allocation_is_out_of_proportion_to_what_was_received() {
    let huge = u32::MAX.to_be_bytes();
    for marker in [0xc6u8, 0xdb, 0xdd, 0xdf, 0xc9] {
        let claim = [&[marker][..], &huge].concat();
        let inside: [&[u8]; 6] = [
            b"",
            b"\x81\xa5parts",
            b"\x81\xa4subs",
            b"\x81\xa5parts\x91\x81\xa4rows",
            b"\x81\xa5parts\x91\x81\xa4rows\x91\x81\xa4data",
            b"\x94\x00\x00\x00",
        ];
        for before in inside {
            for times in [1, 3, 30] {
                let bytes = [before, &claim.repeat(times)].concat();
                let cost = most(|| read_all(&bytes));
                assert!(cost < A_LITTLE, "{cost} bytes for {} of {marker:#x} after {before:?}", bytes.len());
            }
        }
    }
    // Nested arrays, each of which claims to be long. Reservations at every level would multiply.
    for open in
        [&[0xdd, 0xff, 0xff, 0xff, 0xff][..], &[0xdc, 0xff, 0xff], &[0x81, 0xa1, b'k', 0xdc, 0xff, 0xff]]
    {
        let bytes = open.repeat(5_000);
        let cost = most(|| read_all(&bytes));
        assert!(cost < A_LITTLE, "{cost} bytes for {}", bytes.len());
    }
    // The same with claims that could be true: each array reserves for everything that follows it.
    let len = 1_000_000_u32;
    let open = (0..40).flat_map(|depth| [&[0xdd][..], &(len - 5 * (depth + 1)).to_be_bytes()].concat());
    let mut bytes: Vec<u8> = open.collect();
    bytes.resize(len as usize, 0xc1);
    let cost = most(|| read_all(&bytes));
    assert!(cost < A_LITTLE, "{cost} bytes for {}", bytes.len());
    // A page that claims to unpack into more than it can.
    for size in [&[0x80, 0x80, 0x40][..], &[0x80, 0x80, 0x80, 0x02], &[0xff, 0xff, 0xff, 0xff, 0x0f]] {
        let bytes = [&[1u8][..], size, &[0x1f; 40]].concat();
        let cost = most(|| read_all(&bytes));
        assert!(cost < A_LITTLE, "{cost} bytes for a page that claims {size:x?}");
    }
    // Many small values: the cost of a message is bounded by its size.
    let mut bytes = vec![0xdd];
    bytes.extend_from_slice(&1_000_000u32.to_be_bytes());
    bytes.extend(vec![0xc0; 1_000_000]);
    let cost = most(|| drop(decode::<Value>(Format::Msgpack, &bytes, 32 << 20)));
    assert!(cost < bytes.len() * 130, "{cost} bytes for {}", bytes.len());
}
