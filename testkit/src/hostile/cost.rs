//! The cost of reading: every allocation of this thread is counted, and must be in proportion to the bytes
//! received.
//!
//! No clock is used. A decoder that works for long shows it in its allocations. Work without allocations is
//! bounded by the length of the input, which the targets bound in turn.

#![allow(unsafe_code)] // a counting allocator cannot be written otherwise

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use super::doors::Door;

/// Bytes held at once for each byte received. The most expensive input is a map of one entry, three bytes in
/// msgpack: its entry as nodes, then a tree node with room for eleven. A door holds it twice, to compare.
const HELD_PER_BYTE: usize = 640;

/// Allocations for each byte received.
const CALLS_PER_BYTE: usize = 8;

/// The cost allowed even for empty input: the room that serde reserves ahead for a list, 1 MiB at most, and
/// the texts of errors.
const HELD_ALWAYS: usize = 2 << 20;
const CALLS_ALWAYS: usize = 200;

/// Counts the allocations of a thread.
pub struct Counting;

#[derive(Clone, Copy, Default)]
struct Count {
    held: usize,
    most: usize,
    calls: usize,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { held: 0, most: 0, calls: 0 }) };
}

fn count(change: impl FnOnce(&mut Count)) {
    // A thread that ends frees its memory after its counters are gone.
    let _ = COUNT.try_with(|cell| {
        let mut count = cell.get();
        change(&mut count);
        cell.set(count);
    });
}

// SAFETY: every call goes to the system's allocator unchanged; the counters do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(|count| {
            count.held = count.held.wrapping_add(layout.size());
            count.most = count.most.max(count.held);
            count.calls += 1;
        });
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // This thread may free memory that another thread allocated: the count must not go below zero.
        count(|count| count.held = count.held.saturating_sub(layout.size()));
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The most bytes held at once during `run`, above those held before, and the number of its allocations.
pub fn of<T>(run: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = COUNT.get();
    COUNT.set(Count { most: before.held, ..before });
    let result = run();
    let after = COUNT.get();
    (result, after.most - before.held, after.calls - before.calls)
}

/// Tests a door with these bytes. Panics if that costs more than allowed.
pub fn knock(door: &Door, bytes: &[u8]) -> bool {
    let (is_read, held, calls) = of(|| (door.read)(bytes));
    let size = (door.size)(bytes);
    assert!(held <= HELD_PER_BYTE * size + HELD_ALWAYS, "{held} bytes held for {size} of {}", door.name);
    assert!(calls <= CALLS_PER_BYTE * size + CALLS_ALWAYS, "{calls} allocations for {size} of {}", door.name);
    is_read
}
