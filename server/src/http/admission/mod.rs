//! How much of the server a caller may have.
//!
//! A request pays before it gets anything that others lack. Its body arrives first, at a least rate, in memory that is
//! bounded for all together. Then it takes a place, for the time of the work alone. Its reply leaves as slowly as the caller
//! reads, again in bounded memory. Where room is short, the caller who takes most of it gives some up.

mod gate;
mod leaving;
mod lines;
mod messages;
mod request_cost;
mod visit;

pub(super) use gate::{Gate, Holder};
#[cfg(test)]
pub(super) use gate::{Place, Slot};
pub(super) use messages::{message_bytes_max, read_message, turn_of_message};
pub(super) use request_cost::{HEAVY_BYTES_MAX, HeavyLane, LIGHT_BYTES_MAX, memory_of};
pub(super) use visit::{LEAST_RATE, Traffic, Visit};
