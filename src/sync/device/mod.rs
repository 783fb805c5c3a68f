//! The device: the batch in flight, and the handle of the store.

mod flush;
mod recovery;

pub use flush::{Device, Flushed};
pub use recovery::Reopening;
