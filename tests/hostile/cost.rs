//! What reading costs: every allocation of this thread is counted, and must be in proportion to what was received.
//!
//! No clock is looked at. What a decoder does for long shows in what it allocates, and what it does without allocating
//! is bounded by the length of what it reads, which the targets bound in turn.

#![allow(unsafe_code)] // a counting allocator cannot be written otherwise

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use super::doors::Door;

/// Bytes held at once for each byte received. The dearest thing that bytes can say is a map of one entry, three bytes in
/// msgpack: its entry as nodes, then a node of a tree that has room for eleven. A door holds it twice, to compare.
const HELD_PER_BYTE: usize = 640;

/// Allocations for each byte received.
const CALLS_PER_BYTE: usize = 8;

/// What even nothing may cost: the room that serde reserves ahead for a list, 1 MiB at most, and texts of errors.
const HELD_ALWAYS: usize = 2 << 20;
const CALLS_ALWAYS: usize = 200;

/// Counts what a thread allocates.
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
    // A thread that ends frees what it has after its counters are gone.
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
        // What another thread allocated may be freed by this one: below nothing.
        count(|count| count.held = count.held.saturating_sub(layout.size()));
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// The most bytes held at once while that runs, over those held before, and how many allocations it made.
pub fn of<T>(run: impl FnOnce() -> T) -> (T, usize, usize) {
    let before = COUNT.get();
    COUNT.set(Count { most: before.held, ..before });
    let result = run();
    let after = COUNT.get();
    (result, after.most - before.held, after.calls - before.calls)
}

/// Knocks at a door with these bytes. Panics where it costs more than they may.
pub fn knock(door: &Door, bytes: &[u8]) -> bool {
    let (is_read, held, calls) = of(|| (door.read)(bytes));
    let size = (door.size)(bytes);
    assert!(held <= HELD_PER_BYTE * size + HELD_ALWAYS, "{held} bytes held for {size} of {}", door.name);
    assert!(calls <= CALLS_PER_BYTE * size + CALLS_ALWAYS, "{calls} allocations for {size} of {}", door.name);
    is_read
}
